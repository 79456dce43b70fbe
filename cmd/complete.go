package cmd

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tasktable/tasktable/cmd/internal/options"
	"github.com/tasktable/tasktable/store"
	"github.com/tasktable/tasktable/store/inspect"
)

const (
	completeLimit = 2 * time.Second // a shell waits for it
	completeMost  = 100
)

// ask asks the database for the completions of a word. It returns none without a database URL, because it starts no
// private Postgres for that, and none if the database does not answer in time.
func (c *client) ask(
	ctx context.Context, question func(context.Context, store.DB, store.Config) ([]string, error),
) []string {
	if c.database.url == "" {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, completeLimit)
	defer cancel()
	config, err := poolConfig(c.database.url, 1)
	if err != nil {
		return nil
	}
	conn, err := pgx.ConnectConfig(ctx, config.ConnConfig)
	if err != nil {
		return nil
	}
	defer func() { _ = conn.Close(ctx) }()
	found, err := question(ctx, conn, store.Config{Schema: c.database.schema})
	if err != nil {
		return nil
	}
	return found
}

// ids completes the ids of tasks in one of the statuses, or in any status if none is given.
func (c *client) ids(statuses ...store.Status) options.Completion {
	return func(ctx context.Context, prefix string) []string {
		return c.ask(ctx, func(ctx context.Context, db store.DB, config store.Config) ([]string, error) {
			names, err := inspect.New(config).Names(ctx, db, inspect.Filter{
				IDPrefix: prefix, Statuses: statuses, Order: inspect.ByID, Limit: completeMost,
			})
			found := make([]string, len(names))
			for i, name := range names {
				found[i] = name.ID + "\t" + name.Type + ", " + string(name.Status)
			}
			return found, err
		})
	}
}

// types completes the types that nodes have or that wait.
func (c *client) types(ctx context.Context, prefix string) []string {
	return c.ask(ctx, func(ctx context.Context, db store.DB, config store.Config) ([]string, error) {
		types, err := inspect.New(config).Types(ctx, db)
		return options.Words(types...)(ctx, prefix), err
	})
}

// queues completes the queues that nodes work or in which tasks wait.
func (c *client) queues(ctx context.Context, prefix string) []string {
	return c.ask(ctx, func(ctx context.Context, db store.DB, config store.Config) ([]string, error) {
		queues, err := inspect.New(config).Queues(ctx, db)
		return options.Words(queues...)(ctx, prefix), err
	})
}
