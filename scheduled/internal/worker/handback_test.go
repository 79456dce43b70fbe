package worker

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tasktable/tasktable/handlers"
	"github.com/tasktable/tasktable/scheduled/internal/enginetest"
	"github.com/tasktable/tasktable/store"
)

// checkHandBacks checks that hand-backs kept the tasks' due times, and that no task was handed back more than once a
// second.
func (s *bench) checkHandBacks(since time.Time) {
	s.T.Helper()
	const (
		movedSQL = `SELECT count(*) FROM tasktable.scheduled_task_executions WHERE due_at <> scheduled_at`
		mostSQL  = `SELECT coalesce(max(n), 0)::int FROM (
			SELECT count(*) AS n FROM tasktable.scheduled_task_executions WHERE outcome = 'RELEASED'
				GROUP BY task_id) AS t`
	)
	if n := s.Count(movedSQL); n != 0 {
		s.T.Errorf("%d claims have a due time that is not the task's", n)
	}
	if n, most := s.Count(mostSQL), int(time.Since(since).Seconds())+1; n > most {
		s.T.Errorf("a task was handed back %d times, want %d at most", n, most)
	}
}

// A task that waited in vain for a connection stays as late as it is: its next claim has the same due time.
func TestHandBackForAPlaceKeepsTheDueTime(t *testing.T) {
	s := newBench(t)
	const n = 6
	let := make(chan struct{})
	s.node(func(c *Config) { c.Slots, c.Places = map[string]int{"default": n}, 1 },
		handlers.HandleTx(func(ctx context.Context, _ pgx.Tx, _ *handlers.Task[enginetest.Job]) error {
			select {
			case <-let:
			case <-ctx.Done():
			}
			return ctx.Err()
		}))
	began := time.Now()
	for i := range n {
		s.Add(fmt.Sprint(i), nil)
	}
	s.Sees("a claim was handed back", `SELECT count(*) > 0 FROM tasktable.scheduled_task_executions
		WHERE outcome = 'RELEASED'`)
	s.Sees("the rest waits since it was due",
		`SELECT count(*) = 0 FROM tasktable.scheduled_tasks WHERE coalesce(due_at, next_attempt_at) <> scheduled_at`)
	close(let)
	s.Sees("all have run", `SELECT count(*) = 0 FROM tasktable.scheduled_tasks WHERE status <> 'COMPLETED'`)
	s.checkHandBacks(began)
}

// A task whose handler gets no transaction keeps its due time as well, and is not claimed again without a pause.
func TestHandBackWithoutATransactionKeepsTheDueTime(t *testing.T) {
	s := newBench(t)
	s.node(nil,
		handlers.HandleTx(func(context.Context, pgx.Tx, *handlers.Task[enginetest.Job]) error { return nil }))
	s.txPool.Close() // each transaction is refused at once
	began := time.Now()
	for i := range 2 {
		s.Add(fmt.Sprint(i), func(task *store.Task) { task.At = began })
	}
	s.Sees("tasks were handed back three times", `SELECT count(*) = 2 FROM (
		SELECT task_id FROM tasktable.scheduled_task_executions WHERE outcome = 'RELEASED' GROUP BY task_id
			HAVING count(*) >= 3) AS t`)
	s.checkHandBacks(began)
	for i := range 2 { // a node that stops leaves a claim that nobody has fetched to the next
		s.Did(enginetest.Tasks.Cancel(t.Context(), s.Pool, fmt.Sprint(i)))
	}
	s.Sees("no claim is left", `SELECT count(*) = 0 FROM tasktable.scheduled_tasks
		WHERE status <> 'CANCELLED' OR fence IS NOT NULL`)
}
