package handlers

import (
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strings"

	"github.com/tasktable/tasktable/store"
)

// decode ignores unknown fields, because another version of the program may have written them and may run beside this
// one. A payload that does not decode, or that does not validate, is a permanent error, because the next attempt would
// read the same payload.
func decode[P store.Payload](e *Execution) (*Task[P], error) {
	t := &Task[P]{Execution: e}
	if err := json.Unmarshal(e.Payload, &t.Payload); err != nil {
		return nil, Permanent(fmt.Errorf("payload does not decode: %w", decodeError{err}))
	}
	for _, payload := range []any{t.Payload, &t.Payload} { // Validate may have a pointer receiver
		if own, ok := payload.(store.Validator); ok {
			if err := own.Validate(); err != nil {
				return nil, Permanent(fmt.Errorf("payload does not validate: %w", err))
			}
			break
		}
	}
	return t, nil
}

// decodeError names the field and the rule, but not the value, because its text goes to logs and to the history.
// Those who may read the value find it in the task's payload. Unwrap returns the whole error, for middleware.
type decodeError struct{ error }

func (e decodeError) Unwrap() error { return e.error }

// inQuotes matches a quoted text. The errors of time, strconv and encoding/json quote the values that they reject.
var inQuotes = regexp.MustCompile(`"(?:[^"\\]|\\.)*"?`)

func (e decodeError) Error() string {
	text := e.error.Error()
	var wrong *json.UnmarshalTypeError
	if errors.As(e.error, &wrong) {
		bare := *wrong
		bare.Value, _, _ = strings.Cut(wrong.Value, " ") // drops the value: "number 7.5" becomes "number"
		text = bare.Error()
	}
	return inQuotes.ReplaceAllString(text, "…")
}
