// Package pg has what the engine needs of Postgres besides pgx: rows into structs, kinds of errors, advisory locks,
// and a search for the one row that Postgres refuses.
package pg

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/tasktable/tasktable/store"
)

// DB runs the engine's statements. It is the session, a transaction of the pool, or a test's own transaction.
type DB interface {
	Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error)
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
}

// CollectRows reads rows into structs, by the names of their columns. If it fails, its error begins with doing.
func CollectRows[T any](ctx context.Context, q store.DB, doing, statement string, args ...any) ([]T, error) {
	rows, err := q.Query(ctx, statement, args...)
	return collect(rows, err, pgx.RowToStructByName[T], doing)
}

// CollectColumn reads rows of one column.
func CollectColumn[T any](ctx context.Context, q store.DB, doing, statement string, args ...any) ([]T, error) {
	rows, err := q.Query(ctx, statement, args...)
	return collect(rows, err, pgx.RowTo[T], doing)
}

// CollectNext reads the rows of a batch's next statement.
func CollectNext[T any](results pgx.BatchResults, doing string) ([]T, error) {
	rows, err := results.Query()
	return collect(rows, err, pgx.RowToStructByName[T], doing)
}

func collect[T any](rows pgx.Rows, err error, row pgx.RowToFunc[T], doing string) (found []T, _ error) {
	if err == nil {
		found, err = pgx.CollectRows(rows, row)
	}
	return found, Annotate(err, doing)
}

// QueryOne reads a single value.
func QueryOne[T any](ctx context.Context, q store.DB, doing, statement string, args ...any) (value T, err error) {
	rows, err := q.Query(ctx, statement, args...)
	if err != nil {
		return value, Annotate(err, doing)
	}
	value, err = pgx.CollectExactlyOneRow(rows, pgx.RowTo[T])
	return value, Annotate(err, doing)
}

// Annotate puts doing before an error; nil stays nil.
func Annotate(err error, doing string) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w", doing, err)
}

// SQLQuerier makes a querier of a store.DB, so that the engine's statements can run in a database/sql transaction.
type SQLQuerier struct{ store.DB }

// Exec runs a statement that returns no rows.
func (q SQLQuerier) Exec(ctx context.Context, statement string, args ...any) (pgconn.CommandTag, error) {
	rows, err := q.Query(ctx, statement, args...)
	if err != nil {
		return pgconn.CommandTag{}, err
	}
	rows.Close()
	return pgconn.CommandTag{}, rows.Err()
}

// OrEmpty returns an empty list for nil, which the database and JSON take for null.
func OrEmpty[T any](list []T) []T {
	if list == nil {
		return []T{}
	}
	return list
}
