package community_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tasktable/tasktable/handlers/community"
	"github.com/tasktable/tasktable/store/storetest"
)

// exampleTB is as much of a testing.TB as storetest needs: an Example has none.
type exampleTB struct {
	testing.TB
	cleanups []func()
}

func (e *exampleTB) Helper()                           {}
func (e *exampleTB) Cleanup(cleanup func())            { e.cleanups = append(e.cleanups, cleanup) }
func (e *exampleTB) Errorf(format string, args ...any) { fmt.Printf(format+"\n", args...) }
func (e *exampleTB) Fatalf(format string, args ...any) { panic(fmt.Sprintf(format, args...)) }

// database is a migrated database of the example's own.
func database(ctx context.Context) (pool *pgxpool.Pool, drop func()) {
	tb := &exampleTB{}
	pool = storetest.Pool(tb)
	must(community.Migrate(ctx, pool))
	return pool, func() {
		for i := len(tb.cleanups) - 1; i >= 0; i-- {
			tb.cleanups[i]()
		}
	}
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
