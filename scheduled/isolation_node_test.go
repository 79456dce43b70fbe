package scheduled

import (
	"context"
	"database/sql"
	"errors"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tasktable/tasktable/handlers"
	"github.com/tasktable/tasktable/scheduled/internal/enginetest"
	"github.com/tasktable/tasktable/scheduled/internal/taskdb"
	"github.com/tasktable/tasktable/store"
)

// A database whose default isolation is repeatable read changes nothing: a transactional handler may extend its
// lease, and its task may be edited while it runs.
func TestRepeatableReadByDefault(t *testing.T) {
	s := newBench(t)
	s.Exec(`DO $$ BEGIN EXECUTE format('ALTER DATABASE %I SET default_transaction_isolation = %L', current_database(),
		'repeatable read'); END $$`)
	s.nodes.Reset()
	// A transaction has its snapshot from its first statement.
	const look = "SELECT count(*) FROM tasktable.scheduled_tasks"
	s.node(nil,
		handlers.HandleTx(func(ctx context.Context, tx pgx.Tx, task *handlers.Task[enginetest.Job]) error {
			_, err := tx.Exec(ctx, look)
			return errors.Join(err, task.Extend(ctx, 10*time.Minute))
		}),
		handlers.HandleSQLTx(func(ctx context.Context, tx *sql.Tx, task *handlers.Task[ownBackoff]) error {
			_, err := tx.ExecContext(ctx, look)
			return errors.Join(err, task.Extend(ctx, 10*time.Minute))
		}))
	s.Add("pgx", nil)
	s.Add("sql", func(task *store.Task) { task.Payload = ownBackoff{} })
	s.Is("pgx", store.StatusCompleted, taskdb.OutcomeCompleted)
	s.Is("sql", store.StatusCompleted, taskdb.OutcomeCompleted)
}
