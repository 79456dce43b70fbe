package dashboard

import (
	"fmt"
	"strings"
	"time"

	"github.com/tasktable/tasktable/store/when"
)

// momentOf reads the time of a form. The field name has it as a browser's input writes it, in the zone of the field
// zone. The field name-in has it relative to now, and wins. The zero time means that the form has neither.
func (v *visit) momentOf(name string) (time.Time, error) {
	text := v.form(name + "-in")
	if text == "" {
		text = v.form(name)
	}
	if strings.TrimSpace(text) == "" {
		return time.Time{}, nil
	}
	zone, err := v.formZone()
	if err != nil {
		return time.Time{}, err
	}
	return typedField(name, text, v.now, zone)
}

// formZone is the zone of the times in a form. The person may have changed the zone since the page was read.
func (v *visit) formZone() (*time.Location, error) {
	given := v.form("zone")
	if given == "" {
		return v.look.zone, nil
	}
	zone, err := zoneOf(given)
	if err != nil {
		return nil, notValid("Zone must be an IANA time zone, such as Europe/Berlin.")
	}
	return zone, nil
}

// untilOf reads until when something is paused. The zero time means: until somebody resumes it.
func (v *visit) untilOf() (time.Time, error) {
	until, err := v.momentOf("until")
	if err == nil && !until.IsZero() && !until.After(v.now) {
		err = notValid("until must be a time to come.")
	}
	return until, err
}

// typedField is when.Time for a field of a form, or for a parameter of an address. Its error names the field.
func typedField(name, text string, now time.Time, zone *time.Location) (time.Time, error) {
	at, err := when.Time(text, now, zone)
	if err != nil {
		return time.Time{}, notValid(fmt.Sprintf("%s %v, got %.100q.", upper(name), err, text))
	}
	return at, nil
}
