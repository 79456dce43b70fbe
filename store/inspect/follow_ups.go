package inspect

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/tasktable/tasktable/store"
	"github.com/tasktable/tasktable/store/internal/check"
	"github.com/tasktable/tasktable/store/internal/query"
)

// FollowUp is a task that the handler of another task asked for.
type FollowUp struct {
	ID          string       `json:"id"`
	Type        string       `json:"type"`
	Status      store.Status `json:"status"`
	ScheduledAt time.Time    `json:"scheduled_at"`
	CreatedAt   time.Time    `json:"created_at"`
	StartedAt   *time.Time   `json:"started_at,omitempty"`
	FinishedAt  *time.Time   `json:"finished_at,omitempty"`
	Message     *string      `json:"message,omitempty"`
}

// maxFollowUps is the maximum length of a list of follow-ups, because a task that runs again and again may have very
// many.
const maxFollowUps = 100

// followUpsSQL puts failed follow-ups first and unfinished ones second, because people want to know about these
// first. It does not read the view follow_ups, because an application's role may not read views.
const followUpsSQL = `
SELECT f.id, f.type, f.status, f.scheduled_at, f.created_at, f.started_at, f.finished_at, f.message
FROM tasktable.scheduled_tasks AS f WHERE f.spawned_by = $1::text
ORDER BY CASE WHEN f.status IN ('FAILED', 'EXPIRED') THEN 0 WHEN f.status <> 'COMPLETED' THEN 1 ELSE 2 END,
    f.created_at DESC, f.id
LIMIT $2::text::int`

// FollowUps lists the tasks that the handler of the given task asked for. First come those that are FAILED or
// EXPIRED, then the others that are not COMPLETED, then the rest. Within each of these groups the latest comes first.
// The list has at most 100 tasks, and only tasks that the database role may read. Retention removes finished
// follow-ups like other tasks.
func (i *Inspector) FollowUps(ctx context.Context, db store.DB, id string) ([]FollowUp, error) {
	if err := check.ID(id); err != nil {
		return nil, fmt.Errorf("follow-ups: %w", err)
	}
	return query.Collect[FollowUp](ctx, i.source, db, "read follow-ups of task "+id, followUpsSQL, id,
		strconv.Itoa(maxFollowUps))
}

func (f FollowUp) dead() bool {
	return f.Status == store.StatusFailed || f.Status == store.StatusExpired
}

// followUpText tells which work that a task handed over to follow-ups is not done. It returns "" if all of it is
// done. If the task itself is not COMPLETED, its own state matters more, so only dead follow-ups are told.
func followUpText(followUps []FollowUp, completed bool) string {
	undone := 0
	for _, one := range followUps {
		if one.dead() || completed && one.Status != store.StatusCompleted {
			undone++
		}
	}
	if undone == 0 {
		return ""
	}
	first := followUps[0]
	text := "its follow-up " + first.ID + " (" + first.Type + ") is " + string(first.Status)
	if first.Message != nil && *first.Message != "" {
		text += ": " + brief(*first.Message, detailMost)
	}
	return text + some(undone-1, "; 1 other of its follow-ups is not COMPLETED",
		"; %d others of its follow-ups are not COMPLETED")
}

// putOffLine tells that the engine put a follow-up off before its first attempt, because it had run within the last
// second. The engine then moves only the time of the attempt. Therefore a first attempt was put
// off if it is due after the task's own time although the task has no jitter.
func (l *life) putOffLine(row *store.Row) (line StoryLine, ok bool) {
	if row == nil || row.SpawnedBy == nil || row.Jitter != nil || row.RunNowAt != nil {
		return line, false
	}
	due := row.NextAttemptAt
	if i := slices.IndexFunc(l.executions, func(x store.Execution) bool { return x.Revision == row.Revision }); i >= 0 {
		due = l.executions[i].DueAt
	} else if row.Attempt > 0 {
		return line, false
	}
	if due == nil || !due.After(row.ScheduledAt) {
		return line, false
	}
	own := func(c store.Change) bool { return c.Revision == row.Revision && c.ChangedBy == "task "+row.ID }
	if slices.ContainsFunc(l.changes, own) { // it has scheduled itself
		return line, false
	}
	text := "put off for " + rounded(due.Sub(row.ScheduledAt)) +
		", because it had started within the last second"
	return StoryLine{At: row.ScheduledAt, Kind: "due", Text: text}, true
}

func followUpLine(f FollowUp) StoryLine {
	line := StoryLine{At: f.CreatedAt, Kind: "follow-up", Text: "its follow-up " + f.ID + " (" + f.Type + ") is " +
		string(f.Status)}
	at := Fact{Name: "scheduled_at", Value: f.ScheduledAt}
	if f.FinishedAt != nil {
		at = Fact{Name: "finished_at", Value: *f.FinishedAt}
	}
	line.Facts = []Fact{at}
	if f.Message != nil && *f.Message != "" {
		line.Facts = append(line.Facts, Fact{Name: "message", Value: brief(*f.Message, factMost)})
	}
	return line
}
