package scheduledtest_test

import (
	"context"
	"database/sql"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/stdlib"
	"gorm.io/driver/postgres"
	"gorm.io/gorm"
	"gorm.io/gorm/logger"
	"gorm.io/gorm/schema"

	"github.com/tasktable/tasktable/handlers"
	"github.com/tasktable/tasktable/scheduled/internal/enginetest"
	"github.com/tasktable/tasktable/scheduled/scheduledtest"
	"github.com/tasktable/tasktable/store"
	"github.com/tasktable/tasktable/store/storetest"
)

// event is a model whose table has the prefix that the application's naming strategy gives it.
type event struct {
	ID         string
	RemindedAt *time.Time
}

// inTx is as in store/ORM.md.
func inTx(ctx context.Context, app *gorm.DB, tx *sql.Tx) *gorm.DB {
	orm := app.Session(&gorm.Session{NewDB: true, SkipDefaultTransaction: true, Context: ctx})
	orm.Statement.ConnPool = tx
	return orm
}

// What store/ORM.md says of GORM: one pool, tasks scheduled in GORM's transaction, and a handler that writes through
// GORM in its own, with the settings of the application.
func TestGORMOnOnePool(t *testing.T) {
	t.Parallel()
	pool := storetest.Pool(t)
	sqlDB := stdlib.OpenDBFromPool(pool)
	t.Cleanup(func() { _ = sqlDB.Close() })
	orm, err := gorm.Open(postgres.New(postgres.Config{Conn: sqlDB}), &gorm.Config{
		Logger: logger.Discard, NamingStrategy: schema.NamingStrategy{TablePrefix: "shop_"},
	})
	enginetest.OK(t, err)
	enginetest.OK(t, orm.Exec(`CREATE TABLE shop_events (id text PRIMARY KEY, reminded_at timestamptz)`).Error)
	err = orm.Transaction(func(tx *gorm.DB) error {
		if err := tx.Create(&event{ID: "42"}).Error; err != nil {
			return err
		}
		task := store.Task{Payload: reminder{"42"}, At: fivePM}
		_, err := tasks.Schedule(t.Context(), store.SQL(tx.Statement.ConnPool), task)
		return err
	})
	enginetest.OK(t, err)
	sqlTx, err := sqlDB.BeginTx(t.Context(), nil)
	enginetest.OK(t, err)
	defer func() { _ = sqlTx.Rollback() }()
	h := scheduledtest.NewSQL(t, sqlTx, registry(t,
		handlers.HandleSQLTx(func(ctx context.Context, tx *sql.Tx, task *handlers.Task[reminder]) error {
			return inTx(ctx, orm, tx).Model(&event{ID: task.Payload.Event}).Update("reminded_at", task.StartedAt).Error
		}),
	))
	runs(t, h, fivePM, "COMPLETED")
	var reminded int
	const sql = `SELECT count(*) FROM shop_events WHERE reminded_at = $1`
	if err := sqlTx.QueryRowContext(t.Context(), sql, fivePM).Scan(&reminded); err != nil || reminded != 1 {
		t.Errorf("%d events are reminded of in the handler's transaction, %v", reminded, err)
	}
	err = orm.Raw(`SELECT count(*) FROM shop_events WHERE reminded_at IS NOT NULL`).Scan(&reminded).Error
	if err != nil || reminded != 0 {
		t.Errorf("%d events outside it, %v", reminded, err)
	}
}
