package dashboard

import (
	"fmt"
	"net/http"
	"strings"
	"time"
)

// notValid is the problem of a form, or of an address, whose field breaks a rule.
func notValid(text string) problem {
	text = strings.ToUpper(text[:1]) + text[1:] + "."
	return problem{http.StatusUnprocessableEntity, "Not valid", errorView{Text: text}}
}

// valueOr is the value of a pointer, or the zero value.
func valueOr[T any](pointer *T) (value T) {
	if pointer != nil {
		value = *pointer
	}
	return value
}

// momentOf reads an input of type datetime-local, in the zone of the field zone. The person may have chosen another zone
// since the page was read. An empty input is the zero time.
func (v *visit) momentOf(name string) (time.Time, error) {
	text, zone := v.form(name), v.look.zone
	if text == "" {
		return time.Time{}, nil
	}
	if given := v.form("zone"); given != "" {
		var err error
		if zone, err = zoneOf(given); err != nil {
			return time.Time{}, notValid("zone must be an IANA time zone, such as Europe/Berlin")
		}
	}
	for _, layout := range []string{"2006-01-02T15:04", "2006-01-02T15:04:05"} {
		at, err := time.ParseInLocation(layout, text, zone)
		if err != nil {
			continue
		}
		if at.Format(layout) != text {
			return at, notValid(fmt.Sprintf("%s must be a time that clocks in %s show: they are set forward over it", name,
				zone))
		}
		return at, nil
	}
	return time.Time{}, notValid(name + " must be a time, such as 2027-05-01T16:00")
}
