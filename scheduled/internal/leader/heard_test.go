package leader

import (
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tasktable/tasktable/scheduled/internal/enginetest"
	"github.com/tasktable/tasktable/scheduled/internal/session"
	"github.com/tasktable/tasktable/scheduled/internal/taskdb"
)

// To fork thousands takes longer than a session may be silent: each statement on the way counts as a sign of life.
func TestForkIsHeard(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	s := &session.Session{Start: time.Now().Add(-time.Hour)}
	b.Recur("tick", "@hourly", enginetest.Noon, nil)
	b.InTx(func(tx pgx.Tx) {
		if _, err := tx.Exec(t.Context(), taskdb.EnterSQL); err != nil {
			t.Fatal(err)
		}
		if s.Alive() {
			t.Error("alive, and nothing was heard")
		}
		if n, err := b.Fork(
			t.Context(), heardTx{tx, s}, &enginetest.Noon, []taskdb.Lane{enginetest.Forks}, taskdb.MaxFires,
		); err != nil ||
			n != 1 ||
			!s.Alive() {
			t.Errorf("looked at %d, %v; alive: %v", n, err, s.Alive())
		}
	})
}
