package bench

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tasktable/tasktable/migrations"
)

// database is a bench's own.
type database struct {
	server *pgx.ConnConfig
	name   string
	pool   *pgxpool.Pool
	// Of pools made from now on, and so of the nodes' own; nil: none, and the pool's own rule.
	tracer pgx.QueryTracer
	ping   func(context.Context, pgxpool.ShouldPingParams) bool
}

// create makes a database and migrates it.
func create(ctx context.Context, server *pgx.ConnConfig) (d *database, err error) {
	d = &database{server: server, name: "tasktable_bench_" + rand.Text()[:8]}
	if err := d.command(ctx, "CREATE DATABASE "+pgx.Identifier{d.name}.Sanitize()); err != nil {
		return nil, fmt.Errorf("create database %s: %w", d.name, err)
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, d.drop())
		}
	}()
	if d.pool, err = d.newPool(ctx, 16); err != nil {
		return nil, err
	}
	return d, migrations.Up(ctx, d.pool, "")
}

// newPool makes a pool of so many connections.
func (d *database) newPool(ctx context.Context, most int32) (*pgxpool.Pool, error) {
	config, err := pgxpool.ParseConfig("")
	if err != nil {
		return nil, fmt.Errorf("make a pool: %w", err)
	}
	config.ConnConfig = d.server.Copy()
	config.ConnConfig.Database = d.name
	config.ConnConfig.Tracer = d.tracer
	config.ShouldPing = d.ping
	config.MaxConns = most
	pool, err := pgxpool.NewWithConfig(ctx, config)
	if err != nil {
		return nil, fmt.Errorf("make a pool: %w", err)
	}
	return pool, nil
}

func (d *database) command(ctx context.Context, sql string) error {
	conn, err := pgx.ConnectConfig(ctx, d.server)
	if err != nil {
		return err
	}
	// Not ctx: an interrupted bench still closes and drops.
	defer func() { _ = conn.Close(context.WithoutCancel(ctx)) }()
	_, err = conn.Exec(ctx, sql)
	return err
}

// drop removes the database, also after an interrupt: it takes no context for that.
func (d *database) drop() error {
	if d.pool != nil {
		d.pool.Close()
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if err := d.command(ctx, "DROP DATABASE IF EXISTS "+pgx.Identifier{d.name}.Sanitize()+" WITH (FORCE)"); err != nil {
		return fmt.Errorf("drop database %s: %w", d.name, err)
	}
	return nil
}

// within runs a bench in a database of its own.
func within(ctx context.Context, config Config, do func(d *database) error) (err error) {
	d, err := create(ctx, config.Server)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, d.drop()) }()
	return do(d)
}

// scan reads one row.
func (d *database) scan(ctx context.Context, sql string, args []any, into ...any) error {
	return d.pool.QueryRow(ctx, sql, args...).Scan(into...)
}

// until waits for a query to say true.
func (d *database) until(ctx context.Context, within time.Duration, what, sql string, args ...any) error {
	ctx, cancel := context.WithTimeoutCause(ctx, within, failed("not within %s: %s", within, what))
	defer cancel()
	ticker := time.NewTicker(5 * time.Millisecond)
	defer ticker.Stop()
	for {
		var holds bool
		if err := d.scan(ctx, sql, args, &holds); err != nil {
			return errors.Join(err, context.Cause(ctx))
		}
		if holds {
			return nil
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-ticker.C:
		}
	}
}
