package enginetest

import (
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tasktable/tasktable/handlers"
	"github.com/tasktable/tasktable/scheduled/internal/taskdb"
	"github.com/tasktable/tasktable/store"
)

// Recur schedules a recurring JOB task that begins at a time of the bench, and has its first fire planned.
func (b *Bench) Recur(id, cron string, begins time.Time, change func(*store.Task)) {
	b.T.Helper()
	task := store.Task{ID: id, Payload: Job{Name: id}, At: begins, Recurrence: &store.Recurrence{Cron: cron}}
	if change != nil {
		change(&task)
	}
	Schedule(b.T, b.Pool, task)
	b.Fires(begins.Add(-time.Second))
}

// Forks is the lane that recur schedules into.
var Forks = taskdb.Lane{Queue: "default", Type: "JOB", Recurring: true}

// Fires has the recurring tasks fire as a pass does, and returns how many it looked at.
func (b *Bench) Fires(now time.Time, aside ...string) (looked int) {
	b.T.Helper()
	b.InTx(func(tx pgx.Tx) {
		b.Did(tx.Exec(b.T.Context(), "SET LOCAL lock_timeout = '5s'; "+taskdb.EnterSQL))
		var err error
		if looked, err = b.Fork(b.T.Context(), tx, &now, []taskdb.Lane{Forks}, taskdb.MaxFires, aside...); err != nil {
			b.T.Fatal(err)
		}
	})
	return looked
}

// Recurs compares a recurring task and its occurrences, in order of their times, with a text: first the task, then a
// line for each occurrence, or for several in a row that differ in their times only.
func (b *Bench) Recurs(what, id, want string) {
	b.T.Helper()
	b.sameLines(what, id, b.Family(id), want)
}

// Family writes a recurring task and its occurrences as text.
func (b *Bench) Family(id string) string {
	b.T.Helper()
	row, err := Tasks.Get(b.T.Context(), b.Pool, id)
	b.OK(err)
	var text strings.Builder
	fmt.Fprintf(&text, "%s count=%d", row.Status, row.OccurrenceCount)
	Write(&text, "next", row.NextAttemptAt)
	Write(&text, "last", row.StartedAt)
	Write(&text, "finished", row.FinishedAt)
	WriteText(&text, "message", row.Message)
	if row.PlannedRevision == nil || *row.PlannedRevision != row.Revision {
		text.WriteString(" unplanned")
	}
	rows, err := b.Pool.Query(b.T.Context(), `SELECT scheduled_at::timestamptz,
		concat_ws(' ', status, CASE WHEN fence IS NOT NULL THEN 'held' END, message)
		FROM tasktable.scheduled_tasks WHERE parent_id = $1 ORDER BY scheduled_at, id`, id)
	b.OK(err)
	type line struct {
		At   time.Time
		Text string
	}
	found, err := pgx.CollectRows(rows, pgx.RowToStructByPos[line])
	b.OK(err)
	for from := 0; from < len(found); {
		to := from + 1
		for to < len(found) && found[to].Text == found[from].Text {
			to++
		}
		text.WriteString("\n" + Offset(found[from].At))
		if to-from > 1 {
			fmt.Fprintf(&text, " to %s (%d)", Offset(found[to-1].At), to-from)
		}
		text.WriteString(" " + found[from].Text)
		from = to
	}
	return text.String()
}

// Again is the settlement of an attempt that asks for another run of its task.
func Again(h taskdb.Claim, at time.Time) taskdb.Settlement {
	s := Completed(h)
	s.Effects = handlers.Effects{Again: &at}
	s.Message = new("see you")
	return s
}

// FollowedBy is the settlement of an attempt that asks for follow-ups.
func FollowedBy(h taskdb.Claim, tasks ...store.Task) taskdb.Settlement {
	s := Completed(h)
	s.Effects = handlers.Effects{FollowUps: tasks}
	return s
}

// Forget deletes a task with its history, so that its id can be used anew.
func (b *Bench) Forget(id string) {
	b.T.Helper()
	b.InTx(func(tx pgx.Tx) {
		for _, sql := range []string{
			`DELETE FROM tasktable.scheduled_tasks WHERE id = $1`,
			`DELETE FROM tasktable.scheduled_task_executions WHERE task_id = $1`,
			`DELETE FROM tasktable.scheduled_task_changes WHERE task_id = $1`,
		} {
			b.Did(tx.Exec(
				b.T.Context(), `SELECT set_config('tasktable_change.context', 'retention', true)`,
			))
			b.Did(tx.Exec(b.T.Context(), sql, id))
		}
	})
}

// UncheckedRecurrencesSQL takes the checks of recurring tasks away, so that a task has what another release may have
// stored.
const UncheckedRecurrencesSQL = `
CREATE OR REPLACE FUNCTION tasktable.cron_fault(cron text) RETURNS text LANGUAGE sql IMMUTABLE STRICT
AS 'SELECT NULL::text';
CREATE OR REPLACE FUNCTION tasktable.knows_time_zone(zone text) RETURNS boolean LANGUAGE sql AS 'SELECT true'`
