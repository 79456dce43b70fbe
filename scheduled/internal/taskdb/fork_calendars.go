package taskdb

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/tasktable/tasktable/scheduled/internal/fireplan"
	"github.com/tasktable/tasktable/scheduled/internal/pg"
)

// withTheirCalendars leaves out the tasks whose calendars somebody has changed since DueFires has read them, or is
// changing. The transaction that changes a calendar waits from now on until this one has ended. So it finds the fires
// that this one plans, and has them planned anew.
func (s Queries) withTheirCalendars(
	ctx context.Context, q pg.DB, due DueFires, tasks []dueTask,
) ([]dueTask, error) {
	now, err := due.book.Lock(ctx, q, s.Schema)
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(tasks, func(one dueTask) bool { return !due.book.Same(now, rulesOf(&one.Task)) }), nil
}

// moved is a task whose next fire has moved, or was left out, because somebody has changed a calendar.
type moved struct {
	id       string
	calendar string
	by       string
	was      time.Time
	next     *time.Time // nil: there is none
	why      string
}

// addMoved notes whether a change of a calendar has moved the planned fire.
func (w *fireWrites) addMoved(due dueTask, f fireplan.Plan) {
	edit, edited := due.Task.Edit()
	if !edited {
		return
	}
	next := f.Next
	if f.Rests {
		next = time.Time{}
	}
	for _, one := range f.Fires {
		if next.IsZero() || one.At.Before(next) {
			next = one.At
		}
	}
	if next.Equal(edit.Fire) {
		return
	}
	why := ""
	if out, _ := due.rule.Explain(edit.Fire.Add(-time.Nanosecond), edit.Fire, 1); len(out) > 0 && out[0].LeftOut {
		why = out[0].Why
	}
	w.moved = append(w.moved, moved{
		due.Task.ID, edit.Calendar, cmp.Or(due.changedBy, "leader"), edit.Fire, orNull(&next), why,
	})
}

const noteMovedSQL = `
INSERT INTO tasktable.scheduled_task_changes (revision, task_id, verb, outcome, changed_by, old, new)
SELECT nextval('tasktable.task_numbers'), one.id, 'calendar', 'moved', one.by,
    jsonb_build_object('next_fire', one.was), jsonb_strip_nulls(jsonb_build_object('next_fire', one.next,
        'calendar', one.calendar, 'why', nullif(one.why, '')))
FROM unnest($1::text[], $2::text[], $3::text[], $4::timestamptz[], $5::timestamptz[], $6::text[])
    AS one (id, calendar, by, was, next, why)`

// noteMoved writes the moves to the history of the tasks.
func (s Queries) noteMoved(ctx context.Context, q pg.DB, tasks []moved) error {
	if len(tasks) == 0 {
		return nil
	}
	_, err := q.Exec(ctx, s.Schema.SQL(noteMovedSQL),
		column(tasks, func(m *moved) string { return m.id }),
		column(tasks, func(m *moved) string { return m.calendar }),
		column(tasks, func(m *moved) string { return m.by }),
		column(tasks, func(m *moved) time.Time { return m.was }),
		column(tasks, func(m *moved) *time.Time { return m.next }),
		column(tasks, func(m *moved) string { return m.why }))
	return pg.Annotate(err, "note moved fires")
}
