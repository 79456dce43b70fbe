package dashboard

import (
	"net/http"
	"time"
)

// momentOf reads a field of type datetime-local, which is a local time in the person's zone. An empty field is the zero
// time.
func momentOf(field, given string, zone *time.Location) (time.Time, error) {
	if given == "" {
		return time.Time{}, nil
	}
	for _, layout := range []string{"2006-01-02T15:04", "2006-01-02T15:04:05", time.RFC3339} {
		if at, err := time.ParseInLocation(layout, given, zone); err == nil {
			return at, nil
		}
	}
	return time.Time{}, notValid(field + " must be a time such as 2026-01-31T12:00.")
}

// notValid tells which field breaks which rule.
func notValid(text string) problem {
	return problem{http.StatusUnprocessableEntity, "Not valid", errorView{Text: text}}
}
