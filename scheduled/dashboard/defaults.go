package dashboard

import (
	"context"
	"errors"

	"github.com/tasktable/tasktable/store"
	"github.com/tasktable/tasktable/store/form"
)

// defaultsView is the list of the types that have defaults, with the form that sets those of one.
type defaultsView struct {
	suggestions

	All    []defaultsLine
	Fields []input
	Errors formErrors
}

// defaultsLine is a type with its defaults as a text.
type defaultsLine struct {
	store.Defaults
	Text string
}

// defaultsPage fills the form with the defaults of the type that the parameter type names.
func defaultsPage(ctx context.Context, v *visit) (any, error) {
	var task store.Task
	view, err := defaultsViewOf(ctx, v)
	for _, one := range view.All {
		if one.Type == v.query("type") {
			task = one.On(task)
		}
	}
	view.fill(v.query("type"), func(field form.Field) string {
		if text := field.Text(task, v.look.zone); text != "0" {
			return text
		}
		return ""
	})
	return view, err
}

func defaultsViewOf(ctx context.Context, v *visit) (view defaultsView, err error) {
	all, err := v.tasks.Defaults(ctx, v.db)
	for _, one := range all {
		view.All = append(view.All, defaultsLine{one, form.DefaultsText(one)})
	}
	if err == nil && v.may(Operate) {
		view.suggestions, err = v.suggestions(ctx)
	}
	return view, err
}

// fill makes the inputs of the form. text returns the text of a field.
func (d *defaultsView) fill(name string, text func(form.Field) string) {
	of := inputOf(form.Type, name, d.Errors[form.Type.Name])
	of.Hint, of.List = "The type, or * for all types.", "types"
	d.Fields = append(d.Fields, of)
	for _, field := range form.Fields {
		if field.OfType {
			made := inputOf(field, text(field), d.Errors[inputName(field)])
			made.List = map[string]string{"queue": "queues"}[field.Name]
			d.Fields = append(d.Fields, made)
		}
	}
}

func setDefaults(ctx context.Context, v *visit) (done, error) {
	var task store.Task
	wrong, name := formErrors{}, v.typedText(form.Type)
	for _, field := range form.Fields {
		if field.OfType {
			wrong.note(inputName(field), field.Read(&task, v.typedText(field), v.clock(v.look.zone)))
		}
	}
	defaults, err := form.DefaultsOf(name, task)
	if err != nil && len(wrong) == 0 {
		noteInvalid(wrong, err)
	}
	if len(wrong) > 0 {
		view, err := defaultsViewOf(ctx, v)
		view.Errors = wrong
		view.fill(name, v.typedText)
		return refused("defaults", "Defaults", view), err
	}
	outcome, err := v.tasks.SetDefaults(ctx, v.db, defaults)
	return done{text: "Defaults of type " + name + ": " + string(outcome) + ".", to: "/defaults"}, err
}

func removeDefaults(ctx context.Context, v *visit) (done, error) {
	name := v.form("type")
	outcome, err := v.tasks.RemoveDefaults(ctx, v.db, name)
	if errors.Is(err, store.ErrInvalid) {
		return done{}, notValid("type must be a type.")
	}
	return done{text: "Defaults of type " + name + ": " + string(outcome) + ".", to: "/defaults"}, err
}
