package dashboard

import (
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/tasktable/tasktable/store"
	"github.com/tasktable/tasktable/store/form"
)

// inputName is the name of a field in the forms of the dashboard.
func inputName(field form.Field) string { return strings.ReplaceAll(field.Input, "-", "_") }

// inputOf is the input of a field, with its value as a text.
func inputOf(field form.Field, value, wrong string) input {
	made := input{Name: inputName(field), Label: field.Label, Value: value, Error: wrong, Hint: field.Help + "."}
	if field.Default != "" {
		made.Hint += " Default: " + field.Default + "."
	}
	switch field.Kind {
	case form.Payload, form.Tasks:
		made.Type = "textarea"
	case form.Choice:
		made.Choices = []choice{{Label: "default"}}
		for _, word := range field.Words {
			made.Choices = append(made.Choices, choice{Value: word, Label: word})
		}
		made.Choices = chosen(made.Choices, value)
	case form.Text, form.Number, form.Length, form.Time:
	}
	return made
}

// typedText is the text of a field of the form that was sent. Only an id and its like may begin or end with spaces.
func (v *visit) typedText(field form.Field) string {
	text := v.form(inputName(field))
	if slices.Contains([]string{"id", "entity", "tenant_id", "group_key"}, field.Name) {
		return text
	}
	return strings.TrimSpace(text)
}

// clock is what the typed times of a form are relative to.
func (v *visit) clock(zone *time.Location) form.Clock { return form.Clock{Now: v.now, Zone: zone} }

// noteInvalid notes an error of package store at the field that it names: "…: invalid: field must be …".
func noteInvalid(wrong formErrors, err error) {
	name, rule := invalidField(err)
	_, rest, _ := strings.Cut(rule, " ")
	field, known := form.Named(name)
	switch {
	case name == form.Type.Name:
		field = form.Type
	case !known:
		wrong["form"] = sentence(errors.New(rule))
		return
	}
	if strings.HasPrefix(rest, "must") {
		wrong.note(inputName(field), errors.New(rest))
		return
	}
	wrong[inputName(field)] = sentence(errors.New(rest))
}

// taskOf returns the task of a row that is scheduled with the texts of a form. A text that the form showed is not read,
// because a time there has no fractions of its seconds.
func (v *visit) edited(row store.Row, fields []form.Field, zone *time.Location, wrong formErrors) (store.Task, error) {
	task, err := store.TaskOf(row)
	if err != nil {
		return task, err
	}
	for _, field := range fields {
		if text := v.typedText(field); text != field.Text(task, zone) {
			wrong.note(inputName(field), field.Read(&task, text, v.clock(zone)))
		}
	}
	return task, nil
}
