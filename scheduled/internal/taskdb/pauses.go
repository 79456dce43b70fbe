package taskdb

import (
	"context"
	"slices"
	"time"

	"github.com/tasktable/tasktable/scheduled/internal/pg"
)

// Pause is a line of the table pauses.
type Pause struct {
	Scope    string // "all", "queue" or "type"
	Name     string
	PausedAt time.Time
	EndsAt   *time.Time
}

// of reports whether the pause stops a queue's tasks of a type.
func (p Pause) of(queue, kind string) bool {
	return p.Scope == "all" || p.Scope == "queue" && p.Name == queue || p.Scope == "type" && p.Name == kind
}

// PausesSQL lists the pauses that are in force at $1, or that ended after $2.
const PausesSQL = `
SELECT p.scope, p.name, p.paused_at, p.ends_at::timestamptz AS ends_at FROM tasktable.pauses AS p
WHERE p.ends_at IS NULL OR p.ends_at > coalesce($2::timestamptz, $1::timestamptz, clock_timestamp())`

// Pauses lists the pauses that are in force now, and those that have ended since the given time.
func (s Queries) Pauses(ctx context.Context, q pg.DB, now, since *time.Time) ([]Pause, error) {
	return pg.CollectRows[Pause](ctx, q, "read pauses", s.Schema.SQL(PausesSQL), now, since)
}

// resumeDueSQL resumes tasks that were paused until a time that has come. If somebody has locked a task, the next
// tick resumes it.
const resumeDueSQL = `
SELECT count(tasktable.resume(due.id, 'leader')) FROM (
    SELECT t.id::text AS id FROM tasktable.scheduled_tasks AS t
    WHERE t.paused_until <= coalesce($1::timestamptz, statement_timestamp()) ORDER BY t.paused_until LIMIT $2::int
        FOR NO KEY UPDATE SKIP LOCKED
) AS due`

// MaxResumed is how many tasks are resumed in one transaction.
const MaxResumed = 100

// ResumeDue resumes tasks whose pause has ended, at most MaxResumed of them. It returns how many it has resumed.
func (s Queries) ResumeDue(ctx context.Context, q pg.DB, now *time.Time) (int, error) {
	return pg.QueryOne[int](ctx, q, "resume tasks whose pause has ended", s.Schema.SQL(resumeDueSQL), now, MaxResumed)
}

// IsPaused reports whether one of the pauses stops a queue's tasks of a type.
func IsPaused(paused []Pause, queue, kind string) bool {
	return slices.ContainsFunc(paused, func(p Pause) bool { return p.of(queue, kind) })
}

// Unpaused leaves out the lanes that are paused. The leader does not look at the tasks of these lanes, however many
// are due.
func Unpaused(lanes []Lane, paused []Pause) []Lane {
	if len(paused) == 0 {
		return lanes
	}
	return slices.DeleteFunc(slices.Clone(lanes), func(l Lane) bool { return IsPaused(paused, l.Queue, l.Type) })
}
