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

// MaxResumed is how many tasks are resumed in one transaction.
const MaxResumed = 200

// It steps over tasks that somebody has locked. The leader resumes them later.
const pauseEndedSQL = `
SELECT t.id::text FROM tasktable.scheduled_tasks AS t
WHERE t.paused_until <= coalesce($1::timestamptz, statement_timestamp()) AND t.id <> ALL ($3::text[])
ORDER BY t.paused_until LIMIT $2::int FOR NO KEY UPDATE SKIP LOCKED`

// PauseEnded lists tasks that were paused until a time that has come, except those in aside.
func (s Queries) PauseEnded(
	ctx context.Context, q pg.DB, now *time.Time, most int, aside ...string,
) ([]string, error) {
	return pg.CollectColumn[string](ctx, q, "list tasks whose pause has ended",
		s.Schema.SQL(pauseEndedSQL), now, most, pg.OrEmpty(aside))
}

// resumeSQL resumes many tasks as the verb resume does one, in a fifth of the time.
const resumeSQL = `
WITH due AS MATERIALIZED (
    SELECT t.id::text AS id FROM tasktable.scheduled_tasks AS t
    WHERE t.id = ANY ($2::text[]) AND t.paused_until <= coalesce($1::timestamptz, statement_timestamp())
        FOR NO KEY UPDATE SKIP LOCKED
), context AS MATERIALIZED (
    SELECT set_config('tasktable_change.context', 'resume' || chr(31) || 'leader', true)
), resumed AS (
    UPDATE tasktable.scheduled_tasks AS t SET status = 'QUEUED'
    FROM due, context WHERE t.id = ANY (ARRAY[due.id]) RETURNING t.id::text AS id
)
SELECT due.id, resumed.id IS NOT NULL AS resumed FROM due LEFT JOIN resumed ON resumed.id = due.id`

// Resumed is a task whose pause has ended. It is not resumed if a trigger of the application leaves the write out.
type Resumed struct {
	ID      string
	Resumed bool
}

// Resume resumes those of the tasks whose pause has ended. It sets the change context. Therefore it must run in a
// transaction of its own, or LeaveSQL must follow it.
func (s Queries) Resume(ctx context.Context, q pg.DB, now *time.Time, ids []string) ([]Resumed, error) {
	return pg.CollectRows[Resumed](ctx, q, "resume tasks whose pause has ended", s.Schema.SQL(resumeSQL), now, ids)
}

// ResumeDue resumes tasks whose pause has ended, at most MaxResumed of them. It returns how many it has resumed.
func (s Queries) ResumeDue(ctx context.Context, q pg.DB, now *time.Time) (int, error) {
	ids, err := s.PauseEnded(ctx, q, now, MaxResumed)
	if err != nil || len(ids) == 0 {
		return 0, err
	}
	done, err := s.Resume(ctx, q, now, ids)
	if err != nil {
		return 0, err
	}
	_, err = q.Exec(ctx, LeaveSQL)
	return len(done), pg.Annotate(err, "leave the change context")
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
