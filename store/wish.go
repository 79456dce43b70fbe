package store

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/tasktable/tasktable/store/internal/check"
)

const maxWish = 87660 * time.Hour // 10 years

// wireWish checks what Schedule is to do to a task that exists, and when a new one is due.
func (t Task) wireWish(wire *wireTask) error {
	if err := cmp.Or(
		choose(&wire.IfRunning, "if_running", "must be again, or empty", t.IfRunning, Again),
		choose(&wire.IfFinished, "if_finished", "must be rearm or keep, or empty", t.IfFinished, Rearm, Keep),
		choose(&wire.IfExists, "if_exists", "must be keep or reject, or empty", t.IfExists, Keep, Reject),
	); err != nil {
		return err
	}
	if t.IfExists == Reject {
		wire.IfExists = new(string(Keep)) // Schedule makes the error of the receipt
	}
	const recurs = "must be empty for a task that recurs"
	_, keyed := t.Payload.(Keyed)
	switch {
	case t.Recurrence != nil && t.In != 0:
		return check.Invalid("delay", recurs, t.In)
	case t.Recurrence != nil && t.Debounce != 0:
		return check.Invalid("debounce", recurs, t.Debounce)
	case t.Recurrence != nil && t.UniqueFor != 0:
		return check.Invalid("unique_for", recurs, t.UniqueFor)
	case t.In != 0 && !t.At.IsZero():
		return check.Invalid("delay", "must not be given together with scheduled_at", t.In)
	case t.Debounce != 0 && t.Debounce < t.In, t.Debounce != 0 && t.In == 0:
		return check.Invalid("debounce", "must be at least delay, which must be given", t.Debounce)
	case t.UniqueFor != 0 && t.ID == "" && !keyed:
		return check.Invalid("unique_for", "needs an id, or a payload that is Keyed", t.UniqueFor)
	}
	return nil
}

// choose writes a value that is one of the choices, or empty, to a field of the wire.
func choose[T ~string](to **string, field, rule string, value T, choices ...T) error {
	if value != "" && !slices.Contains(choices, value) {
		return check.Invalid(field, rule, fmt.Sprintf("%q", value))
	}
	*to = check.OrNil(string(value))
	return nil
}

// refuseWish refuses fields that a task of IfDead cannot have.
func (t Task) refuseWish() error {
	for _, one := range []struct {
		field string
		given bool
	}{
		{"if_running", t.IfRunning != ""}, {"if_exists", t.IfExists != ""}, {"delay", t.In != 0},
		{"debounce", t.Debounce != 0}, {"unique_for", t.UniqueFor != 0},
		{"days", t.Days != nil},
	} {
		if one.given {
			return check.Invalid(one.field, "must be empty in a task of if_dead", "a value")
		}
	}
	return nil
}
