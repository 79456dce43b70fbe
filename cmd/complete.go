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

// ask asks the database for words, and returns those that begin with the prefix. It returns none without a database
// URL, because it starts no private Postgres for that, and none if the database does not answer in time.
func (c *client) ask(
	ctx context.Context, prefix string, question func(context.Context, store.DB, store.Config) ([]string, error),
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
	return options.Words(found...)(ctx, prefix)
}

// textsOf is the text of each.
func textsOf[T any](of []T, text func(T) string) []string {
	texts := make([]string, len(of))
	for i, one := range of {
		texts[i] = text(one)
	}
	return texts
}

// ids completes the ids of tasks in one of the statuses, or in any status if none is given.
func (c *client) ids(statuses ...store.Status) options.Completion {
	return func(ctx context.Context, prefix string) []string {
		return c.ask(ctx, prefix, func(ctx context.Context, db store.DB, config store.Config) ([]string, error) {
			names, err := inspect.New(config).Names(ctx, db, inspect.Filter{
				IDPrefix: prefix, Statuses: statuses, Order: inspect.ByID, Limit: completeMost,
			})
			return textsOf(names, func(name inspect.Name) string {
				return name.ID + "\t" + name.Type + ", " + string(name.Status)
			}), err
		})
	}
}

// types completes the types that nodes have or that wait.
func (c *client) types(ctx context.Context, prefix string) []string {
	return c.ask(ctx, prefix, func(ctx context.Context, db store.DB, config store.Config) ([]string, error) {
		return inspect.New(config).Types(ctx, db)
	})
}

// queues completes the queues that nodes work or in which tasks wait.
func (c *client) queues(ctx context.Context, prefix string) []string {
	return c.ask(ctx, prefix, func(ctx context.Context, db store.DB, config store.Config) ([]string, error) {
		return inspect.New(config).Queues(ctx, db)
	})
}
