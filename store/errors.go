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
	// ErrNotFound is wrapped by the error of Get or Calendar if there is no such task or calendar. Verbs
	// return the outcome Absent instead.
	ErrNotFound = errors.New("no such task")
	// ErrKindDiffers is wrapped by the error of Schedule and its like if the task recurs and is not to recur any more,
	// or the other way, and Task.Replace is false. The call has changed nothing.
	ErrKindDiffers = query.ErrKindDiffers
	// ErrCalendarUsed is wrapped by the error of RemoveCalendar if rules of tasks name the calendar.
	ErrCalendarUsed = query.ErrCalendarUsed
	// ErrDuplicate is wrapped by the error of Schedule if the task exists and its IfExists is Reject. The receipt names
	// the existing task. The call has changed nothing.
	ErrDuplicate = errors.New("the task exists already")
	// ErrUnmigrated is wrapped by the error of a call if the schema does not exist, or lacks a function or a table.
	ErrUnmigrated = query.ErrUnmigrated
	// ErrReadOnly is wrapped by the error of a call that writes if the server takes no writes, as a standby does, or if
	// the caller's transaction is READ ONLY.
	ErrReadOnly = query.ErrReadOnly
)
