package store_test

import (
	"context"
	"database/sql"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	_ "github.com/lib/pq"
	"gorm.io/driver/postgres"
	"gorm.io/gorm"
	"gorm.io/gorm/logger"

	"github.com/tasktable/tasktable/store"
	"github.com/tasktable/tasktable/store/inspect"
)

// A way is how an application may hand its connection to the store. A way that is a transaction has an end, which
// commits it or rolls it back; for the others it is nil.
type way struct {
	name string
	open func(b *bench) (db store.DB, end func(commit bool) error)
}

// sqlcPgx is the interface that sqlc generates for pgx; a Queries struct holds one.
type sqlcPgx interface {
	Exec(context.Context, string, ...any) (pgconn.CommandTag, error)
	Query(context.Context, string, ...any) (pgx.Rows, error)
	QueryRow(context.Context, string, ...any) pgx.Row
}

// sqlcSQL is the interface that sqlc generates for database/sql.
type sqlcSQL interface {
	ExecContext(context.Context, string, ...any) (sql.Result, error)
	PrepareContext(context.Context, string) (*sql.Stmt, error)
	QueryContext(context.Context, string, ...any) (*sql.Rows, error)
	QueryRowContext(context.Context, string, ...any) *sql.Row
}

func ways() []way {
	return []way{
		{"pgx pool", func(b *bench) (store.DB, func(bool) error) { return b.Pool, nil }},
		{"pgx conn", func(b *bench) (store.DB, func(bool) error) {
			conn, err := pgx.ConnectConfig(b.Ctx, b.Pool.Config().ConnConfig.Copy())
			b.Check(err)
			b.Cleanup(func() { _ = conn.Close(context.Background()) })
			return conn, nil
		}},
		{"pgx tx", func(b *bench) (store.DB, func(bool) error) { return b.pgxTx(b.Pool) }},
		{"pgx nested tx", func(b *bench) (store.DB, func(bool) error) {
			outer := b.Begin(pgx.TxOptions{})
			inner, err := outer.Begin(b.Ctx)
			b.Check(err)
			return inner, func(commit bool) error {
				if commit {
					if err := inner.Commit(b.Ctx); err != nil {
						return err
					}
					return outer.Commit(b.Ctx)
				}
				if err := inner.Rollback(b.Ctx); err != nil {
					return err
				}
				return outer.Commit(b.Ctx) // what was done before the savepoint stays
			}
		}},
		{"pgx simple protocol", func(b *bench) (store.DB, func(bool) error) {
			return b.pgxTx(b.PoolIn(pgx.QueryExecModeSimpleProtocol))
		}},
		{"pgx exec mode", func(b *bench) (store.DB, func(bool) error) {
			return b.pgxTx(b.PoolIn(pgx.QueryExecModeExec)) // as behind a pooler that keeps no prepared statements
		}},
		{"sqlc for pgx", func(b *bench) (store.DB, func(bool) error) {
			tx := b.Begin(pgx.TxOptions{})
			queries := struct{ db sqlcPgx }{tx}
			return queries.db, b.endPgx(tx)
		}},
		{
			"database/sql over pgx, DB",
			func(b *bench) (store.DB, func(bool) error) { return store.SQL(b.OpenSQL("pgx")), nil },
		},
		{"database/sql over pgx, Conn", func(b *bench) (store.DB, func(bool) error) {
			conn, err := b.OpenSQL("pgx").Conn(b.Ctx)
			b.Check(err)
			b.Cleanup(func() { _ = conn.Close() })
			return store.SQL(conn), nil
		}},
		{"database/sql over pgx, Tx", func(b *bench) (store.DB, func(bool) error) { return b.sqlTx("pgx") }},
		{"lib/pq, DB", func(b *bench) (store.DB, func(bool) error) { return store.SQL(b.OpenSQL("postgres")), nil }},
		{"lib/pq, Tx", func(b *bench) (store.DB, func(bool) error) { return b.sqlTx("postgres") }},
		{"sqlc for database/sql", func(b *bench) (store.DB, func(bool) error) {
			tx, err := b.OpenSQL("pgx").BeginTx(b.Ctx, nil)
			b.Check(err)
			queries := struct{ db sqlcSQL }{tx}
			return store.SQL(queries.db), b.endSQL(tx)
		}},
	}
}

func (b *bench) pgxTx(pool *pgxpool.Pool) (store.DB, func(bool) error) {
	b.Helper()
	tx, err := pool.Begin(b.Ctx)
	b.Check(err)
	b.Cleanup(func() { _ = tx.Rollback(context.Background()) })
	return tx, b.endPgx(tx)
}

func (b *bench) endPgx(tx pgx.Tx) func(bool) error {
	return func(commit bool) error {
		if commit {
			return tx.Commit(b.Ctx)
		}
		return tx.Rollback(b.Ctx)
	}
}

func (b *bench) sqlTx(driver string) (store.DB, func(bool) error) {
	b.Helper()
	tx, err := b.OpenSQL(driver).BeginTx(b.Ctx, nil)
	b.Check(err)
	return store.SQL(tx), b.endSQL(tx)
}

func (b *bench) endSQL(tx *sql.Tx) func(bool) error {
	b.Cleanup(func() { _ = tx.Rollback() })
	return func(commit bool) error {
		if commit {
			return tx.Commit()
		}
		return tx.Rollback()
	}
}

// Every verb and every read, over every way.
func TestEveryWayToTheDatabase(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	for _, way := range ways() {
		t.Run(way.name, func(t *testing.T) { // one after the other: pauses of one are seen by all
			b := benchOn(t, b.Pool)
			db, end := way.open(b)
			b.allVerbs(db, way.name)
			b.allOperations(db, b.Tasks, "of "+way.name)
			if end != nil {
				if b.Get(way.name) != nil {
					b.Error("seen before the commit")
				}
				b.Check(end(true))
			}
			b.checkAllVerbs(way.name)
			if row := b.Get("of " + way.name + " daily"); row != nil {
				b.Errorf("erased, but there: %s", pretty(row))
			}
		})
	}
}

func TestRollbackLeavesNothing(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	for _, way := range ways() {
		db, end := way.open(b)
		if end == nil {
			continue
		}
		b.allVerbs(db, way.name)
		b.Check(end(false))
	}
	for _, table := range []string{"scheduled_tasks", "scheduled_task_changes", "scheduled_task_executions"} {
		if left := one[int](b, b.Pool, `SELECT count(*) FROM tasktable.`+table); left != 0 {
			t.Errorf("%d rows in %s", left, table)
		}
	}
}

// expecting returns a check of receipts of a task, each with its outcome.
func (b *bench) expecting(id string) func(store.Outcome) func(store.Receipt, error) {
	return func(outcome store.Outcome) func(store.Receipt, error) {
		return func(receipt store.Receipt, err error) {
			b.Helper()
			b.Check(err)
			if receipt.Outcome != outcome || receipt.ID != id {
				b.Errorf("got %+v instead of %s", receipt, outcome)
			}
		}
	}
}

// allVerbs does all there is to do with tasks that do not recur, named after id.
func (b *bench) allVerbs(db store.DB, id string) {
	b.Helper()
	expect := b.expecting(id)
	expect(store.Created)(b.Tasks.Schedule(b.Ctx, db, full(id)))
	expect(store.Unchanged)(b.Tasks.Schedule(b.Ctx, db, full(id)))
	expect(store.Rescheduled)(b.Tasks.Reschedule(b.Ctx, db, id, far(5)))
	expect(store.Paused)(b.Tasks.Pause(b.Ctx, db, id))
	expect(store.Queued)(b.Tasks.Resume(b.Ctx, db, id))
	expect(store.Queued)(b.Tasks.RunNow(b.Ctx, db, id))
	expect(store.Unchanged)(b.Tasks.Retry(b.Ctx, db, id))
	expect(store.Cancelled)(b.Tasks.Cancel(b.Ctx, db, id))
	expect(store.Deleted)(b.Tasks.Delete(b.Ctx, db, id))
	expect(store.Absent)(b.Tasks.Cancel(b.Ctx, db, id))
	expect(store.Created)(b.Tasks.Schedule(b.Ctx, db, full(id)))

	entity := "way:" + id
	bulk := []store.Task{
		{ID: id + " 1", Payload: payload(1), Entity: entity}, {ID: id + " 2", Payload: payload(2), Entity: entity},
	}
	receipts, err := b.Tasks.ScheduleMany(b.Ctx, db, bulk)
	b.Check(err)
	same(b, "many", outcomes(receipts), []string{id + " 1 created", id + " 2 created"})
	receipts, err = b.Tasks.Sync(b.Ctx, db, entity, bulk[1])
	b.Check(err)
	same(b, "sync", outcomes(receipts), []string{id + " 2 unchanged", id + " 1 cancelled"})

	row, err := b.Tasks.Get(b.Ctx, db, id)
	b.Check(err)
	if row.ID != id || *row.Expiration != time.Hour || row.Message != nil {
		b.Errorf("got %s", pretty(row))
	}
	rows, err := b.Inspector.List(b.Ctx, db, inspect.Filter{Entity: entity})
	b.Check(err)
	history, err := b.Tasks.History(b.Ctx, db, id)
	b.Check(err)
	if len(rows) != 2 || len(history.Changes) != 8 {
		b.Errorf("%d tasks listed, %d change lines", len(rows), len(history.Changes))
	}
}

func (b *bench) checkAllVerbs(id string) {
	b.Helper()
	same(b, "lines", b.Lines(id), []string{
		"schedule created " + service, "reschedule rescheduled " + service, "pause paused " + service,
		"resume queued " + service, "run_now queued " + service, "cancel cancelled " + service,
		"delete deleted " + service, "schedule created " + service,
	})
}

// GORM's transaction is no *sql.Tx; its ConnPool has database/sql's methods all the same.
func TestGORM(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	db, err := gorm.Open(postgres.New(postgres.Config{Conn: b.OpenSQL("pgx")}), &gorm.Config{Logger: logger.Discard})
	b.Check(err)
	b.Check(db.Exec(`CREATE TABLE events (id text PRIMARY KEY)`).Error)
	act := func(id string, end error) error {
		return db.Transaction(func(tx *gorm.DB) error {
			b.Check(tx.Exec(`INSERT INTO events VALUES (?)`, id).Error)
			b.allVerbs(store.SQL(tx.Statement.ConnPool), id)
			return end
		})
	}
	b.Check(act("committed", nil))
	if err := act("rolled back", context.Canceled); err == nil {
		t.Error("no error")
	}
	b.checkAllVerbs("committed")
	same(b, "rolled back", b.state("rolled back"), state{})
	same(b, "events", one[[]string](b, b.Pool, `SELECT array_agg(id) FROM events`), []string{"committed"})
}
