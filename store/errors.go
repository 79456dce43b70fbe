package store

import (
	"errors"

	"github.com/tasktable/tasktable/store/internal/check"
	"github.com/tasktable/tasktable/store/internal/query"
)

var (
	// ErrInvalid is wrapped by every error about a bad argument. The error's text names the field and the rule. The
	// call has changed nothing.
	ErrInvalid = check.ErrInvalid
	// ErrNotFound is wrapped by Get's error if the task does not exist. Verbs return the outcome Absent instead.
	ErrNotFound = errors.New("no such task")
	// ErrUnmigrated is wrapped by the error of a call if the schema does not exist, or lacks a function or a table.
	ErrUnmigrated = query.ErrUnmigrated
)
