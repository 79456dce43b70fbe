package community

import (
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/tasktable/tasktable/store"
)

// ErrNotFound is wrapped by the errors about an event, post, community or member that does not exist.
var ErrNotFound = errors.New("not found in the community")

// App is the application: it changes the community's tables and, in the same transaction, the tasks that hang on
// them. It holds no connection, and may be used by many goroutines. Its methods take the caller's transaction: what
// they do happens if that commits, all of it, and otherwise none of it. An error wrapping store.ErrInvalid or
// ErrNotFound says that the arguments are wrong; after any error the transaction is to be rolled back.
type App struct {
	tasks *store.Store
}

// New makes an App that schedules by the given store.
func New(tasks *store.Store) *App { return &App{tasks: tasks} }

func invalid(field, rule string, got any) error {
	return fmt.Errorf("%w: %s %s, got %v", store.ErrInvalid, field, rule, got)
}

const maxLine = 200

// checkLine is for what ends up in a task's id or in the subject of a mail.
func checkLine(field, value string) error {
	if length := utf8.RuneCountInString(value); length < 1 || length > maxLine || !utf8.ValidString(value) || strings.ContainsFunc(value, unicode.IsControl) {
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

// described says what was being done, and calls a missing other end of a foreign key what it is.
func described(err error, doing string) error {
	var refused *pgconn.PgError
	if errors.As(err, &refused) && refused.Code == "23503" {
		return fmt.Errorf("%s: %w: %w", doing, ErrNotFound, err)
	}
	return fmt.Errorf("%s: %w", doing, err)
}

// micros rounds to what Postgres keeps: a time must equal itself when it is read back. The zero time stays zero.
func micros(at time.Time) time.Time { return at.Truncate(time.Microsecond) }

// orNull binds the zero time as NULL.
func orNull(at time.Time) *time.Time {
	if at.IsZero() {
		return nil
	}
	return &at
}
