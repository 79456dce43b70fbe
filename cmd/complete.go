package cmd

import (
	"context"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tasktable/tasktable/cmd/internal/options"
	"github.com/tasktable/tasktable/store"
)

const (
	completeLimit = 2 * time.Second // a shell waits for it
	completeMost  = 100
)

// ask asks the database for the completions of a word. It returns none without a database URL, because it starts no
// private Postgres for that, and none if the database does not answer in time.
func (c *client) ask(ctx context.Context, question func(context.Context, store.DB, *store.Store) ([]string,
	error)) []string {
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
	found, err := question(ctx, conn, store.New(store.Config{Schema: c.database.schema}))
	if err != nil {
		return nil
	}
	return found
}

// ids completes the ids of tasks in one of the statuses, or in any status if none is given.
func (c *client) ids(statuses ...store.Status) options.Completion {
	return func(ctx context.Context, prefix string) []string {
		return c.ask(ctx, func(ctx context.Context, db store.DB, tasks *store.Store) ([]string, error) {
			names, err := tasks.Names(ctx, db, store.Filter{IDPrefix: prefix, Statuses: statuses, Limit: completeMost})
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
	return c.ask(ctx, func(ctx context.Context, db store.DB, tasks *store.Store) ([]string, error) {
		types, err := tasks.Types(ctx, db)
		return options.Words(types...)(ctx, prefix), err
	})
}

// queues completes the queues that nodes work or in which tasks wait.
func (c *client) queues(ctx context.Context, prefix string) []string {
	return c.ask(ctx, func(ctx context.Context, db store.DB, tasks *store.Store) ([]string, error) {
		queues, err := tasks.Queues(ctx, db)
		return options.Words(queues...)(ctx, prefix), err
	})
}

// statuses are the words of all statuses, which may be written small.
func statuses() []string {
	var all []string
	for _, status := range store.Statuses() {
		all = append(all, string(status))
	}
	return all
}

// completeStatus completes a status, or the last of several.
func completeStatus(ctx context.Context, prefix string) []string {
	return options.Words(statuses()...).Each()(ctx, strings.ToUpper(prefix))
}
