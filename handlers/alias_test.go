package handlers_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/tasktable/tasktable/handlers"
	"github.com/tasktable/tasktable/store"
)

// A handler with aliases is that of each of the names, with all that belongs to it; the names stay apart.
func TestAlias(t *testing.T) {
	t.Parallel()
	var seen []string
	watch := func(next handlers.Handler) handlers.Handler {
		return func(ctx context.Context, e *handlers.Execution) error {
			seen = append(seen, "watched")
			return next(ctx, e)
		}
	}
	part := handlers.Handle(func(_ context.Context, task *handlers.Task[mail]) error {
		seen = append(seen, task.Type+" to "+task.Payload.To)
		return nil
	}, handlers.Alias("LETTER", "POST"), handlers.Use(watch), handlers.Alias("PIGEON"),
		handlers.WithBackoff(func(int, error) time.Duration { return 7 }))
	for range 2 { // a variant may be given to several registries
		seen = nil
		registry := registryOf(t, part, handlers.Func("OTHER", nothing))
		if got := fmt.Sprint(registry.Types()); got != "[LETTER MAIL OTHER PIGEON POST]" {
			t.Errorf("types %s", got)
		}
		for _, name := range []string{"MAIL", "LETTER", "POST", "PIGEON"} {
			variant := registry.Variant(name)
			if variant == nil || variant.Type != name || variant.Kind != handlers.KindPlain ||
				variant.Backoff(1, nil) != 7 {
				t.Fatalf("%s: variant %+v", name, variant)
			}
			e := &handlers.Execution{
				ID: "a", Type: name, Payload: json.RawMessage(`{"type":"` + name + `","to":"you"}`),
			}
			if err := variant.Run(t.Context(), e); err != nil {
				t.Fatal(err)
			}
		}
		if got := strings.Join(seen, ", "); got !=
			"watched, MAIL to you, watched, LETTER to you, watched, POST to you, watched, PIGEON to you" {
			t.Errorf("ran %s", got)
		}
		if missing := registry.Missing(
			mail{}, store.JSON(`{"type":"POST"}`), store.JSON(`{"type":"HORSE"}`),
		); fmt.Sprint(missing) != "[HORSE]" {
			t.Errorf("missing %v", missing)
		}
	}
}

func TestAliasRefuses(t *testing.T) {
	t.Parallel()
	for want, parts := range map[string][]handlers.Part{
		`type "MAIL" has two handlers`: {handlers.Handle(send, handlers.Alias("MAIL"))},
		`type "POST" has two handlers`: {handlers.Handle(send, handlers.Alias("POST", "POST"))},
		`type "LETTER" has two handlers`: {
			handlers.Handle(send, handlers.Alias("LETTER")), handlers.Func("LETTER", nothing),
		},
		`type "OTHER" has two handlers`: {
			handlers.Func("OTHER", nothing), handlers.Handle(send, handlers.Alias("OTHER")),
		},
		`type "OLD" has two handlers`: {
			handlers.Func("OTHER", nothing, handlers.Alias("OLD")), handlers.Handle(send, handlers.Alias("OLD")),
		},
		`alias of type "MAIL": invalid: type must be 2 to 127 letters, digits or _-[]<>/.·:+, got "two words"`: {
			handlers.Handle(send, handlers.Alias("POST", "two words"))},
		`alias of type "MAIL": invalid: type must be 2 to 127 letters, digits or _-[]<>/.·:+, got ""`: {
			handlers.Handle(send, handlers.Alias("")),
		},
	} {
		registry, err := handlers.NewRegistry(parts...)
		if registry != nil || !errors.Is(err, store.ErrInvalid) || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
	if types := registryOf(t, handlers.Handle(send, handlers.Alias())).Types(); len(types) != 1 {
		t.Errorf("no alias gives the types %v", types)
	}
}

// RemindOfEvent was called SendEventReminder.
type RemindOfEvent struct {
	EventID string `json:"event_id"`
}

func (RemindOfEvent) TaskType() string { return "REMIND_OF_EVENT" }

// TaskID is what producers give as store.Task.ID, and to Cancel: the ids of before, so that a new reminder of an
// event edits the old one.
func (p RemindOfEvent) TaskID() string { return "task-SEND_EVENT_REMINDER-" + p.EventID }

// A type that was renamed: what is scheduled under the old name runs by the new handler.
func ExampleAlias() {
	remind := func(_ context.Context, t *handlers.Task[RemindOfEvent]) error {
		fmt.Println(t.Type, t.ID, t.Payload.EventID)
		return nil
	}
	registry, err := handlers.NewRegistry(handlers.Handle(remind, handlers.Alias("SEND_EVENT_REMINDER")))
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(registry.Types())
	waiting := &handlers.Execution{
		ID: "task-SEND_EVENT_REMINDER-42", Type: "SEND_EVENT_REMINDER", Payload: []byte(`{"event_id":"42"}`),
	}
	fmt.Println(registry.Variant(waiting.Type).Run(context.Background(), waiting))

	next := RemindOfEvent{EventID: "42"}
	fmt.Println(store.Task{ID: next.TaskID(), Payload: next}.Check())
	// Output:
	// [REMIND_OF_EVENT SEND_EVENT_REMINDER]
	// SEND_EVENT_REMINDER task-SEND_EVENT_REMINDER-42 42
	// <nil>
	// <nil>
}
