package scheduled_test

import (
	"context"
	"fmt"
	"log/slog"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tasktable/tasktable/handlers"
	"github.com/tasktable/tasktable/scheduled"
	"github.com/tasktable/tasktable/store"
	"github.com/tasktable/tasktable/store/storetest"
)

// What was a line of a crontab, "0 3 * * *  cleanup", is a line of the registry and one of Config.Recurring. However many nodes
// declare it, it runs once at each time; the view recurring_tasks shows when it has fired, and when it will.
func Example_recurring() {
	pool, drop := exampleDatabase()
	defer drop()
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

// exampleTB is as much of a testing.TB as storetest needs: an Example has none.
type exampleTB struct {
	testing.TB
	cleanups []func()
}

func (e *exampleTB) Helper()                           {}
func (e *exampleTB) Cleanup(cleanup func())            { e.cleanups = append(e.cleanups, cleanup) }
func (e *exampleTB) Errorf(format string, args ...any) { fmt.Printf(format+"\n", args...) }
func (e *exampleTB) Fatalf(format string, args ...any) { panic(fmt.Sprintf(format, args...)) }

// exampleDatabase is a migrated database of the example's own.
func exampleDatabase() (pool *pgxpool.Pool, drop func()) {
	tb := &exampleTB{}
	pool = storetest.Pool(tb)
	return pool, func() {
		for i := len(tb.cleanups) - 1; i >= 0; i-- {
			tb.cleanups[i]()
		}
	}
}
