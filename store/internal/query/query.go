// Package query runs the statements of package store and package inspect. Its errors tell which call failed, and wrap
// the errors that a caller can handle.
package query

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/tasktable/tasktable/store/internal/check"
)

// DB is store.DB.
type DB interface {
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
}

// Source is the schema in which statements run.
type Source struct {
	// Schema rewrites a statement for the schema. It is a store.Schema.
	Schema interface{ SQL(statement string) string }
	// Err is the error in the configuration, or nil. If it is not nil, each call returns it and runs nothing.
	Err error
}

// Rows runs a statement. doing names the call in errors.
func (s Source) Rows(ctx context.Context, db DB, doing, statement string, args ...any) (pgx.Rows, error) {
	if s.Err != nil {
		return nil, fmt.Errorf("%s: %w", doing, s.Err)
	}
	if err := check.DB(db); err != nil {
		return nil, fmt.Errorf("%s: %w", doing, err)
	}
	rows, err := db.Query(ctx, s.Schema.SQL(statement), args...)
	return rows, Annotate(err, doing)
}

// read runs a statement and collects its rows.
func read[R any](ctx context.Context, source Source, db DB, doing, statement string, args []any,
	collect func(pgx.Rows) (R, error)) (result R, err error) {
	rows, err := source.Rows(ctx, db, doing, statement, args...)
	if err != nil {
		return result, err
	}
	result, err = collect(rows)
	return result, Annotate(err, doing)
}

// Collect reads rows into structs by the names of their columns.
func Collect[T any](ctx context.Context, source Source, db DB, doing, statement string, args ...any) ([]T, error) {
	return read(ctx, source, db, doing, statement, args, func(rows pgx.Rows) ([]T, error) {
		return pgx.CollectRows(rows, pgx.RowToStructByName[T])
	})
}

// One reads the one row of a statement into a struct.
func One[T any](ctx context.Context, source Source, db DB, doing, statement string, args ...any) (T, error) {
	return read(ctx, source, db, doing, statement, args, func(rows pgx.Rows) (T, error) {
		return pgx.CollectExactlyOneRow(rows, pgx.RowToStructByName[T])
	})
}

// Values reads rows of one column.
func Values[T any](ctx context.Context, source Source, db DB, doing, statement string, args ...any) ([]T, error) {
	return read(ctx, source, db, doing, statement, args, func(rows pgx.Rows) ([]T, error) {
		return pgx.CollectRows(rows, pgx.RowTo[T])
	})
}

// Value reads the one row of a statement, which has one column.
func Value[T any](ctx context.Context, source Source, db DB, doing, statement string, args ...any) (T, error) {
	return read(ctx, source, db, doing, statement, args, func(rows pgx.Rows) (T, error) {
		return pgx.CollectExactlyOneRow(rows, pgx.RowTo[T])
	})
}

// ErrUnmigrated is store.ErrUnmigrated.
var ErrUnmigrated = errors.New(
	"the schema is not migrated, or older than this program (run tasktable migrate, or call migrations.Up)")

// ErrKindDiffers is store.ErrKindDiffers.
var ErrKindDiffers = errors.New("without Replace a recurring task stays one, and no other becomes one")

// ErrCalendarUsed is store.ErrCalendarUsed.
var ErrCalendarUsed = errors.New("the calendar is used")

// ErrReadOnly is store.ErrReadOnly.
var ErrReadOnly = errors.New("this Postgres is a standby or read-only; if the URL names several hosts, " +
	"target_session_attrs=read-write in it finds the primary")

// Annotate adds to an error which call failed. The error wraps check.ErrInvalid for bad input that only Postgres has
// found, ErrUnmigrated for a schema that is not migrated, ErrReadOnly for a server that takes no writes, and
// ErrKindDiffers and ErrCalendarUsed for their own codes.
func Annotate(err error, doing string) error {
	if err == nil {
		return nil
	}
	var refused interface{ SQLState() string } // the errors of pgx and of lib/pq have it
	switch {
	case !errors.As(err, &refused):
	case isBadInput(refused.SQLState()):
		return fmt.Errorf("%s: %w: %w", doing, check.ErrInvalid, err)
	case refused.SQLState() == "23T01": // the function schedule raises it
		return fmt.Errorf("%s: %w: %w", doing, ErrKindDiffers, err)
	case refused.SQLState() == "23T02": // a trigger of the calendars raises it
		return fmt.Errorf("%s: %w: %w", doing, ErrCalendarUsed, err)
	case isMissing(refused.SQLState()):
		return fmt.Errorf("%s: %w: %w", doing, ErrUnmigrated, err)
	case refused.SQLState() == "25006":
		return fmt.Errorf("%s: %w: %w", doing, ErrReadOnly, err)
	}
	return fmt.Errorf("%s: %w", doing, err)
}

// isMissing reports whether a schema, a table or a function does not exist.
func isMissing(state string) bool { return state == "3F000" || state == "42P01" || state == "42883" }

// isBadInput reports whether a value violates a CHECK or a NOT NULL, or has the wrong form.
func isBadInput(state string) bool {
	return state == "23514" || state == "23502" || strings.HasPrefix(state, "22")
}

// OrEmpty returns the text of a column that may be null, and "" for nil.
func OrEmpty(text *string) string {
	if text == nil {
		return ""
	}
	return *text
}
