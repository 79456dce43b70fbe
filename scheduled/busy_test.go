package scheduled

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/tasktable/tasktable/handlers"
	"github.com/tasktable/tasktable/scheduled/internal/enginetest"
	"github.com/tasktable/tasktable/store"
)

// TestFewSlotsAreKeptBusy has a backlog of short tasks and a node with few slots: they should not wait for more work.
func TestFewSlotsAreKeptBusy(t *testing.T) {
	f := newField(t)
	const n, slots, each, rounds = 400, 2, 5 * time.Millisecond, 3
	startNode(
		t, f.nodePool(), func(c *Config) { c.Queues = map[string]int{"default": slots} },
		handlers.Handle(func(ctx context.Context, _ *handlers.Task[enginetest.Job]) error {
			select {
			case <-time.After(each):
			case <-ctx.Done():
			}
			return ctx.Err()
		}),
	)
	// Another test of this machine may take the processor for some seconds, but hardly in each round.
	for round := range rounds {
		var list []store.Task
		for i := range n {
			list = append(list, store.Task{Payload: enginetest.Job{Name: fmt.Sprint(round, " ", i)}})
		}
		if _, err := enginetest.Tasks.ScheduleMany(t.Context(), f.pool, list); err != nil {
			t.Fatal(err)
		}
		f.until(patience, "work begins", completedSQL, round*n+1)
		begin := time.Now()
		f.until(60*time.Second, "all are completed", completedSQL, (round+1)*n)
		took, ideal := time.Since(begin), n/slots*each
		t.Logf("%d tasks of %s on %d slots took %s; never waiting would be %s", n, each, slots, took, ideal)
		if took < 10*ideal {
			return
		}
	}
	t.Error("the slots wait most of the time")
}
