package community_test

import (
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// Edits and attempts of one event lock the event's row before its tasks, so they wait for each other and never
// deadlock, and whatever their order the reminder ends up where the event is.
func TestEditsAndAttemptsAtOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	event := meeting(t)
	event.RepeatDays = 7
	w.create(event)
	first := event.StartsAt
	var group sync.WaitGroup
	for i := range 4 {
		group.Go(func() {
			for step := range 20 {
				err := pgx.BeginFunc(w.ctx, w.pool, func(tx pgx.Tx) error {
					_, err := w.app.MoveEvent(w.ctx, tx, "42", first.Add(time.Duration(i*20+step)*time.Minute))
					return err
				})
				if err != nil {
					t.Error(err)
				}
			}
		})
		group.Go(func() {
			for range 20 {
				if err := w.attemptAndSettle(reminder42); err != nil {
					t.Error(err)
				}
			}
		})
	}
	group.Wait()
	if row, event := w.task(reminder42), w.event("42"); !row.ScheduledAt.Equal(event.ReminderAt()) {
		t.Errorf("reminder at %s of an event at %s", row.ScheduledAt, event.StartsAt)
	}
}

// attemptAndSettle runs an attempt and applies its Again in the same transaction, unless the task was edited meanwhile.
func (w *world) attemptAndSettle(id string) error {
	row, err := w.tasks.Get(w.ctx, w.pool, id)
	if err != nil {
		return err
	}
	e := attempt(row, time.Time{})
	return pgx.BeginFunc(w.ctx, w.pool, func(tx pgx.Tx) error {
		if err := w.registry.Variant(e.Type).RunTx(w.ctx, tx, e); err != nil {
			return err
		}
		var revision int64
		if err := tx.QueryRow(
			w.ctx, `SELECT revision FROM tasktable.scheduled_tasks WHERE id = $1 FOR UPDATE`, id,
		).Scan(&revision); err != nil {
			return err
		}
		if again := e.Effects().Again; again != nil && revision == e.Revision {
			_, err := w.tasks.Reschedule(w.ctx, tx, id, *again)
			return err
		}
		return nil
	})
}

// Whoever leaves while being welcomed waits for the welcome's transaction: it could not cancel follow-ups
// that it does not see.
func TestLeavingWaitsForTheWelcome(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	joined := w.join("outsider")
	e := attempt(w.task("task-WELCOME_MEMBER-"+joined.ID), time.Time{})
	leave := func(tx pgx.Tx) error {
		if _, err := tx.Exec(w.ctx, `SET LOCAL lock_timeout = '100ms'`); err != nil {
			return err
		}
		return w.app.LeaveCommunity(w.ctx, tx, "home", "outsider")
	}
	w.do(func(tx pgx.Tx) error {
		if err := w.registry.Variant(e.Type).RunTx(w.ctx, tx, e); err != nil {
			return err
		}
		var waited *pgconn.PgError
		if err := w.refused(leave); !errors.As(err, &waited) || waited.Code != "55P03" {
			t.Errorf("got %v", err)
		}
		_, err := w.tasks.ScheduleMany(w.ctx, tx, e.Effects().FollowUps)
		return err
	})
	w.do(leave)
	if waiting := w.texts(
		`SELECT id FROM tasktable.scheduled_tasks WHERE entity = $1 AND status = 'QUEUED'`, "membership:"+joined.ID,
	); len(waiting) > 0 {
		t.Errorf("%q wait for who has left", waiting)
	}
}
