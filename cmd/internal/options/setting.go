package options

import (
	"errors"
	"os"
	"strings"

	"github.com/spf13/pflag"
)

// Origin says what gave an option.
type Origin string

// The origins, in the order in which they win.
const (
	FromFlag        Origin = "flag"
	FromEnvironment Origin = "environment"
	FromDefault     Origin = "default"
)

// resolved is the value of an option that is in force, and its origin.
type resolved struct {
	text   string // "": no layer gives it, and it has no default that can be written
	origin Origin
	place  string // the flag or the variable
}

// lookup returns the value that is in force. A flag wins over a variable, and that over the default. An empty value counts as not given, but an empty flag hides the
// variable, so that `--database-url=` chooses the default against the environment.
func (e environment) lookup(flags *pflag.FlagSet, o *Option) (resolved, error) {
	byDefault := resolved{text: o.Default, origin: FromDefault}
	if flag := flags.Lookup(o.Flag); flag != nil && flag.Changed {
		if given := flag.Value.(*rawValue).joined(); given != "" || o.NotEmpty {
			return resolved{text: given, origin: FromFlag, place: "--" + o.Flag}, nil
		}
		return byDefault, nil
	}
	if found, err := e.variable(o); err != nil || found.text != "" {
		return found, err
	}
	return byDefault, nil
}

// A secret may stand in a file of its own. The variable with this ending names that file.
const variableOfFile = "_FILE"

// maxSecretBytes is more than any password or URL has.
const maxSecretBytes = 64 << 10

// read takes the text from a file, as Docker and Kubernetes mount secrets. It drops line ends at the end, because
// editors add them.
func (s resolved) read(path string) (resolved, error) {
	content, err := ReadFile(path, maxSecretBytes)
	if about := new(os.PathError); errors.As(err, &about) {
		return resolved{}, Usage("%s: %w", s.place, err)
	} else if err != nil {
		return resolved{}, Usage("%s: the file %s: %w", s.place, path, err)
	}
	s.text = strings.TrimRight(string(content), "\r\n")
	if s.text == "" {
		return resolved{}, Usage("%s: the file %s is empty", s.place, path)
	}
	return s, nil
}

// resolve sets all options. Its error names all that are wrong, not only the first.
func (e environment) resolve(options []Option, flags *pflag.FlagSet) error {
	var errs []error
	for _, o := range options {
		found, err := e.lookup(flags, &o)
		if err == nil && (found.text != "" || found.origin == FromFlag) {
			err = o.apply(found)
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// apply sets the option, or returns an error that names the option and the rule that the value breaks.
func (o *Option) apply(found resolved) error {
	rule := o.Set(found.text)
	if rule == nil {
		return nil
	}
	if o.isSecret(found.text) {
		return Usage("%s %w", o.name(), rule)
	}
	return Usage("%s %w, got %q", o.name(), rule, found.text)
}
