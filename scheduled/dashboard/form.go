package dashboard

import (
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/tasktable/tasktable/store"
)

// choiceView is a box that somebody can check.
type choiceView struct {
	Name    string
	Text    string
	Checked bool
}

// formErrors are the errors of a form by its fields. "" has those about no field.
type formErrors map[string]string

// add puts an error that wraps store.ErrInvalid beside the field that its text names first. renamed has the names of
// fields that have another name in the form.
func (e formErrors) add(err error, renamed map[string]string) {
	_, text, found := strings.Cut(err.Error(), store.ErrInvalid.Error()+": ")
	if !found {
		text = err.Error()
	}
	field, _, _ := strings.Cut(text, " ")
	if name, ok := renamed[field]; ok {
		field = name
	}
	if e[field] == "" {
		e[field] = text
	}
}

// Others are the errors about no field of the form, of which known are the names.
func (e formErrors) Others(known ...string) (texts []string) {
	for field, text := range e {
		if !slices.Contains(known, field) {
			texts = append(texts, text)
		}
	}
	slices.Sort(texts)
	return texts
}

var durationParts = regexp.MustCompile(`^(?:(\d{1,4})w)?(?:(\d{1,5})d)?(?:(\d{1,6})h)?(?:(\d{1,8})m)?(?:(\d{1,10})s)?$`)

const day = 24 * time.Hour

// readDuration reads a duration in weeks, days, hours, minutes and seconds, such as 90d or 1d12h.
func readDuration(text string) (d time.Duration, ok bool) {
	parts := durationParts.FindStringSubmatch(text)
	if parts == nil || text == "" {
		return 0, false
	}
	for i, unit := range []time.Duration{7 * day, day, time.Hour, time.Minute, time.Second} {
		number, _ := strconv.Atoi(parts[i+1]) // "" is 0
		d += time.Duration(number) * unit
	}
	return d, true
}

// durationText is the text that readDuration reads, without weeks.
func durationText(d time.Duration) string {
	var text strings.Builder
	for _, unit := range []struct {
		length time.Duration
		name   string
	}{{day, "d"}, {time.Hour, "h"}, {time.Minute, "m"}, {time.Second, "s"}} {
		if n := d / unit.length; n > 0 {
			text.WriteString(strconv.FormatInt(int64(n), 10) + unit.name)
			d -= n * unit.length
		}
	}
	return text.String()
}

// readLines reads one value a line. Empty lines do not count.
func readLines(text string) (values []string) {
	for line := range strings.Lines(text) {
		if line = strings.TrimSpace(line); line != "" {
			values = append(values, line)
		}
	}
	return values
}
