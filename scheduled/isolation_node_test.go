package scheduled

import (
	"context"
	"database/sql"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tasktable/tasktable/handlers"
	"github.com/tasktable/tasktable/store"
)

// A database whose default isolation is repeatable read changes nothing: a transactional handler may extend its lease, and its task may be
// edited while it runs.
func TestRepeatableReadByDefault(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	s.exec(`DO $$ BEGIN EXECUTE format('ALTER DATABASE %I SET default_transaction_isolation = %L', current_database(), 'repeatable read'); END $$`)
	s.nodes.Reset()
	extend := func(ctx context.Context, e *handlers.Execution) error {
		return e.Extend(ctx, 10*time.Minute)
	}
	s.node(nil,
		handlers.HandleTx(func(ctx context.Context, _ pgx.Tx, task *handlers.Task[job]) error {
			return extend(ctx, task.Execution)
		}),
		handlers.HandleSQLTx(func(ctx context.Context, _ *sql.Tx, task *handlers.Task[ownBackoff]) error {
			return extend(ctx, task.Execution)
		}))
	s.schedule("pgx", nil)
	s.schedule("sql", func(task *store.Task) { task.Payload = ownBackoff{} })
	s.is("pgx", store.StatusCompleted, outcomeCompleted)
	s.is("sql", store.StatusCompleted, outcomeCompleted)
}
