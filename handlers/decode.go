package handlers

import (
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strings"

	"github.com/tasktable/tasktable/store"
)

// decode is lenient: unknown fields are of another version of the program, which may run beside this one. What does not
// decode will not at the next attempt either.
func decode[P store.Payload](e *Execution) (*Task[P], error) {
	t := &Task[P]{Execution: e}
	if err := json.Unmarshal(e.Payload, &t.Payload); err != nil {
		return nil, Permanent(fmt.Errorf("payload does not decode: %w", decodeError{err}))
	}
	return t, nil
}

// decodeError names the field and the rule, and not the value: the text goes to logs and to the history, and the value is in the
// task's payload for whoever may read that. Unwrap has the whole error, for middleware.
type decodeError struct{ error }

func (e decodeError) Unwrap() error { return e.error }

// inQuotes is where errors have values: time's, strconv's and encoding/json's own.
var inQuotes = regexp.MustCompile(`"(?:[^"\\]|\\.)*"?`)

func (e decodeError) Error() string {
	text := e.error.Error()
	var wrong *json.UnmarshalTypeError
	if errors.As(e.error, &wrong) {
		bare := *wrong
		bare.Value, _, _ = strings.Cut(wrong.Value, " ") // "number 7.5", where a whole one is wanted
		text = bare.Error()
	}
	return inQuotes.ReplaceAllString(text, "…")
}
