package worker

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"

	"github.com/tasktable/tasktable/handlers"
	"github.com/tasktable/tasktable/scheduled/internal/enginetest"
	"github.com/tasktable/tasktable/scheduled/internal/taskdb"
	"github.com/tasktable/tasktable/store"
)

// Middleware for all lies around that for one type, the first outermost; what it returns is the outcome, and a panic
// in it is the handler's.
func TestMiddleware(t *testing.T) {
	s := newBench(t)
	var mu sync.Mutex
	said := map[string][]string{}
	say := func(word string) handlers.Middleware {
		return func(next handlers.Handler) handlers.Handler {
			return func(ctx context.Context, e *handlers.Execution) error {
				note := func(word string) {
					mu.Lock()
					defer mu.Unlock()
					said[e.ID] = append(said[e.ID], word)
				}
				note(word)
				defer note("/" + word)
				return next(ctx, e)
			}
		}
	}
	judge := func(next handlers.Handler) handlers.Handler {
		return func(ctx context.Context, e *handlers.Execution) error {
			switch e.ID {
			case "refused":
				return handlers.Permanent(errors.New("not on my watch"))
			case "panics":
				panic("middleware")
			case "forgiven":
				_ = next(ctx, e)
				e.Note("forgiven")
				return nil
			}
			return next(ctx, e)
		}
	}
	s.node(nil,
		handlers.Handle(func(_ context.Context, task *handlers.Task[enginetest.Job]) error {
			if task.ID == "forgiven" {
				return errors.New("oops")
			}
			return nil
		}, handlers.Use(say("own 1"), say("own 2"))),
		handlers.Handle(func(context.Context, *handlers.Task[quick]) error { return nil }),
		handlers.Use(say("all 1"), judge), handlers.Use(say("all 2")))
	for _, id := range []string{"runs", "refused", "panics", "forgiven"} {
		s.Add(id, func(task *store.Task) { task.MaxAttempts = 1 })
	}
	s.Add("other type", func(task *store.Task) { task.Payload = quick{} })
	s.Is("runs", store.StatusCompleted, taskdb.OutcomeCompleted)
	s.Is("other type", store.StatusCompleted, taskdb.OutcomeCompleted)
	s.Is("refused", store.StatusFailed, taskdb.OutcomeFailed)
	s.Is("panics", store.StatusFailed, taskdb.OutcomeFailed)
	if row := s.Is(
		"forgiven", store.StatusCompleted, taskdb.OutcomeCompleted,
	); taskdb.TextOf(row.Message) != "forgiven" {
		t.Errorf("message %q", taskdb.TextOf(row.Message))
	}
	if got := s.ErrorOf("panics"); !strings.HasPrefix(got, "handler panicked: middleware\n") {
		t.Errorf("recorded as %q", got)
	}
	mu.Lock()
	defer mu.Unlock()
	for id, want := range map[string]string{
		"runs":       "all 1, all 2, own 1, own 2, /own 2, /own 1, /all 2, /all 1",
		"other type": "all 1, all 2, /all 2, /all 1",
		"refused":    "all 1, /all 1",
		"panics":     "all 1, /all 1",
	} {
		if got := strings.Join(said[id], ", "); got != want {
			t.Errorf("%s: %s, want %s", id, got, want)
		}
	}
}
