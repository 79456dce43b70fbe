package scheduled

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tasktable/tasktable/handlers"
	"github.com/tasktable/tasktable/scheduled/internal/enginetest"
	"github.com/tasktable/tasktable/store"
)

// A table of letters and a task for each customer, which reads all that have come. Each letter is written with a
// Schedule in one transaction. None may stay unread, whatever the task does at that moment.
func TestNoLetterStaysInAMailbox(t *testing.T) {
	b := newBench(t)
	b.Exec(`CREATE TABLE letters (customer text NOT NULL, n int NOT NULL, read_at timestamptz)`)
	const customers, letters = 40, 40
	read := func(ctx context.Context, task *handlers.Task[enginetest.Job]) error {
		_, err := b.nodes.Exec(ctx, `UPDATE letters SET read_at = clock_timestamp() WHERE customer = $1 AND read_at IS NULL`,
			task.Payload.Name)
		if err == nil && task.Fence%7 == 0 {
			err = errors.New("some attempts fail after the work")
		}
		return err
	}
	for range 2 {
		b.node(nil, handlers.Handle(read))
	}
	var writers sync.WaitGroup
	for customer := range customers {
		writers.Go(func() {
			name := fmt.Sprint("customer ", customer)
			for n := range letters {
				err := pgx.BeginFunc(t.Context(), b.Pool, func(tx pgx.Tx) error {
					if _, err := tx.Exec(t.Context(), `INSERT INTO letters VALUES ($1, $2)`, name, n); err != nil {
						return err
					}
					_, err := b.Tasks.Schedule(t.Context(), tx, store.Task{
						Payload: enginetest.Job{Name: name}, IfFinished: store.Rearm, IfRunning: store.Again, MaxAttempts: 100,
					})
					return err
				})
				if err != nil {
					t.Errorf("letter %d of %s: %v", n, name, err)
				}
			}
		})
	}
	writers.Wait()
	b.SeesWithin(time.Minute, "all tasks end",
		`SELECT count(*) = 0 FROM tasktable.scheduled_tasks WHERE status <> 'COMPLETED'`)
	b.Counts("letters were never read", 0, `SELECT count(*) FROM letters WHERE read_at IS NULL`)
	b.Counts("letters", customers*letters, `SELECT count(*) FROM letters`)
	b.Counts("attempts were superseded", 0,
		`SELECT count(*) FROM tasktable.scheduled_task_executions WHERE outcome = 'SUPERSEDED'`)
}
