package scheduled

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tasktable/tasktable/handlers"
	"github.com/tasktable/tasktable/scheduled/internal/enginetest"
	"github.com/tasktable/tasktable/store"
)

// TestCutOffNodeStopsBeforeAnotherStarts shows the promise that one id never runs twice at once while handlers mind
// their context: the node that nobody hears any more ends its handlers before another is given their tasks.
func TestCutOffNodeStopsBeforeAnotherStarts(t *testing.T) {
	f := newBench(t)
	limit := enginetest.Limits(t, f.Pool)
	w := enginetest.NewWire()
	far, near := newVisitor(), newVisitor()
	startNode(t, f.overWire(w), nil, handlers.Handle(far.handle))
	receipt := enginetest.Schedule(t, f.Pool, store.Task{Payload: enginetest.Job{Name: "a"}})
	enginetest.Receive(t, far.began, patience, "the task runs")
	cutOff := f.leading()
	startNode(t, f.nodes, nil, handlers.Handle(near.handle))

	begin := time.Now()
	w.Cut()
	if cause := enginetest.Receive(
		t, far.ended, patience, "the handler's context ends",
	); !errors.Is(cause, handlers.ErrLeaseLost) {
		t.Errorf("cause %v", cause)
	}
	fenced := time.Since(begin)
	if len(near.began) != 0 {
		t.Error("the task began elsewhere before the handler's context ended")
	}
	enginetest.Receive(t, near.began, patience, "the task runs elsewhere")
	t.Logf("the handler's context ended after %s; the task ran elsewhere after %s", fenced, time.Since(begin))
	if fenced > limit(4500*time.Millisecond) { // 3 s without an answer, looked at each 200 ms
		t.Errorf("the handler's context ended after %s", fenced)
	}
	close(near.let)
	enginetest.Await(t, f.Pool, receipt.ID, patience, store.StatusCompleted)

	w.Mend()
	mended := time.Now()
	f.SeesWithin(
		30*time.Second, "the node comes back under a new number",
		`SELECT count(*) = 2 FROM tasktable.nodes WHERE dead_at IS NULL AND number <> $1`, cutOff,
	)
	t.Logf("the node came back %s after the wire was mended", time.Since(mended))
	if got := enginetest.Outcomes(t, f.Pool, receipt.ID); fmt.Sprint(got) != "[LOST COMPLETED]" {
		t.Errorf("history %v", got)
	}
}

// TestNodeCutOffWithinItsCommit leaves a transaction on the server that holds the task's row and will
// never end by itself.
func TestNodeCutOffWithinItsCommit(t *testing.T) {
	f := newBench(t)
	f.Exec(`CREATE TABLE effects (task_id text)`)
	w := enginetest.NewWire()
	far := func(ctx context.Context, tx pgx.Tx, task *handlers.Task[enginetest.Job]) error {
		if wired, ok := tx.Conn().PgConn().Conn().(*enginetest.Tripwire); ok {
			wired.Armed.Store(true)
		}
		_, err := tx.Exec(ctx, `INSERT INTO effects VALUES ($1)`, task.ID)
		return err
	}
	near := func(ctx context.Context, tx pgx.Tx, task *handlers.Task[enginetest.Job]) error {
		_, err := tx.Exec(ctx, `INSERT INTO effects VALUES ($1)`, task.ID)
		return err
	}
	startNode(t, f.overWire(w), nil, handlers.HandleTx(far))
	receipt := enginetest.Schedule(t, f.Pool, store.Task{Payload: enginetest.Job{Name: "a"}})
	enginetest.Eventually(t, patience, "the wire is cut", func() bool {
		w.Mu.Lock()
		defer w.Mu.Unlock()
		return !w.Whole()
	})
	begin := time.Now()
	startNode(t, f.nodes, nil, handlers.HandleTx(near))
	enginetest.Await(t, f.Pool, receipt.ID, patience, store.StatusCompleted)
	t.Logf("the task was completed elsewhere %s after the cut", time.Since(begin))
	if got := enginetest.Outcomes(t, f.Pool, receipt.ID); fmt.Sprint(got) != "[LOST COMPLETED]" {
		t.Errorf("history %v", got)
	}
	f.Counts("effects", 1, `SELECT count(*) FROM effects`)
}
