package migrations

import (
	"context"
	"fmt"
	"hash/fnv"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tasktable/tasktable/store"
)

// patientSQL is for the connection of the lock. It waits, and is then idle, for as long as migrations take.
const patientSQL = `SET idle_session_timeout = 0; SET statement_timeout = 0; SET lock_timeout = 0`

// lock waits until no other process migrates the schema. The lock lasts until the caller closes the connection. The
// connection is none of the pool's, because a pool of a single connection would have none left for the migrations.
func lock(ctx context.Context, pool *pgxpool.Pool, schema store.Schema) (*pgx.Conn, error) {
	conn, err := pgx.ConnectConfig(ctx, pool.Config().ConnConfig.Copy())
	if err != nil {
		return nil, fmt.Errorf("connect to migrate: %w", err)
	}
	if _, err = conn.Exec(ctx, patientSQL); err != nil {
		err = fmt.Errorf("prepare the connection of the lock: %w", err)
	} else if _, err = conn.Exec(ctx, "SELECT pg_advisory_lock($1)", lockKey(schema)); err != nil {
		err = fmt.Errorf("wait for other migrations of schema %s: %w", schema, err)
	}
	if err != nil {
		_ = conn.Close(context.WithoutCancel(ctx))
		return nil, err
	}
	return conn, nil
}

// lockKey returns the key of the migrations' lock. It cannot equal a key of the engine's locks, because those are
// pairs of 32-bit numbers.
func lockKey(schema store.Schema) int64 {
	hash := fnv.New64a()
	_, _ = hash.Write([]byte("tasktable migrate " + strings.ToLower(schema.String())))
	return int64(hash.Sum64())
}
