package scheduled_test

import (
	"context"
	"fmt"
	"log/slog"

	"github.com/tasktable/tasktable/handlers"
	"github.com/tasktable/tasktable/scheduled"
	"github.com/tasktable/tasktable/store"
	"github.com/tasktable/tasktable/store/storetest"
)

// What was a line of a crontab, "0 3 * * * cleanup", is a line of the registry and one of Config.Recurring.
// However many nodes declare it, it runs once at each time; the view recurring_tasks shows when it has fired,
// and when it will.
func Example_recurring() {
	t, end := storetest.Example()
	defer end()
	pool := storetest.Pool(t)
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	runs := 0
	cleanup := func(context.Context) error {
		fmt.Println("cleaned up")
		if runs++; runs == 2 {
			stop()
		}
		return nil
	}

	registry, err := handlers.NewRegistry(handlers.Func("CLEANUP", cleanup))
	if err != nil {
		fmt.Println(err)
		return
	}
	node, err := scheduled.New(scheduled.Config{
		Pool: pool, Handlers: registry, Service: "events-api", Logger: slog.New(slog.DiscardHandler),
		Recurring: []store.Task{store.Cron("CLEANUP", "* * * * * *")}, // each second, for the example
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(node.Run(ctx))
	// Output:
	// cleaned up
	// cleaned up
	// <nil>
}
