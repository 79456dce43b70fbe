package statement_test

import (
	"context"
	"fmt"
	"time"

	"github.com/tasktable/tasktable/handlers"
	"github.com/tasktable/tasktable/handlers/statement"
	"github.com/tasktable/tasktable/handlers/statement/contract"
	"github.com/tasktable/tasktable/scheduled/scheduledtest"
	"github.com/tasktable/tasktable/store"
	"github.com/tasktable/tasktable/store/storetest"
)

// A task runs a statement of the configuration with a value of its own. In a test t is its own.
func ExampleVariant() {
	ctx := context.Background()
	t, end := storetest.Example()
	defer end()
	tx, err := storetest.Pool(t).Begin(ctx)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = tx.Rollback(ctx) }()
	if _, err := tx.Exec(ctx, `CREATE TABLE carts AS SELECT now() - n * interval '1 day' AS seen_at
		FROM generate_series(0, 9) AS n`); err != nil {
		fmt.Println(err)
		return
	}
	statements, err := statement.Variant(statement.Config{Statements: map[string]statement.Statement{
		"old-carts": {
			SQL: "DELETE FROM carts WHERE seen_at < now() - @age", Params: map[string]string{"age": "interval"},
		},
	}})
	if err != nil {
		fmt.Println(err)
		return
	}
	registry, err := handlers.NewRegistry(statements)
	fmt.Println(registry.Types(), err)

	at := time.Date(2035, 5, 1, 9, 0, 0, 0, time.UTC)
	for _, age := range []any{"6 days 12 hours", 6} {
		payload := contract.RunSQL{Statement: "old-carts", Params: map[string]any{"age": age}}
		if _, err := tasks.Schedule(ctx, tx, store.Task{Payload: payload, At: at}); err != nil {
			fmt.Println(err)
		}
		ran := scheduledtest.New(t, tx, registry).RunDueAt(ctx, at)
		fmt.Println(ran[0].Outcome, ran[0].Err, string(ran[0].Result))
	}
	// Output:
	// [RUN_SQL RUN_SQL:old-carts] <nil>
	// COMPLETED <nil> {"rows":3}
	// FAILED statement old-carts: payload field params.age must be an interval such as 30 days or 1 hour 30 minutes
}
