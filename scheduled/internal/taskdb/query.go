package taskdb

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
)

// CollectRows reads rows into structs, by the names of their columns. If it fails, its error begins with doing.
func CollectRows[T any](ctx context.Context, q DB, doing, statement string, args ...any) ([]T, error) {
	return collectBy(ctx, q, pgx.RowToStructByName[T], doing, statement, args)
}

// CollectColumn reads rows of one column.
func CollectColumn[T any](ctx context.Context, q DB, doing, statement string, args ...any) ([]T, error) {
	return collectBy(ctx, q, pgx.RowTo[T], doing, statement, args)
}

func collectBy[T any](
	ctx context.Context, q DB, row pgx.RowToFunc[T], doing, statement string, args []any,
) ([]T, error) {
	rows, err := q.Query(ctx, statement, args...)
	if err != nil {
		return nil, Annotate(err, doing)
	}
	found, err := pgx.CollectRows(rows, row)
	return found, Annotate(err, doing)
}

// CollectNext reads the rows of a batch's next statement.
func CollectNext[T any](results pgx.BatchResults, doing string) ([]T, error) {
	rows, err := results.Query()
	if err != nil {
		return nil, Annotate(err, doing)
	}
	found, err := pgx.CollectRows(rows, pgx.RowToStructByName[T])
	return found, Annotate(err, doing)
}

// QueryOne reads a single value.
func QueryOne[T any](ctx context.Context, q DB, doing, statement string, args ...any) (value T, err error) {
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
