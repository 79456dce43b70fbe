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
	measure := func(n int) (took map[string]time.Duration) {
		took = map[string]time.Duration{}
		tasks := make([]store.Task, n)
		for i := range tasks {
			tasks[i] = store.Task{
				ID: fmt.Sprint("bulk ", i), Payload: testbench.Payload(i), At: testbench.Far(0), Entity: "event:1",
			}
		}
		tx := b.Begin(pgx.TxOptions{}) // rolled back when the test ends
		b.Exec(tx, `SELECT set_config('enable_hashjoin', 'off', true), set_config('enable_mergejoin', 'off', true)`)
		began := time.Now()
		_, err := b.tasks.ScheduleMany(b.ctx, tx, tasks)
		b.Check(err)
		took["ScheduleMany"] = time.Since(began)
		began = time.Now()
		_, err = b.tasks.Sync(b.ctx, tx, "event:1", tasks...)
		b.Check(err)
		took["Sync"] = time.Since(began)
		b.Check(tx.Rollback(b.ctx))
		return took
	}
	const few, many = 400, 8000
	short, long := measure(few), measure(many)
	for what := range short {
		if long[what] > 3*many/few*short[what] {
			t.Errorf("%s of %d tasks took %s, and of %d tasks %s", what, few, short[what], many, long[what])
		}
	}
}
