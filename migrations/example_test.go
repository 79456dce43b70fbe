package migrations_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tasktable/tasktable/migrations"
	"github.com/tasktable/tasktable/store/storetest"
)

// A service may migrate at its start, however many of it start at once; or a deployment does by tasktable migrate.
// Check says whether somebody has.
func ExampleUp() {
	ctx := context.Background()
	t, end := storetest.Example()
	defer end()
	pool, err := pgxpool.New(ctx, storetest.EmptyURL(t))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer pool.Close()

	fmt.Println(errors.Is(migrations.Check(ctx, pool, ""), migrations.ErrUnmigrated))
	fmt.Println(migrations.Up(ctx, pool, ""))
	fmt.Println(migrations.Check(ctx, pool, ""))
	// Output:
	// true
	// <nil>
	// <nil>
}
