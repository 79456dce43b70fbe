package scheduled

import (
	"context"
	"encoding/json"
	"maps"
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

// declares waits until the recurring tasks are as wanted: by id the version whose payload they have, ""
// for those cancelled.
func (s *bench) declares(want map[string]string) {
	s.T.Helper()
	var got map[string]string
	// Not Fatal in between: the last state is to be shown.
	deadline := time.Now().Add(10 * time.Second)
	enginetest.Eventually(s.T, patience, "the recurring tasks are looked at", func() bool {
		got = map[string]string{}
		rows, err := inspect.New(store.Config{}).List(s.T.Context(), s.Pool, inspect.Filter{Type: "JOB"})
		s.OK(err)
		for _, row := range rows {
			var payload enginetest.Job
			s.OK(json.Unmarshal(row.Payload, &payload))
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
		s.T.Fatalf("the recurring tasks are %v, want %v", got, want)
	}
}

// What is declared fires, and goes on when a version without it has come and gone, be it between two looks of the
// older one's node.
func TestDeclaredTasksFire(t *testing.T) {
	s := newBench(t)
	each := declared("each", "1")
	each.Recurrence.Cron = eachSecond
	serve := func(every time.Duration, tasks ...store.Task) (stop func()) {
		return s.node(func(c *Config) { c.Recurring, c.declareEvery = append([]store.Task{}, tasks...), every },
			handlers.Handle(func(context.Context, *handlers.Task[enginetest.Job]) error { return nil }))
	}
	fires := func(least int) {
		t.Helper()
		enginetest.Eventually(t, patience, "it fires", func() bool {
			return s.Count(`SELECT coalesce(max(occurrence_count), 0) FROM tasktable.recurring_tasks`) >= least
		})
	}
	serve(1500*time.Millisecond, each)
	fires(1)
	stop := serve(time.Hour)
	s.declares(map[string]string{each.ID: ""})
	stop()
	fires(2)
	s.Did(s.Tasks.Cancel(t.Context(), s.Pool, each.ID))
	for _, one := range s.lines(each.ID) {
		s.Is(one.ID, store.StatusCompleted, taskdb.OutcomeCompleted)
	}
}
