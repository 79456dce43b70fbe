package inspect

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/tasktable/tasktable/store"
	"github.com/tasktable/tasktable/store/internal/query"
)

// Trouble tells why a recurring task is HealthFailing or HealthOverdue.
type Trouble struct {
	Health         Health     `json:"health"`
	FailuresInARow int        `json:"failures_in_a_row"`
	LastFailure    *time.Time `json:"last_failure,omitempty"`
	LastError      string     `json:"last_error,omitempty"`
	LastSuccess    *time.Time `json:"last_success,omitempty"`
}

// trouble adds to the reason of a recurring task that its occurrences fail.
func (i *Inspector) trouble(ctx context.Context, db store.DB, e *Explanation) error {
	t, err := i.GetRecurring(ctx, db, e.ID)
	if errors.Is(err, store.ErrNotFound) || errors.Is(err, store.ErrNotRecurring) {
		return nil // somebody has changed it since its row was read
	}
	if err == nil && (t.Health == HealthFailing || t.Health == HealthOverdue) {
		e.Reason.Trouble = &Trouble{Health: t.Health, FailuresInARow: t.FailuresInARow, LastFailure: t.LastFailure,
			LastError: query.OrEmpty(t.LastError), LastSuccess: t.LastSuccess}
	}
	return err
}

func (t Trouble) sentence(at func(time.Time) string) (text string) {
	switch {
	case t.FailuresInARow == 1:
		text = "its last occurrence failed"
	case t.FailuresInARow > 1:
		text = fmt.Sprintf("%d occurrences in a row failed, the last one", t.FailuresInARow)
	}
	if t.FailuresInARow > 0 {
		text += " at " + at(*t.LastFailure)
		if t.LastError != "" {
			text += ": " + brief(t.LastError, detailMost)
		}
		text += "; "
	}
	if t.Health == HealthOverdue {
		text += "it is overdue, and "
	}
	if t.LastSuccess == nil {
		return text + "it is not known ever to have succeeded"
	}
	return text + "it last succeeded at " + at(*t.LastSuccess)
}
