package store

import (
	"errors"
	"fmt"
	"strings"
)

var (
	// ErrInvalid is wrapped by every error about a bad argument. The text names the field and the rule; nothing was changed.
	ErrInvalid = errors.New("invalid")
	// ErrNotFound is returned by Get when there is no such task. Verbs return the outcome Absent instead.
	ErrNotFound = errors.New("no such task")
	// ErrUnmigrated is wrapped where the schema, or a function or table in it, does not exist.
	ErrUnmigrated = errors.New("the schema is not migrated, or older than this program (run tasktable migrate, or call migrations.Up)")
)

func invalid(field, rule string, got any) error {
	return fmt.Errorf("%w: %s %s, got %v", ErrInvalid, field, rule, got)
}

// described says what was being done, and marks what the database refused as bad input, in case it knew better than the
// checks made here first.
func described(err error, doing string) error {
	if err == nil {
		return nil
	}
	var refused interface{ SQLState() string } // pgx's and lib/pq's
	switch {
	case !errors.As(err, &refused):
	case isBadInput(refused.SQLState()):
		return fmt.Errorf("%s: %w: %w", doing, ErrInvalid, err)
	case isMissing(refused.SQLState()):
		return fmt.Errorf("%s: %w: %w", doing, ErrUnmigrated, err)
	}
	return fmt.Errorf("%s: %w", doing, err)
}

// isMissing: a schema, a table or a function does not exist.
func isMissing(state string) bool { return state == "3F000" || state == "42P01" || state == "42883" }

// isBadInput: a CHECK, a NOT NULL, or data of the wrong form.
func isBadInput(state string) bool {
	return state == "23514" || state == "23502" || strings.HasPrefix(state, "22")
}
