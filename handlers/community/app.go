package community

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/tasktable/tasktable/store"
)

// ErrNotFound is wrapped by errors about an event, post, community or member that does not exist.
var ErrNotFound = errors.New("not found in the community")

// App is the application. It changes the community's tables and, in the same transaction, the tasks that depend on
// them. It holds no connection. It is safe for concurrent use. Its methods work in the caller's transaction: all of
// their changes happen if it commits, and none of them otherwise. An error that wraps store.ErrInvalid or ErrNotFound
// means that the arguments are wrong. After any error the caller must roll the transaction back.
type App struct {
	tasks *store.Store
}

// New makes an App that schedules its tasks with the given store.
func New(tasks *store.Store) *App { return &App{tasks: tasks} }

func invalid(field, rule string, got any) error {
	return fmt.Errorf("%w: %s %s, got %v", store.ErrInvalid, field, rule, got)
}

const maxLine = 200

// checkLine checks a text that becomes part of a task's id or of the subject of a mail.
func checkLine(field, value string) error {
	length := utf8.RuneCountInString(value)
	if length < 1 || length > maxLine || !utf8.ValidString(value) || strings.ContainsFunc(value, unicode.IsControl) {
		return invalid(field, "must be 1 to 200 characters without control characters", fmt.Sprintf("%q", value))
	}
	return nil
}

func checkText(field, value string) error {
	if value == "" || !utf8.ValidString(value) || strings.ContainsRune(value, 0) {
		return invalid(field, "must be UTF-8 text without NUL, and not empty", fmt.Sprintf("%d bytes", len(value)))
	}
	return nil
}

// one runs a statement that returns one row. The error wraps ErrNotFound if there is no row, or if a foreign key has no
// row at its other end.
func one[T any](ctx context.Context, db store.DB, statement string, args ...any) (row T, err error) {
	rows, err := db.Query(ctx, statement, args...)
	if err == nil {
		row, err = pgx.CollectExactlyOneRow(rows, pgx.RowToStructByName[T])
	}
	var refused *pgconn.PgError
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return row, ErrNotFound
	case errors.As(err, &refused) && refused.Code == "23503":
		return row, fmt.Errorf("%w: %w", ErrNotFound, err)
	}
	return row, err
}

// deleteOne runs a statement that deletes the row with an id, and cancels the tasks of the row.
func (a *App) deleteOne(ctx context.Context, tx pgx.Tx, statement, id, entity string) error {
	deleted, err := tx.Exec(ctx, statement, pgx.NamedArgs{"id": id})
	if err == nil && deleted.RowsAffected() == 0 {
		err = ErrNotFound
	}
	if err == nil {
		_, err = a.tasks.Sync(ctx, tx, entity)
	}
	return err
}

// micros truncates a time to microseconds, as Postgres keeps them, so that it equals itself when it is read back. The
// zero time stays zero.
func micros(at time.Time) time.Time { return at.Truncate(time.Microsecond) }

// orNull binds the zero time as NULL.
func orNull(at time.Time) *time.Time {
	if at.IsZero() {
		return nil
	}
	return &at
}
