package dashboard

import (
	"slices"
	"strings"

	"github.com/tasktable/tasktable/store"
)

// input is a field of a form, with its value as it was typed.
type input struct {
	Name, Label, Value, Error string
	Hint                      string // the values that the field takes
	List                      string // the id of a list with suggestions
	Type                      string // of the input; "" is text, and textarea is one of several lines
	Choices                   []choice
	Box                       bool // a box to tick, for true
}

// choice is one of several values of a field.
type choice struct {
	Value, Label string
	Chosen       bool
}

// chosen returns the choices with one of them chosen.
func chosen(choices []choice, value string) []choice {
	made := make([]choice, len(choices))
	for i, one := range choices {
		one.Chosen = one.Value == value
		made[i] = one
	}
	return made
}

// choicesOf are choices of which a person may take several.
func choicesOf[T ~string](all []T, labels map[T]string, taken []T) []choice {
	choices := make([]choice, len(all))
	for i, one := range all {
		choices[i] = choice{string(one), labels[one], slices.Contains(taken, one)}
	}
	return choices
}

// takenOf are the values of a field that a form may have several times.
func takenOf[T ~string](v *visit, name string) (taken []T) {
	for _, text := range v.request.PostForm[name] {
		taken = append(taken, T(text))
	}
	return taken
}

// formErrors has the error of each wrong field of a form, by the field's name.
type formErrors map[string]string

// note notes an error of a field, if there is one. The first one counts. The error's text is the rule: "must be …".
func (e formErrors) note(name string, err error) {
	if _, known := e[name]; err != nil && !known {
		e[name] = "It " + err.Error() + "."
	}
}

// add puts an error that wraps store.ErrInvalid beside the field that its text names first. renamed has the names of
// fields that have another name in the form.
func (e formErrors) add(err error, renamed map[string]string) {
	field, text := invalidField(err)
	if name, ok := renamed[field]; ok {
		field = name
	}
	if e[field] == "" {
		e[field] = text
	}
}

// invalidField returns the text of an error that wraps store.ErrInvalid, such as "queue must be …". It also returns the
// first word of the text, which names the field.
func invalidField(err error) (field, text string) {
	_, text, found := strings.Cut(err.Error(), store.ErrInvalid.Error()+": ")
	if !found {
		text = err.Error()
	}
	field, _, _ = strings.Cut(text, " ")
	return strings.TrimSuffix(field, ":"), text
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
