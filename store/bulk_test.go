package store_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tasktable/tasktable/store"
	"github.com/tasktable/tasktable/store/internal/testbench"
)

// The work for thousands of tasks grows with their number, and not with its square, whatever the statistics suggest.
// On the engine's connections, as here, Postgres may use neither hash joins nor merge joins.
func TestBulkDoesNotGrowWithTheSquare(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	const all = 8000
	// The same tasks come in calls of size each. Other programs slow down both series, because both take long.
	measure := func(size int) map[string]time.Duration {
		took := map[string]time.Duration{}
		tx := b.Begin(pgx.TxOptions{}) // rolled back when the test ends
		b.Exec(tx, `SELECT set_config('enable_hashjoin', 'off', true), set_config('enable_mergejoin', 'off', true)`)
		for from := 0; from < all; from += size {
			entity := fmt.Sprint("event:", from)
			tasks := make([]store.Task, size)
			for i := range tasks {
				tasks[i] = store.Task{
					ID: fmt.Sprint("bulk ", from+i), Payload: testbench.Payload(i), At: testbench.Far(0), Entity: entity,
				}
			}
			began := time.Now()
			b.succeeds(b.Tasks.ScheduleMany(b.Ctx, tx, tasks))
			took["ScheduleMany"] += time.Since(began)
			began = time.Now()
			b.succeeds(b.Tasks.Sync(b.Ctx, tx, entity, tasks...))
			took["Sync"] += time.Since(began)
		}
		b.Check(tx.Rollback(b.Ctx))
		return took
	}
	var slow []string
	for range 3 { // a square is slow each time
		parts, whole := measure(all/20), measure(all)
		slow = nil
		for what := range parts {
			if whole[what] > 3*parts[what] {
				slow = append(slow, fmt.Sprintf("%s took %s in one call, and %s in 20", what, whole[what], parts[what]))
			}
		}
		if slow == nil {
			return
		}
	}
	t.Error(slow)
}
