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

// Readers returns the ways to read the database that differ in how they scan values.
func (b *Bench) Readers() map[string]store.DB {
	b.Helper()
	return map[string]store.DB{
		"pgx": b.Pool, "simple protocol": b.PoolIn(pgx.QueryExecModeSimpleProtocol),
		"database/sql": store.SQL(b.OpenSQL("pgx")), "lib/pq": store.SQL(b.OpenSQL("postgres")),
	}
}

// PoolIn returns another pool, which executes statements in the given mode.
func (b *Bench) PoolIn(mode pgx.QueryExecMode) *pgxpool.Pool {
	b.Helper()
	config := b.Pool.Config()
	config.ConnConfig.DefaultQueryExecMode, config.MaxConns = mode, 2
	pool, err := pgxpool.NewWithConfig(b.Ctx, config)
	b.Check(err)
	b.Cleanup(pool.Close)
	return pool
}

// OpenSQL opens the database with a driver of database/sql: pgx, or postgres, which is lib/pq.
func (b *Bench) OpenSQL(driver string) *sql.DB {
	b.Helper()
	var db *sql.DB
	if driver == "pgx" {
		db = stdlib.OpenDB(*b.Pool.Config().ConnConfig.Copy())
	} else {
		dsn, err := url.Parse(b.Pool.Config().ConnString())
		b.Check(err)
		if query := dsn.Query(); !query.Has("sslmode") { // the default is "require" in lib/pq, and "prefer" in pgx
			query.Set("sslmode", "disable")
			dsn.RawQuery = query.Encode()
		}
		db, err = sql.Open(driver, dsn.String())
		b.Check(err)
	}
	b.Cleanup(func() { _ = db.Close() })
	return db
}
