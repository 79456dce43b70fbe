package scheduled_test

import (
	"context"
	"log"
	"os"
	"os/signal"
	"syscall"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tasktable/tasktable/handlers"
	"github.com/tasktable/tasktable/migrations"
	"github.com/tasktable/tasktable/scheduled"
)

// A service's own main: the last lines are the node.
func Example() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	pool, err := pgxpool.New(ctx, os.Getenv("DATABASE_URL"))
	if err != nil {
		log.Fatal(err)
	}
	defer pool.Close()
	if err := migrations.Up(ctx, pool, ""); err != nil { // or once per deployment: tasktable migrate
		log.Fatal(err)
	}

	registry, err := handlers.NewRegistry(handlers.Func("TOKEN_CLEANUP", func(context.Context) error { return nil }))
	if err != nil {
		log.Fatal(err)
	}
	node, err := scheduled.New(scheduled.Config{Pool: pool, Handlers: registry, Service: "events-api"})
	if err != nil {
		log.Fatal(err)
	}
	if err := node.Run(ctx); err != nil { // until the signal; then a graceful stop
		log.Fatal(err)
	}
}
