package scheduled

import (
	"context"
	"encoding/json"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/tasktable/tasktable/handlers"
	"github.com/tasktable/tasktable/scheduled/internal/enginetest"
	"github.com/tasktable/tasktable/scheduled/internal/taskdb"
	"github.com/tasktable/tasktable/store"
	"github.com/tasktable/tasktable/store/inspect"
)

// declared is a recurring task that says which version of the service declares it.
func declared(id, version string) store.Task {
	return store.Task{ID: id, Payload: enginetest.Job{Name: version}, Recurrence: &store.Recurrence{Cron: farOff}}
}

// service starts a node that declares recurring tasks.
func (s *stage) service(name string, recurring ...store.Task) (stop func()) {
	s.t.Helper()
	return s.node(func(c *Config) {
		c.Service, c.Recurring, c.declareEvery = name, recurring, 50*time.Millisecond
		if recurring == nil {
			c.Recurring = []store.Task{}
		}
	}, handlers.Handle(s.handleFired))
}

// declares waits until the recurring tasks are as wanted: by id the version whose payload they have, ""
// for those cancelled.
func (s *stage) declares(want map[string]string) {
	s.t.Helper()
	var got map[string]string
	// Not Fatal in between: the last state is to be shown.
	deadline := time.Now().Add(10 * time.Second)
	enginetest.Eventually(s.t, patience, "the recurring tasks are looked at", func() bool {
		got = map[string]string{}
		rows, err := inspect.New(store.Config{}).List(s.t.Context(), s.pool, inspect.Filter{Type: "JOB"})
		if err != nil {
			s.t.Fatal(err)
		}
		for _, row := range rows {
			var payload enginetest.Job
			if err := json.Unmarshal(row.Payload, &payload); err != nil {
				s.t.Fatal(err)
			}
			switch {
			case row.Cron == nil:
			case row.Status == store.StatusCancelled:
				got[row.ID] = ""
			default:
				got[row.ID] = payload.Name
			}
		}
		return maps.Equal(got, want) || time.Now().After(deadline)
	})
	if !maps.Equal(got, want) {
		s.t.Fatalf("the recurring tasks are %v, want %v", got, want)
	}
}

// quiet fails the test if tasks are edited while each node looks some times.
func (s *stage) quiet() {
	s.t.Helper()
	const lines = `SELECT count(*) FROM tasktable.scheduled_task_changes`
	before := s.count(lines)
	s.passes(s.now().Add(500 * time.Millisecond)) // ten looks of each node
	if after := s.count(lines); after != before {
		s.t.Errorf("%d edits while nothing was declared anew", after-before)
	}
}

// Recurring tasks declared in code: the set of the version that was seen last for the first time holds, as long
// as it has a node.
func TestDeclaredTasks(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	s.recur("another's", store.Recurrence{Cron: farOff}) // of no service's code
	first := []store.Task{declared("kept", "same"), declared("changed", "1"), declared("removed", "1")}
	second := []store.Task{declared("kept", "same"), declared("changed", "2"), declared("added", "2")}
	stopFirst := s.service("shop", first...)
	s.service("mail", declared("mail's", "1"))
	want := map[string]string{"another's": "another's", "mail's": "1", "kept": "same", "changed": "1", "removed": "1"}
	s.declares(want)
	s.planned(slices.Collect(maps.Keys(want))...)
	for id, by := range map[string]string{"kept": "shop", "mail's": "mail"} {
		if n := s.count(`SELECT count(*) FROM tasktable.recurring_tasks WHERE id = $1 AND declared_by = $2
			AND last_fire IS NULL`, id, by); n != 1 {
			t.Errorf("%s is not declared by %s", id, by)
		}
	}
	before := enginetest.Await(t, s.pool, "kept", patience, store.StatusQueued)

	// A newer version beside it, then another node of the older one, and one that says nothing.
	stopSecond := s.service("shop", second...)
	want["changed"], want["removed"], want["added"] = "2", "", "2"
	s.declares(want)
	stopThird := s.service("shop", first...)
	s.node(func(c *Config) { c.Service, c.declareEvery = "shop", 50*time.Millisecond }, handlers.Handle(s.handleFired))
	enginetest.Eventually(t, patience, "all nodes are up", func() bool {
		return s.count(`SELECT count(*) FROM tasktable.nodes WHERE dead_at IS NULL`) == 5
	})
	s.quiet()
	s.declares(want)
	// What is the same in both was not touched.
	if after := enginetest.Await(
		t, s.pool, "kept", time.Second, store.StatusQueued,
	); after.Revision != before.Revision {
		t.Errorf("what has not changed has revision %d, had %d", after.Revision, before.Revision)
	}

	// The newer one is rolled back: it has no node any more.
	stopSecond()
	want["changed"], want["removed"], want["added"] = "1", "1", ""
	s.declares(want)
	s.quiet()
	stopThird()
	s.quiet()
	// And comes again: it is the newer still.
	stopSecond = s.service("shop", second...)
	want["changed"], want["removed"], want["added"] = "2", "", "2"
	s.declares(want)
	stopFirst()
	s.quiet()
	stopSecond()
	s.quiet() // nobody is left who would know better
	// A version that declares that there are none.
	s.service("shop")
	want["kept"], want["changed"], want["added"] = "", "", ""
	s.declares(want)
	s.planned("another's", "mail's")
	if n := s.count(`SELECT count(*) FROM tasktable.scheduled_tasks WHERE parent_id IS NOT NULL`); n != 0 {
		t.Errorf("%d fires", n)
	}
}

// Somebody's cancel, pause or edit of a declared task stays, whatever nodes come and go.
func TestOperatorsHandOnDeclaredTasks(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	first := []store.Task{
		declared("cancelled", "same"), declared("paused", "1"), declared("gone", "1"), declared("edited", "same"),
	}
	stopFirst := s.service("shop", first...)
	s.declares(map[string]string{"cancelled": "same", "paused": "1", "gone": "1", "edited": "same"})
	for _, id := range []string{"cancelled", "gone"} {
		if receipt, err := s.tasks.Cancel(t.Context(), s.pool, id); err != nil || receipt.Outcome != store.Cancelled {
			t.Fatalf("%+v, %v", receipt, err)
		}
	}
	if receipt, err := s.tasks.Pause(t.Context(), s.pool, "paused"); err != nil || receipt.Outcome != store.Paused {
		t.Fatalf("%+v, %v", receipt, err)
	}
	s.quiet()
	stopFirst()
	stopFirst = s.service("shop", first...)
	s.quiet()
	// Another version, that changes one of them and does not know another.
	second := []store.Task{
		declared("cancelled", "2"), declared("paused", "2"), declared("edited", "same"), declared("new", "2"),
	}
	stopSecond := s.service("shop", second...)
	s.declares(map[string]string{"cancelled": "", "paused": "2", "gone": "", "edited": "same", "new": "2"})
	s.is("paused", store.StatusPaused)
	// Back to the first.
	stopSecond()
	s.declares(map[string]string{"cancelled": "", "paused": "1", "gone": "", "edited": "same", "new": ""})
	s.is("paused", store.StatusPaused)
	stopFirst()
}

// What is declared fires, and goes on when a version without it has come and gone, be it between two looks of the
// older one's node.
func TestDeclaredTasksFire(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	each := declared("each", "1")
	each.Recurrence.Cron = eachSecond
	serve := func(every time.Duration, tasks ...store.Task) (stop func()) {
		return s.node(func(c *Config) { c.Recurring, c.declareEvery = append([]store.Task{}, tasks...), every },
			handlers.Handle(func(context.Context, *handlers.Task[enginetest.Job]) error { return nil }))
	}
	fires := func(least int) {
		t.Helper()
		enginetest.Eventually(t, patience, "it fires", func() bool {
			return s.count(`SELECT coalesce(max(occurrence_count), 0) FROM tasktable.recurring_tasks`) >= least
		})
	}
	serve(1500*time.Millisecond, each)
	fires(1)
	stop := serve(time.Hour)
	s.declares(map[string]string{each.ID: ""})
	stop()
	fires(2)
	if _, err := s.tasks.Cancel(t.Context(), s.pool, each.ID); err != nil {
		t.Fatal(err)
	}
	for _, one := range s.lines(each.ID) {
		s.is(one.ID, store.StatusCompleted, taskdb.OutcomeCompleted)
	}
}
