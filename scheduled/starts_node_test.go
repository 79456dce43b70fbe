package scheduled

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tasktable/tasktable/handlers"
	"github.com/tasktable/tasktable/scheduled/internal/enginetest"
	"github.com/tasktable/tasktable/scheduled/internal/taskdb"
	"github.com/tasktable/tasktable/scheduled/internal/worker"
	"github.com/tasktable/tasktable/store"
)

const startWrittenSQL = `SELECT count(*) FROM tasktable.running_tasks WHERE id = $1 AND started_at IS NOT NULL
	AND node IS NOT NULL`

// Whoever asks about a task that has run for some seconds learns when and where it started, also after
// somebody has edited it.
func TestWhyTellsTheStartOfARunningAttempt(t *testing.T) {
	t.Parallel()
	s := newBench(t)
	s.node(nil, handlers.Handle(s.Handle))
	s.Add("one", nil)
	a := s.Begins("one")
	enginetest.Eventually(t, patience, "the start is written", func() bool {
		return s.Count(startWrittenSQL, "one") == 1
	})
	e := s.why("one")
	at := func(at time.Time) string {
		if at.Equal(a.StartedAt) {
			return "the start"
		}
		return "T"
	}
	node := fmt.Sprintf("node %d (H)", *e.Row.Node)
	got := whatHost.ReplaceAllString(e.Reason.Sentence(at), "(H)")
	if want := "attempt 1 of 10 runs on " + node +
		", claimed at T, its lease ends at T; it began at the start"; got != want {
		t.Errorf("the reason is %q, not %q", got, want)
	}
	lines := "attempt 1 was claimed\nattempt 1 was fetched by " + node + "\nattempt 1 began on " + node + "\n"
	if got := lived(e); got != "scheduled by test, scheduled_at\n"+lines {
		t.Errorf("while it runs:\n%s", got)
	}
	if _, err := s.Tasks.Reschedule(t.Context(), s.Pool, "one", time.Now().Add(time.Hour)); err != nil {
		t.Fatal(err)
	}
	e = s.why("one")
	if got := lived(e); got != "scheduled by test, scheduled_at\n"+lines+"edited by test, scheduled_at\n" {
		t.Errorf("edited while it runs:\n%s", got)
	}
	if got := e.Reason.Sentence(at); !strings.HasSuffix(got, "; it began at the start") {
		t.Errorf("edited while it runs, the reason is %q", got)
	}
	a.End <- nil
	if row := s.Is("one", store.StatusQueued, taskdb.OutcomeSuperseded); row.Revision == a.Revision {
		t.Errorf("the edit is lost: %+v", row)
	}
}

// A short attempt costs no statement but its settle, so its row does not say where it ran.
func TestStartsOfShortAttemptsAreNotWritten(t *testing.T) {
	t.Parallel()
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
	t.Parallel()
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
	var taken []func()
	for range s.nodes.Config().MaxConns {
		conn, err := s.nodes.Acquire(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		taken = append(taken, conn.Release)
	}
	s.Add("one", nil)
	tr.oneBatch("default", 1)
	tr.run()
	enginetest.Eventually(t, patience, "it waits for its connection", func() bool {
		runs := tr.worker.InHand(0)
		return len(runs) == 1 && runs[0].Begun() && time.Since(runs[0].Since) > 2*worker.LongRun
	})
	if err := tr.worker.WriteStarts(t.Context(), tr.worker.InHand(0)); err != nil {
		t.Error(err)
	}
	if s.Count(startWrittenSQL, "one") != 0 {
		t.Error("it has a start, although its handler was not called")
	}
	for _, release := range taken {
		release()
	}
	startedAt := enginetest.Receive(t, called, patience, "its handler is called")
	enginetest.Eventually(t, patience, "the start is written", func() bool {
		return s.Count(startWrittenSQL, "one") == 1
	})
	close(end)
	if row := s.Is("one", store.StatusCompleted, taskdb.OutcomeCompleted); !row.StartedAt.Equal(startedAt) {
		t.Errorf("it started at %s, but its row says %s", startedAt, row.StartedAt)
	}
}
