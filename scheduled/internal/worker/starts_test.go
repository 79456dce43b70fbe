package worker

import (
	"context"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tasktable/tasktable/handlers"
	"github.com/tasktable/tasktable/scheduled/internal/enginetest"
	"github.com/tasktable/tasktable/scheduled/internal/taskdb"
	"github.com/tasktable/tasktable/store"
)

const startWrittenSQL = `SELECT count(*) FROM tasktable.running_tasks WHERE id = $1 AND started_at IS NOT NULL
	AND node IS NOT NULL`

// A short attempt costs no statement but its settle, so its row does not say where it ran.
func TestStartsOfShortAttemptsAreNotWritten(t *testing.T) {
	s := newBench(t)
	s.node(nil, handlers.Handle(s.Handle))
	s.Add("long", nil)
	long := s.Begins("long")
	s.Add("short", nil)
	s.Begins("short").End <- nil
	enginetest.Eventually(t, patience, "the start of the long one is written", func() bool {
		return s.Count(startWrittenSQL, "long") == 1
	})
	if row := s.Is("short", store.StatusCompleted, taskdb.OutcomeCompleted); row.StartedFence != nil ||
		row.Node != nil ||
		row.StartedAt == nil {
		t.Errorf("the short one: %+v", row)
	}
	long.End <- nil
	if row := s.Is("long", store.StatusCompleted, taskdb.OutcomeCompleted); row.StartedFence == nil ||
		row.Node == nil ||
		!row.StartedAt.Equal(long.StartedAt) {
		t.Errorf("the long one: %+v", row)
	}
}

// A transactional handler that waits for its connection has not started.
func TestStartOfATransactionalHandlerIsThatOfItsCall(t *testing.T) {
	s := newBench(t)
	called := make(chan time.Time, 1)
	end := make(chan struct{})
	tr := s.prepare(
		nil, handlers.HandleTx(func(ctx context.Context, _ pgx.Tx, task *handlers.Task[enginetest.Job]) error {
			select {
			case called <- task.StartedAt:
			default: // a test that has failed receives no more
			}
			select {
			case <-end:
				return nil
			case <-ctx.Done():
				return context.Cause(ctx)
			}
		}),
	)
	release := enginetest.Exhaust(t, s.txPool)
	s.Add("one", nil)
	tr.begin()
	tr.batch(1, 0)
	enginetest.Eventually(t, patience, "it waits for its connection", func() bool {
		runs := tr.inHand(0)
		return len(runs) == 1 && runs[0].begun() != nil && time.Since(runs[0].since) > 2*longRun
	})
	tr.writeStarts(t.Context(), tr.inHand(0))
	if s.Count(startWrittenSQL, "one") != 0 {
		t.Error("it has a start, although its handler was not called")
	}
	release()
	startedAt := enginetest.Receive(t, called, patience, "its handler is called")
	enginetest.Eventually(t, patience, "the start is written", func() bool {
		return s.Count(startWrittenSQL, "one") == 1
	})
	close(end)
	if row := s.Is("one", store.StatusCompleted, taskdb.OutcomeCompleted); !row.StartedAt.Equal(startedAt) {
		t.Errorf("it started at %s, but its row says %s", startedAt, row.StartedAt)
	}
}
