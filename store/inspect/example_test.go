package inspect_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/tasktable/tasktable/handlers"
	"github.com/tasktable/tasktable/scheduled/scheduledtest"
	"github.com/tasktable/tasktable/store"
	"github.com/tasktable/tasktable/store/inspect"
	"github.com/tasktable/tasktable/store/storetest"
)

// remind is a variant of the payload.
type remind struct {
	EventID string `json:"event_id"`
}

func (remind) TaskType() string  { return "REMIND" }
func (p remind) TaskKey() string { return p.EventID }

var sixPM = time.Date(2030, 5, 1, 18, 0, 0, 0, time.UTC)

// What has failed for good is a dead letter, until somebody retries or archives it.
func Example_deadLetters() {
	ctx := context.Background()
	t, end := storetest.Example()
	defer end()
	tx, err := storetest.Pool(t).Begin(ctx)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = tx.Rollback(ctx) }()
	tasks := store.New(store.Config{Service: "events-api"})
	_, err = tasks.ScheduleMany(ctx, tx, []store.Task{
		{Payload: remind{"42"}, At: sixPM}, {Payload: remind{"43"}, At: sixPM},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	registry, err := handlers.NewRegistry(handlers.Handle(func(context.Context, *handlers.Task[remind]) error {
		return handlers.Permanent(errors.New("421 the mail server is full"))
	}))
	if err != nil {
		fmt.Println(err)
		return
	}
	scheduledtest.New(t, tx, registry).RunDueAt(ctx, sixPM)

	inspector := inspect.New(store.Config{})
	filter := inspect.DeadLetters()
	filter.Type, filter.Message = "REMIND", "421"
	dead, err := inspector.List(ctx, tx, filter)
	for _, row := range dead {
		fmt.Println(row.ID, row.Status, *row.Message)
	}
	fmt.Println(err)
	receipt, err := tasks.Archive(ctx, tx, "task-REMIND-43", "the member has left")
	fmt.Println(receipt.Outcome, err)
	// Those that are not archived.
	done, err := inspector.Do(ctx, tx, inspect.Action{Verb: inspect.Retry}, inspect.Targets{Filter: &filter})
	fmt.Println(len(done.Receipts), done.Receipts[0].ID, done.Receipts[0].Outcome, err)
	// Output:
	// task-REMIND-42 FAILED 421 the mail server is full
	// task-REMIND-43 FAILED 421 the mail server is full
	// <nil>
	// archived <nil>
	// 1 task-REMIND-42 queued <nil>
}
