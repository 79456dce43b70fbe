package store_test

import (
	"fmt"
	"testing"

	"github.com/tasktable/tasktable/store"
)

// Tasks of several authors in one call are recorded as each author's, and linked to each one's span, whether they are
// few or many.
func TestScheduleAs(t *testing.T) {
	t.Parallel()
	const span = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	for _, n := range []int{3, 40} { // of 20 and more, those that are all new are inserted together
		b := newBench(t)
		var many []store.TaskAs
		for i := range n {
			many = append(many, store.TaskAs{Task: base(fmt.Sprint(i)), By: fmt.Sprint("author ", i)})
		}
		many[1].By = ""
		many[2].Trace = span
		receipts, err := b.Tasks.ScheduleAs(b.Ctx, b.Pool, many)
		b.Check(err)
		if len(receipts) != n {
			t.Fatalf("%d receipts of %d tasks", len(receipts), n)
		}
		for i, receipt := range receipts {
			by := fmt.Sprint("author ", i)
			if i == 1 {
				by = service
			}
			same(b, "lines", b.Lines(receipt.ID), []string{"schedule created " + by})
			if row := b.Get(receipt.ID); row.ScheduledBy == nil || *row.ScheduledBy != by {
				t.Errorf("task %s is scheduled by %v, want %s", receipt.ID, row.ScheduledBy, by)
			}
			var trace *string
			const traceSQL = `SELECT trace FROM tasktable.scheduled_tasks WHERE id = $1`
			b.Check(b.Pool.QueryRow(b.Ctx, traceSQL, receipt.ID).Scan(&trace))
			if (trace != nil) != (i == 2) || trace != nil && *trace != span {
				t.Errorf("task %s has the trace %v", receipt.ID, trace)
			}
		}
		bad := base("bad")
		bad.Priority = 101
		_, err = b.Tasks.ScheduleAs(b.Ctx, b.Pool, []store.TaskAs{{Task: base("good")}, {Task: bad}})
		if err == nil || b.Get("good") != nil {
			t.Errorf("one bad task did not refuse all: %v", err)
		}
	}
}
