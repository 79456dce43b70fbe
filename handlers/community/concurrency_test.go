package community_test

import (
	"errors"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

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
