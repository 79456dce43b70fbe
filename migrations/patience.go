package migrations

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
)

// A change of a table waits until nobody else uses it, and meanwhile everybody else waits behind it: an application's transaction that
// has been open for minutes would stop all applications and nodes for as long. So a migration waits for lockTimeout only, lets the others
// through for givesWay, and tries again, tries times.
const (
	lockTimeout = "2s"
	givesWay    = time.Second
	tries       = 40
)

// hurried is how to connect so that no statement waits long for a lock, unless the URL says how long.
func hurried(config *pgx.ConnConfig) *pgx.ConnConfig {
	config = config.Copy()
	if config.RuntimeParams["lock_timeout"] == "" {
		config.RuntimeParams["lock_timeout"] = lockTimeout
	}
	return config
}

// hurriedPool is the pool of one connection on which goose and River migrate, one after the other. The connection is made as
// hurried says. The caller closes the pool.
func hurriedPool(ctx context.Context, pool *pgxpool.Pool) (*pgxpool.Pool, error) {
	config := pool.Config()
	config.ConnConfig = hurried(config.ConnConfig)
	config.MinConns, config.MinIdleConns, config.MaxConns = 0, 0, 1
	ours, err := pgxpool.NewWithConfig(ctx, config)
	if err != nil {
		return nil, fmt.Errorf("prepare a connection for migrations: %w", err)
	}
	return ours, nil
}

// patiently tries a migration again while others have locked what it needs. What is applied by then stays applied.
func patiently(ctx context.Context, migrate func() error) error {
	for left := tries; ; left-- {
		err := migrate()
		var refused *pgconn.PgError
		if !errors.As(err, &refused) || refused.Code != "55P03" && refused.Code != "40P01" { // lock_not_available, deadlock_detected
			return err
		}
		if left == 1 {
			return fmt.Errorf("%w: open transactions have kept the tables locked through %d tries; pg_stat_activity shows whose, by xact_start", err, tries)
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(givesWay):
		}
	}
}
