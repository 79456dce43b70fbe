package scheduled

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/tasktable/tasktable/handlers"
	"github.com/tasktable/tasktable/scheduled/internal/enginetest"
	"github.com/tasktable/tasktable/scheduled/internal/taskdb"
	"github.com/tasktable/tasktable/store"
)

// named is a payload whose type the task says.
type named struct {
	Kind  string `json:"-"`
	Extra string `json:"extra,omitempty"`
}

func (n named) TaskType() string { return n.Kind }

// fleet is the nodes of several services and versions, and which of them ran what.
type fleet struct {
	*bench
	mu    sync.Mutex
	ranBy map[string][]string
}

func newFleet(t *testing.T) *fleet {
	t.Helper()
	return &fleet{bench: benchOf(t), ranBy: map[string][]string{}}
}

// release starts a node of a service's version, which has some types and declares some recurring tasks.
func (f *fleet) release(service, version string, types []string, recurring ...string) (stop func()) {
	f.T.Helper()
	return f.releaseOn("default", service, version, types, recurring...)
}

func (f *fleet) releaseOn(queue, service, version string, types []string, recurring ...string) (stop func()) {
	f.T.Helper()
	var parts []handlers.Part
	note := handlers.Use(func(next handlers.Handler) handlers.Handler {
		return func(ctx context.Context, e *handlers.Execution) error {
			f.mu.Lock()
			f.ranBy[e.ID] = append(f.ranBy[e.ID], service+" "+version)
			f.mu.Unlock()
			return next(ctx, e)
		}
	})
	for _, name := range types {
		parts = append(parts, handlers.Func(name, func(context.Context) error { return nil }, note))
	}
	declared := []store.Task{}
	for _, id := range recurring {
		declared = append(declared, store.Task{
			ID: id, Payload: named{Kind: types[0], Extra: version}, Recurrence: &store.Recurrence{Cron: farOff},
		})
	}
	stop = f.node(func(c *Config) {
		c.Service, c.Version, c.Recurring, c.declareEvery = service, version, declared, 50*time.Millisecond
		c.Queues = map[string]int{queue: 5}
	}, parts...)
	f.Sees(service+" "+version+" is up", `SELECT count(*) > 0 FROM tasktable.nodes WHERE service = $1 AND version = $2
			AND dead_at IS NULL`, service, version)
	return stop
}

// put schedules tasks of a type that are due at once, and returns their ids.
func (f *fleet) put(kind string, n int, change ...func(*store.Task)) (ids []string) {
	f.T.Helper()
	for i := range n {
		id := fmt.Sprintf("%s %d.%d", kind, f.Count(`SELECT count(*) FROM tasktable.scheduled_tasks`), i)
		f.Add(id, func(task *store.Task) {
			task.Payload = named{Kind: kind}
			for _, c := range change {
				c(task)
			}
		})
		ids = append(ids, id)
	}
	return ids
}

// ran waits for each task to be completed, once, by one of these.
func (f *fleet) ran(ids []string, by ...string) {
	f.T.Helper()
	for _, id := range ids {
		enginetest.Await(f.T, f.Pool, id, patience, store.StatusCompleted)
		history := enginetest.Outcomes(f.T, f.Pool, id)
		// By a node that stopped before it began.
		history = slices.DeleteFunc(history, func(outcome string) bool { return outcome == taskdb.OutcomeReleased })
		if len(history) != 1 || history[0] != taskdb.OutcomeCompleted {
			f.T.Errorf("%s has the history %v", id, history)
		}
		f.mu.Lock()
		got := f.ranBy[id]
		f.mu.Unlock()
		if len(got) != 1 || !slices.Contains(by, got[0]) {
			f.T.Errorf("%s was run by %q, want one of %q", id, got, by)
		}
	}
}

// waits checks that nobody claims the tasks, and that the table says why.
func (f *fleet) waits(ids []string) {
	f.T.Helper()
	f.Passes(f.Now().Add(1500 * time.Millisecond)) // the leader has looked
	for _, id := range ids {
		row := f.Is(id, store.StatusQueued)
		if row.Attempt != 0 {
			f.T.Errorf("%s was claimed: %+v", id, row)
		}
		if n := f.Count(`SELECT count(*) FROM tasktable.late_tasks WHERE id = $1 AND NOT has_node
			AND NOT is_paused`, id); n != 1 {
			f.T.Errorf("%s is not said to have no node", id)
		}
	}
}

// declares waits until the recurring tasks are as wanted: by id the version that declares them, "" for those cancelled.
func (f *fleet) declares(want map[string]string) {
	f.T.Helper()
	const sql = `SELECT coalesce(jsonb_object_agg(id, CASE WHEN status = 'CANCELLED' THEN ''
		ELSE payload ->> 'extra' END), '{}')
		FROM tasktable.scheduled_tasks WHERE cron IS NOT NULL`
	var got map[string]string
	enginetest.Eventually(f.T, patience, fmt.Sprintf("the recurring tasks are %v", want), func() bool {
		got = nil
		f.OK(f.Pool.QueryRow(f.T.Context(), sql).Scan(&got))
		return maps.Equal(got, want)
	})
}

// Blue and green on one queue: both work while both are there, the newer's recurring tasks hold, and nothing is lost
// when the old one stops, nor when the new one is taken back.
func TestBlueGreen(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	stopBlue := f.release("shop", "blue", []string{"ORDER"}, "nightly", "weekly")
	f.declares(map[string]string{"nightly": "blue", "weekly": "blue"})
	f.ran(f.put("ORDER", 20), "shop blue")
	stopGreen := f.release("shop", "green", []string{"ORDER", "REFUND"}, "nightly", "hourly")
	f.declares(map[string]string{"nightly": "green", "weekly": "", "hourly": "green"})
	both := f.put("ORDER", 200)
	f.ran(f.put("REFUND", 20), "shop green")
	stopBlue() // in the midst of them
	f.ran(both, "shop blue", "shop green")
	f.ran(
		f.put("ORDER", 20, func(task *store.Task) { task.Payload = named{Kind: "ORDER", Extra: "a field of green's"} }),
		"shop green",
	)

	// Back to blue: what only green knows waits, what green has scheduled runs.
	left := f.put("ORDER", 200, func(task *store.Task) {
		task.Payload = named{Kind: "ORDER", Extra: "a field of green's"}
	})
	stopBlue = f.release("shop", "blue", []string{"ORDER"}, "nightly", "weekly")
	stopGreen()
	f.ran(left, "shop blue", "shop green")
	f.declares(map[string]string{"nightly": "blue", "weekly": "blue", "hourly": ""})
	refunds := f.put("REFUND", 3)
	f.waits(refunds)
	f.release("shop", "green", []string{"ORDER", "REFUND"}, "nightly", "hourly")
	f.declares(map[string]string{"nightly": "green", "weekly": "", "hourly": "green"})
	f.ran(refunds, "shop green")
	stopBlue()
	f.ran(f.put("ORDER", 20), "shop green")
}

// Blue and green with a queue each: each works its own, and what is left in the queue of the one that has stopped is
// moved, at once or while it waits for its time.
func TestBlueGreenQueues(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	in := func(queue string) func(*store.Task) { return func(task *store.Task) { task.Queue = queue } }
	stopBlue := f.releaseOn("blue", "shop", "blue", []string{"ORDER"})
	f.ran(f.put("ORDER", 20, in("blue")), "shop blue")
	f.releaseOn("green", "shop", "green", []string{"ORDER"})
	f.ran(f.put("ORDER", 20, in("blue")), "shop blue")
	f.ran(f.put("ORDER", 20, in("green")), "shop green")
	later := f.put("ORDER", 5, in("blue"), func(task *store.Task) { task.At = time.Now().Add(time.Hour) })
	stopBlue()
	left := f.put("ORDER", 5, in("blue"))
	f.waits(left)
	f.Exec(`UPDATE tasktable.scheduled_tasks SET queue = 'green' WHERE queue = 'blue'
		AND status IN ('QUEUED', 'PAUSED')`)
	f.ran(left, "shop green")
	f.Exec(`SELECT tasktable.run_now(id) FROM tasktable.scheduled_tasks WHERE id = ANY ($1)`, later)
	f.ran(later, "shop green")
}
