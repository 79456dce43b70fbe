package options

import (
	"log/slog"
	"regexp"
	"slices"
	"strings"

	"github.com/tasktable/tasktable/cmd/internal/term"
)

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

// variable is what the option's variable says, or the file that another variable names.
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
