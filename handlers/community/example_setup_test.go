package community_test

import (
	"context"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tasktable/tasktable/handlers/community"
	"github.com/tasktable/tasktable/store/storetest"
)

// database is a migrated database of the example's own.
func database(ctx context.Context) (pool *pgxpool.Pool, drop func()) {
	t, end := storetest.Example()
	pool = storetest.Pool(t)
	must(community.Migrate(ctx, pool))
	return pool, end
}

// people adds member-1, who hosts the community "home".
func people(ctx context.Context, tx pgx.Tx, app *community.App) error {
	if _, err := app.AddMember(ctx, tx, community.Member{ID: "member-1", Email: "member-1@example.org"}); err != nil {
		return err
	}
	_, err := app.AddCommunity(ctx, tx, community.Community{ID: "home", Title: "Home", Host: "member-1"})
	return err
}

func must(err error) {
	if err != nil {
		panic(err)
	}
}
