package options

import (
	"errors"
	"slices"

	"github.com/spf13/pflag"
)

// Setting is an option as the command config prints it. Its value has no secrets.
type Setting struct {
	Option string `json:"option"`
	Value  string `json:"value"`
	From   Origin `json:"from"`
	Place  string `json:"place,omitempty"`
}

// Settings lists the given options as they are in force. Options of other commands follow if the environment
// gives them. The given options must have been checked already.
func (c *Catalog) Settings(flags *pflag.FlagSet, options []Option) ([]Setting, error) {
	var rows []Setting
	var errs []error
	listed := map[string]bool{}
	for i, o := range slices.Concat(options, c.options) {
		if listed[o.Flag+o.Variable] {
			continue
		}
		listed[o.Flag+o.Variable] = true
		found, err := c.environ.lookup(flags, &o)
		ofOthers := i >= len(options)
		if ofOthers && err == nil && found.origin != FromDefault {
			err = o.apply(found)
		}
		errs = append(errs, err)
		if !ofOthers || found.origin != FromDefault {
			rows = append(rows, o.row(found))
		}
	}
	return rows, errors.Join(errs...)
}
