package dashboard

import (
	"slices"
	"strings"

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

// readLines reads one value a line. Empty lines do not count.
func readLines(text string) (values []string) {
	for line := range strings.Lines(text) {
		if line = strings.TrimSpace(line); line != "" {
			values = append(values, line)
		}
	}
	return values
}
