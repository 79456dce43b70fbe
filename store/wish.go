package store

import (
	"fmt"
	"slices"
	"time"

	"github.com/tasktable/tasktable/store/internal/check"
)

const maxWish = 87660 * time.Hour // 10 years

// wireWish checks what Schedule is to do to a task that exists, and when a new one is due.
func (t Task) wireWish(wire *wireTask) error {
	for _, one := range []struct {
		field, rule string
		value       Choice
		choices     []Choice
		to          **string
	}{
		{"if_running", "must be again, or empty", t.IfRunning, []Choice{Again}, &wire.IfRunning},
		{"if_finished", "must be rearm or keep, or empty", t.IfFinished, []Choice{Rearm, Keep}, &wire.IfFinished},
		{"if_exists", "must be keep or reject, or empty", t.IfExists, []Choice{Keep, Reject}, &wire.IfExists},
	} {
		if one.value != "" && !slices.Contains(one.choices, one.value) {
			return check.Invalid(one.field, one.rule, fmt.Sprintf("%q", one.value))
		}
		*one.to = check.OrNil(string(one.value))
	}
	if t.IfExists == Reject {
		wire.IfExists = new(string(Keep)) // Schedule makes the error of the receipt
	}
	for _, one := range []struct {
		field string
		value time.Duration
		to    **string
	}{
		{"delay", t.In, &wire.Delay}, {"debounce", t.Debounce, &wire.Debounce},
		{"unique_for", t.UniqueFor, &wire.UniqueFor},
	} {
		if one.value == 0 {
			continue
		}
		if one.value < time.Microsecond || one.value > maxWish {
			return check.Invalid(one.field, "must be between 1µs and 10 years (0: none)", one.value)
		}
		if t.Recurrence != nil {
			return check.Invalid(one.field, "must be empty for a task that recurs", one.value)
		}
		*one.to = new(check.IntervalText(one.value))
	}
	_, keyed := t.Payload.(Keyed)
	switch {
	case t.In != 0 && !t.At.IsZero():
		return check.Invalid("delay", "must not be given together with scheduled_at", t.In)
	case t.Debounce != 0 && t.Debounce < t.In, t.Debounce != 0 && t.In == 0:
		return check.Invalid("debounce", "must be at least delay, which must be given", t.Debounce)
	case t.UniqueFor != 0 && t.ID == "" && !keyed:
		return check.Invalid("unique_for", "needs an id, or a payload that is Keyed", t.UniqueFor)
	}
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
