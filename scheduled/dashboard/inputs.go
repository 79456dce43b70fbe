package dashboard

// input is a field of a form, with its value as it was typed.
type input struct {
	Name, Label, Value, Error string
	Hint                      string // what the field takes
	List                      string // the id of a list with suggestions
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

// fieldErrors tells what is wrong with each field of a form, by the field's name.
type fieldErrors map[string]string

// note notes an error of a field, if there is one. The first one counts. The error's text is the rule: "must be …".
func (e fieldErrors) note(name string, err error) {
	if _, known := e[name]; err != nil && !known {
		e[name] = "It " + err.Error() + "."
	}
}
