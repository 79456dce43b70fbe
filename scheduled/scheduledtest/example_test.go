package scheduledtest_test

import (
	"context"
	"fmt"
	"time"

	"github.com/tasktable/tasktable/handlers"
	"github.com/tasktable/tasktable/scheduled/scheduledtest"
	"github.com/tasktable/tasktable/store"
	"github.com/tasktable/tasktable/store/storetest"
)

// A test schedules, and says what time it is. In a test t is its own, and is not to be ended.
func ExampleHarness_RunDueAt() {
	ctx := context.Background()
	t, end := storetest.Example()
	defer end()
	tx, err := storetest.Pool(t).Begin(ctx)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = tx.Rollback(ctx) }() // and nothing is left

	registry, err := handlers.NewRegistry(handlers.Handle(func(_ context.Context, t *handlers.Task[reminder]) error {
		fmt.Println("remind of", t.Payload.Event)
		return nil
	}))
	if err != nil {
		fmt.Println(err)
		return
	}
	at := time.Date(2030, 5, 1, 17, 0, 0, 0, time.UTC)
	_, err = tasks.Schedule(ctx, tx, store.Task{Payload: reminder{"the picnic"}, At: at, Expiration: time.Hour})
	fmt.Println(err)

	h := scheduledtest.New(t, tx, registry)
	fmt.Println(len(h.RunDueAt(ctx, at.Add(-time.Second))))
	ran := h.RunDueAt(ctx, at)
	fmt.Println(ran[0].ID, ran[0].Outcome, ran[0].Err)
	// Output:
	// <nil>
	// 0
	// remind of the picnic
	// task-REMINDER-the picnic COMPLETED <nil>
}
