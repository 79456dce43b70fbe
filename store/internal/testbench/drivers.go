package testbench

import (
	"database/sql"
	"net/url"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"
	_ "github.com/lib/pq" // the driver postgres

	"github.com/tasktable/tasktable/store"
)

// Readers are the ways whose scans differ.
func (b *Bench) Readers() map[string]store.DB {
	b.Helper()
	return map[string]store.DB{
		"pgx": b.Pool, "simple protocol": b.PoolIn(pgx.QueryExecModeSimpleProtocol),
		"database/sql": store.SQL(b.OpenSQL("pgx")), "lib/pq": store.SQL(b.OpenSQL("postgres")),
	}
}

// PoolIn is another pool, whose statements go in this mode.
func (b *Bench) PoolIn(mode pgx.QueryExecMode) *pgxpool.Pool {
	b.Helper()
	config := b.Pool.Config()
	config.ConnConfig.DefaultQueryExecMode, config.MaxConns = mode, 2
	pool, err := pgxpool.NewWithConfig(b.Ctx, config)
	b.Check(err)
	b.Cleanup(pool.Close)
	return pool
}

// OpenSQL opens the database by a driver of database/sql: pgx or postgres, which is lib/pq.
func (b *Bench) OpenSQL(driver string) *sql.DB {
	b.Helper()
	var db *sql.DB
	if driver == "pgx" {
		db = stdlib.OpenDB(*b.Pool.Config().ConnConfig.Copy())
	} else {
		dsn, err := url.Parse(b.Pool.Config().ConnString())
		b.Check(err)
		if query := dsn.Query(); !query.Has("sslmode") { // to lib/pq that is "require", to pgx "prefer"
			query.Set("sslmode", "disable")
			dsn.RawQuery = query.Encode()
		}
		db, err = sql.Open(driver, dsn.String())
		b.Check(err)
	}
	b.Cleanup(func() { _ = db.Close() })
	return db
}
