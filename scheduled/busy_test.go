package scheduled

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/tasktable/tasktable/handlers"
	"github.com/tasktable/tasktable/store"
)

// TestFewSlotsAreKeptBusy has a backlog of short tasks and a node with few slots: they should not wait for more work.
func TestFewSlotsAreKeptBusy(t *testing.T) {
	f := newField(t)
	const n, slots, each = 400, 2, 5 * time.Millisecond
	var list []store.Task
	for i := range n {
		list = append(list, store.Task{Payload: job{fmt.Sprint(i)}})
	}
	if _, err := tasks.ScheduleMany(t.Context(), f.pool, list); err != nil {
		t.Fatal(err)
	}
	startNode(
		t, f.nodePool(), func(c *Config) { c.Queues = map[string]int{"default": slots} },
		handlers.Handle(func(ctx context.Context, _ *handlers.Task[job]) error {
			select {
			case <-time.After(each):
			case <-ctx.Done():
			}
			return ctx.Err()
		}),
	)
	f.until(10*time.Second, "work begins", completedSQL, 1)
	begin := time.Now()
	f.until(60*time.Second, "all are completed", completedSQL, n)
	took, ideal := time.Since(begin), n/slots*each
	t.Logf("%d tasks of %s on %d slots took %s; never waiting would be %s", n, each, slots, took, ideal)
	if took > 10*ideal {
		t.Error("the slots wait most of the time")
	}
}
