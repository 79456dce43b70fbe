package store

import (
	"errors"

	"github.com/tasktable/tasktable/store/internal/check"
	"github.com/tasktable/tasktable/store/internal/query"
)

var (
	// ErrInvalid is wrapped by every error about a bad argument. The text names the field and the rule; nothing was
	// changed.
	ErrInvalid = check.ErrInvalid
	// ErrNotFound is returned by Get when there is no such task. Verbs return the outcome Absent instead.
	ErrNotFound = errors.New("no such task")
	// ErrUnmigrated is wrapped where the schema, or a function or table in it, does not exist.
	ErrUnmigrated = query.ErrUnmigrated
)
