package scheduled_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	"github.com/tasktable/tasktable/handlers"
	"github.com/tasktable/tasktable/scheduled"
	"github.com/tasktable/tasktable/store"
	"github.com/tasktable/tasktable/store/storetest"
)

// A node beside the rest of a service, on the service's own pool: it runs what is due until its context ends, then
// stops gracefully.
func ExampleNode_Run() {
	t, end := storetest.Example()
	defer end()
	pool := storetest.Pool(t)
	ctx, stop := context.WithCancel(context.Background())
	defer stop()

	registry, err := handlers.NewRegistry(handlers.Func("GREET", func(context.Context) error {
		fmt.Println("hello")
		stop() // a signal, in a real service
		return nil
	}))
	if err != nil {
		fmt.Println(err)
		return
	}
	node, err := scheduled.New(scheduled.Config{
		Pool: pool, Handlers: registry, Service: "greeter", Logger: slog.New(slog.DiscardHandler),
		Queues: map[string]int{store.DefaultQueue: 10}, // ten at once
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	tasks := store.New(store.Config{Service: "greeter"})
	// At is zero: now.
	receipt, err := tasks.Schedule(ctx, pool, store.Task{ID: "first", Payload: store.JSON(`{"type":"GREET"}`)})
	fmt.Println(receipt.Outcome, err)
	fmt.Println(node.Run(ctx))

	row, err := tasks.Get(context.Background(), pool, "first")
	fmt.Println(row.Status, row.Attempt, err)
	// Output:
	// created <nil>
	// hello
	// <nil>
	// COMPLETED 1 <nil>
}

// OnDead tells of each task that has failed for good, or expired, when it happens: for a message to whoever is on duty.
func ExampleConfig_onDead() {
	t, end := storetest.Example()
	defer end()
	pool := storetest.Pool(t)
	ctx, stop := context.WithCancel(context.Background())
	defer stop()

	registry, err := handlers.NewRegistry(handlers.Func("CHARGE", func(context.Context) error {
		return handlers.Permanent(errors.New("the card has expired"))
	}))
	if err != nil {
		fmt.Println(err)
		return
	}
	node, err := scheduled.New(scheduled.Config{
		Pool: pool, Handlers: registry, Logger: slog.New(slog.DiscardHandler),
		OnDead: func(_ context.Context, dead scheduled.Failure) {
			fmt.Println(dead.ID, dead.Outcome, dead.Error)
			stop()
		},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	tasks := store.New(store.Config{Service: "shop"})
	if _, err := tasks.Schedule(ctx, pool, store.Task{
		ID: "charge-7", Payload: store.JSON(`{"type":"CHARGE"}`),
	}); err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(node.Run(ctx))
	// Output:
	// charge-7 FAILED the card has expired
	// <nil>
}
