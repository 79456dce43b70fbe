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

// A change of a table waits until nobody else uses the table, and everybody else waits behind it. If an application's
// transaction has been open for minutes, all applications and nodes would have to wait as long. Therefore a migration
// waits only for lockTimeout, lets the others through for givesWay, and tries again, at most tries times.
const (
	lockTimeout = "2s"
	givesWay    = time.Second
	tries       = 40
)

// hurried returns the settings of a connection on which no statement waits long for a lock, unless the URL sets the
// limit. Backslashes in strings stand for themselves on it, because the migrations are written so.
func hurried(config *pgx.ConnConfig) *pgx.ConnConfig {
	config = config.Copy()
	if config.RuntimeParams["lock_timeout"] == "" {
		config.RuntimeParams["lock_timeout"] = lockTimeout
	}
	config.RuntimeParams["standard_conforming_strings"] = "on"
	return config
}

// hurriedPool returns a pool of one connection, which has the settings of hurried. goose and River migrate on it, one
// after the other. The caller closes the pool.
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

// patiently repeats a migration while others have locked the objects that it needs. The parts that are applied
// already stay applied.
func patiently(ctx context.Context, migrate func() error) error {
	for left := tries; ; left-- {
		err := migrate()
		var refused *pgconn.PgError
		// lock_not_available, deadlock_detected
		if !errors.As(err, &refused) || refused.Code != "55P03" && refused.Code != "40P01" {
			return err
		}
		if left == 1 {
			return fmt.Errorf("%w: open transactions have kept the tables locked through %d tries; pg_stat_activity "+
				"shows whose, by xact_start", err, tries)
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(givesWay):
		}
	}
}
