package handlers_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tasktable/tasktable/handlers"
	"github.com/tasktable/tasktable/store"
)

type SendEventReminder struct {
	EventID string `json:"event_id"`
}

func (SendEventReminder) TaskType() string  { return "SEND_EVENT_REMINDER" }
func (p SendEventReminder) TaskKey() string { return p.EventID }

type PublishEvent struct {
	EventID string `json:"event_id"`
}

func (PublishEvent) TaskType() string  { return "PUBLISH_EVENT" }
func (p PublishEvent) TaskKey() string { return p.EventID }

// The union is made once, of a handler for each variant. A duplicate or malformed type is an error here,
// not at run time.
func ExampleNewRegistry() {
	send := func(_ context.Context, t *handlers.Task[SendEventReminder]) error {
		fmt.Println("remind of", t.Payload.EventID, "with key", t.IdempotencyKey())
		t.Again(t.ScheduledAt.AddDate(0, 0, 7)) // the next one, in a week
		return nil
	}
	publish := func(ctx context.Context, tx pgx.Tx, t *handlers.Task[PublishEvent]) error {
		_, err := tx.Exec(ctx, "UPDATE events SET published_at = now() WHERE id = $1", t.Payload.EventID)
		return err // its write and the task's completion commit together
	}
	cleanup := func(context.Context) error { return nil } // what was a cron script

	registry, err := handlers.NewRegistry(
		handlers.Handle(send), handlers.HandleTx(publish), handlers.Func("TOKEN_CLEANUP", cleanup),
	)
	fmt.Println(registry.Types(), err)

	_, err = handlers.NewRegistry(handlers.Handle(send), handlers.Handle(send))
	fmt.Println(err)
	// Output:
	// [PUBLISH_EVENT SEND_EVENT_REMINDER TOKEN_CLEANUP] <nil>
	// make registry: invalid: type "SEND_EVENT_REMINDER" has two handlers
}

// Middleware wraps all handlers, or one; the first is the outermost.
func ExampleUse() {
	say := func(word string) handlers.Middleware {
		return func(next handlers.Handler) handlers.Handler {
			return func(ctx context.Context, e *handlers.Execution) error {
				fmt.Println(word, e.ID)
				return next(ctx, e)
			}
		}
	}
	registry, err := handlers.NewRegistry(
		handlers.Handle(
			func(context.Context, *handlers.Task[SendEventReminder]) error { return nil },
			handlers.Use(say("only this type:")),
		),
		handlers.Use(say("every type:")),
	)
	if err != nil {
		fmt.Println(err)
		return
	}
	e := &handlers.Execution{
		ID: "task-SEND_EVENT_REMINDER-42", Type: "SEND_EVENT_REMINDER", Payload: []byte(`{"event_id":"42"}`),
	}
	fmt.Println(registry.Variant(e.Type).Run(context.Background(), e))
	// Output:
	// every type: task-SEND_EVENT_REMINDER-42
	// only this type: task-SEND_EVENT_REMINDER-42
	// <nil>
}

// What a handler returns decides what becomes of the task.
func ExamplePermanent() {
	_ = func(_ context.Context, t *handlers.Task[SendEventReminder]) error {
		switch {
		case t.Payload.EventID == "":
			return handlers.Permanent(errors.New("no event")) // FAILED at once: a retry would not mend it
		case time.Now().Before(t.ScheduledAt):
			return handlers.Snooze(time.Minute) // not ready: no attempt is used up
		}
		t.FollowUp(store.Task{Payload: PublishEvent{EventID: t.Payload.EventID}})
		return handlers.RetryAfter(time.Minute, errors.New("the mail server is busy"))
	}
	fmt.Println(handlers.Permanent(errors.New("no event")))
	fmt.Println(handlers.RetryAfter(time.Minute, errors.New("busy")))
	// Output:
	// no event
	// busy
}
