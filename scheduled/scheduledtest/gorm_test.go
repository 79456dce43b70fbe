package scheduledtest_test

import (
	"context"
	"database/sql"
	"testing"

	"github.com/jackc/pgx/v5/stdlib"
	"gorm.io/driver/postgres"
	"gorm.io/gorm"
	"gorm.io/gorm/logger"

	"github.com/tasktable/tasktable/handlers"
	"github.com/tasktable/tasktable/scheduled/scheduledtest"
	"github.com/tasktable/tasktable/store"
	"github.com/tasktable/tasktable/store/storetest"
)

// What store/ORM.md says of GORM: one pool, tasks scheduled in GORM's transaction, and a handler that writes through
// GORM in its own.
func TestGORMOnOnePool(t *testing.T) {
	t.Parallel()
	pool := storetest.Pool(t)
	sqlDB := stdlib.OpenDBFromPool(pool)
	t.Cleanup(func() { _ = sqlDB.Close() })
	orm, err := gorm.Open(postgres.New(postgres.Config{Conn: sqlDB}), &gorm.Config{Logger: logger.Discard})
	if err != nil {
		t.Fatal(err)
	}
	if err := orm.Exec(`CREATE TABLE events (id text PRIMARY KEY, reminded_at timestamptz)`).Error; err != nil {
		t.Fatal(err)
	}
	err = orm.Transaction(func(tx *gorm.DB) error {
		if err := tx.Exec(`INSERT INTO events (id) VALUES ('42')`).Error; err != nil {
			return err
		}
		task := store.Task{Payload: reminder{"42"}, At: fivePM}
		_, err := tasks.Schedule(t.Context(), store.SQL(tx.Statement.ConnPool), task)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	sqlTx, err := sqlDB.BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = sqlTx.Rollback() }()
	h := scheduledtest.NewSQL(t, sqlTx, registry(t,
		handlers.HandleSQLTx(func(ctx context.Context, tx *sql.Tx, task *handlers.Task[reminder]) error {
			config := &gorm.Config{Logger: logger.Discard, SkipDefaultTransaction: true, DisableAutomaticPing: true}
			orm, err := gorm.Open(postgres.New(postgres.Config{Conn: tx}), config)
			if err != nil {
				return err
			}
			return orm.WithContext(ctx).
				Exec("UPDATE events SET reminded_at = ? WHERE id = ?", task.StartedAt, task.Payload.Event).Error
		}),
	))
	if ran := h.RunDueAt(t.Context(), fivePM); len(ran) != 1 || ran[0].Outcome != "COMPLETED" {
		t.Fatalf("ran %+v", ran)
	}
	var reminded int
	const sql = `SELECT count(*) FROM events WHERE reminded_at = $1`
	if err := sqlTx.QueryRowContext(t.Context(), sql, fivePM).Scan(&reminded); err != nil || reminded != 1 {
		t.Errorf("%d events are reminded of in the handler's transaction, %v", reminded, err)
	}
	err = orm.Raw(`SELECT count(*) FROM events WHERE reminded_at IS NOT NULL`).Scan(&reminded).Error
	if err != nil || reminded != 0 {
		t.Errorf("%d events outside it, %v", reminded, err)
	}
}
