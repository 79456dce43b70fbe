// Package throwaway has what a bench or a proof makes for itself and throws away again: a database, and
// processes that are nodes.
package throwaway

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

// Database is one's own, on a server that others use too.
type Database struct {
	Name string
	Pool *pgxpool.Pool
	// Of pools made from now on, and so of the nodes' own; nil: none, and the pool's own rule.
	Tracer pgx.QueryTracer
	Ping   func(context.Context, pgxpool.ShouldPingParams) bool

	server *pgx.ConnConfig
}

// Create makes a database and migrates it. Its name is the prefix and some letters.
func Create(ctx context.Context, server *pgx.ConnConfig, prefix string) (d *Database, err error) {
	d = &Database{server: server, Name: prefix + rand.Text()[:8]}
	if err := d.command(ctx, "CREATE DATABASE "+pgx.Identifier{d.Name}.Sanitize()); err != nil {
		return nil, fmt.Errorf("create database %s: %w", d.Name, err)
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, d.Drop())
		}
	}()
	if d.Pool, err = d.NewPool(ctx, 16); err != nil {
		return nil, err
	}
	return d, migrations.Up(ctx, d.Pool, "")
}

// NewPool makes a pool of so many connections.
func (d *Database) NewPool(ctx context.Context, most int32) (*pgxpool.Pool, error) {
	config, err := pgxpool.ParseConfig("")
	if err != nil {
		return nil, fmt.Errorf("make a pool: %w", err)
	}
	config.ConnConfig = d.server.Copy()
	config.ConnConfig.Database = d.Name
	config.ConnConfig.Tracer = d.Tracer
	config.ShouldPing = d.Ping
	config.MaxConns = most
	pool, err := pgxpool.NewWithConfig(ctx, config)
	if err != nil {
		return nil, fmt.Errorf("make a pool: %w", err)
	}
	return pool, nil
}

func (d *Database) command(ctx context.Context, sql string) error {
	conn, err := pgx.ConnectConfig(ctx, d.server)
	if err != nil {
		return err
	}
	// Not ctx: an interrupted bench still closes and drops.
	defer func() { _ = conn.Close(context.WithoutCancel(ctx)) }()
	_, err = conn.Exec(ctx, sql)
	return err
}

// Drop removes the database, also after an interrupt: it takes no context for that.
func (d *Database) Drop() error {
	if d.Pool != nil {
		d.Pool.Close()
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if err := d.command(ctx, "DROP DATABASE IF EXISTS "+pgx.Identifier{d.Name}.Sanitize()+" WITH (FORCE)"); err != nil {
		return fmt.Errorf("drop database %s: %w", d.Name, err)
	}
	return nil
}

// Scan reads one row.
func (d *Database) Scan(ctx context.Context, sql string, args []any, into ...any) error {
	return d.Pool.QueryRow(ctx, sql, args...).Scan(into...)
}

// Until waits for a query to say true.
func (d *Database) Until(ctx context.Context, within time.Duration, what, sql string, args ...any) error {
	ctx, cancel := context.WithTimeoutCause(ctx, within, fmt.Errorf("not within %s: %s", within, what))
	defer cancel()
	ticker := time.NewTicker(5 * time.Millisecond)
	defer ticker.Stop()
	for {
		var holds bool
		if err := d.Scan(ctx, sql, args, &holds); err != nil {
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
