package options

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"regexp"
	"runtime"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"github.com/tasktable/tasktable/cmd/internal/term"
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

// lookup returns the value that is in force. A flag wins over a variable, and that over the default. An empty value
// counts as not given, but an empty flag hides the variable, so that `--database-url=` chooses the default against the
// environment.
func (e environment) lookup(flags *pflag.FlagSet, o *Option) (resolved, error) {
	byDefault := resolved{text: o.Default, origin: FromDefault}
	if flag := flags.Lookup(o.Flag); flag != nil && flag.Changed {
		if given := flag.Value.String(); given != "" || o.NotEmpty {
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

// variablePrefix begins the name of each environment variable of the program, except DATABASE_URL.
const variablePrefix = "TASKTABLE_"

// environment is a list of NAME=value, as os.Environ returns it.
type environment []string

// get returns the last value, as a shell would, or "".
func (e environment) get(name string) string {
	for _, entry := range slices.Backward(e) {
		if value, ok := strings.CutPrefix(entry, name+"="); ok && name != "" {
			return value
		}
	}
	return ""
}

// variable reads the option from its variable. A secret option may also be in a file that another variable names.
func (e environment) variable(o *Option) (resolved, error) {
	found := resolved{text: e.get(o.Variable), origin: FromEnvironment, place: o.Variable}
	if !o.Secret || o.Variable == "" {
		return found, nil
	}
	path := e.get(o.Variable + variableOfFile)
	if path == "" {
		return found, nil
	}
	if found.text != "" {
		return resolved{}, Usage("--%s: both %s and %s are set: give one of them", o.Flag, o.Variable,
			o.Variable+variableOfFile)
	}
	found.place += variableOfFile
	return found.read(path)
}

// otherVariables have the program's prefix but are no options. Kubernetes sets some of them in every pod beside a
// Service named tasktable, and the tests have their own.
var otherVariables = regexp.MustCompile(`^TASKTABLE_(SERVICE_HOST|SERVICE_PORT.*|PORT(_.*)?|TEST_.*)$`)

// warnUnknown logs the variables with the program's prefix that no command reads. They are no error, because an older
// program must start in the environment of a newer one.
func (e environment) warnUnknown(known []string, logger *slog.Logger) {
	for _, entry := range e {
		name, value, _ := strings.Cut(entry, "=")
		if !strings.HasPrefix(name, variablePrefix) || value == "" || slices.Contains(known, name) ||
			otherVariables.MatchString(name) {
			continue
		}
		logger.Warn("an environment variable is no option of this program, and has no effect",
			"variable", name, "did_you_mean", term.Nearest(name, known))
	}
}

// ReadFile reads a file of settings of at most the given number of bytes. It refuses a file that everybody may write
// to, because such a person would decide what this process does. Its errors are those of package os, or the rule that
// the file breaks, without the path.
func ReadFile(path string, most int64) ([]byte, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = file.Close() }()
	info, err := file.Stat()
	if err != nil {
		return nil, err
	}
	// On Windows the mode says nothing about others.
	if mode := info.Mode(); mode.IsRegular() && mode.Perm()&0o002 != 0 && runtime.GOOS != "windows" {
		return nil, fmt.Errorf("must not be writable by everybody, but has mode %#o", mode.Perm())
	}
	content, err := io.ReadAll(io.LimitReader(file, most+1))
	if err != nil {
		return nil, err
	}
	if int64(len(content)) > most {
		return nil, fmt.Errorf("has more than %d bytes", most)
	}
	return content, nil
}
