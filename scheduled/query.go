package scheduled

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
)

// collect reads rows into structs, by the names of their columns. If it fails, its error begins with doing.
func collect[T any](ctx context.Context, q querier, doing, statement string, args ...any) ([]T, error) {
	return collectBy(ctx, q, pgx.RowToStructByName[T], doing, statement, args)
}

// column reads rows of one column.
func column[T any](ctx context.Context, q querier, doing, statement string, args ...any) ([]T, error) {
	return collectBy(ctx, q, pgx.RowTo[T], doing, statement, args)
}

func collectBy[T any](
	ctx context.Context, q querier, row pgx.RowToFunc[T], doing, statement string, args []any,
) ([]T, error) {
	rows, err := q.Query(ctx, statement, args...)
	if err != nil {
		return nil, wrap(err, doing)
	}
	found, err := pgx.CollectRows(rows, row)
	return found, wrap(err, doing)
}

// collectNext reads the rows of a batch's next statement.
func collectNext[T any](results pgx.BatchResults, doing string) ([]T, error) {
	rows, err := results.Query()
	if err != nil {
		return nil, wrap(err, doing)
	}
	found, err := pgx.CollectRows(rows, pgx.RowToStructByName[T])
	return found, wrap(err, doing)
}

// one reads a single value.
func one[T any](ctx context.Context, q querier, doing, statement string, args ...any) (value T, err error) {
	rows, err := q.Query(ctx, statement, args...)
	if err != nil {
		return value, wrap(err, doing)
	}
	value, err = pgx.CollectExactlyOneRow(rows, pgx.RowTo[T])
	return value, wrap(err, doing)
}

// wrap puts doing before an error; nil stays nil.
func wrap(err error, doing string) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w", doing, err)
}
