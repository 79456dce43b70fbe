package dashboard

import "github.com/tasktable/tasktable/store/inspect"

// confirmation asks a person before an act. The template confirm shows it.
type confirmation struct {
	Said   []remark
	Facts  []fact
	Names  []inspect.Name // tasks that the act is about, the first ones of them
	Of     int            // how many there are
	Path   string         // of the act
	Hidden []input        // fields that the act gets beside confirmed
	Inputs []input
	Button string // "": nothing is left to do
	// Confirmed is the value of the field confirmed. "" means 1.
	Confirmed string
	Danger    bool
	Back      string // the page to go to instead
}

// remark is a sentence of a confirmation. Its tasks follow it, as links.
type remark struct {
	Text  string
	Tone  string // bad, warn, or nothing
	Tasks []string
}

// fact is a line of what the act is about.
type fact struct {
	Status any // is before the name; nil: none
	Name   string
	Text   string
}

// asked is the confirmation as an act returns it. Nothing that the act has changed stays.
func (c confirmation) asked(title string) done { return done{show: "confirm", title: title, view: c} }

// with adds hidden fields, of names and values by turns.
func (c confirmation) with(pairs ...string) confirmation {
	for i := 0; i+1 < len(pairs); i += 2 {
		c.Hidden = append(c.Hidden, input{Name: pairs[i], Value: pairs[i+1]})
	}
	return c
}
