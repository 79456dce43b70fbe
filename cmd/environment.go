package cmd

import (
	"log/slog"
	"regexp"
	"slices"
	"strings"
)

const variablePrefix = "TASKTABLE_"

// environment is the process's, as NAME=value, given so that tests need not change their own.
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

// notOurs are variables with our prefix that are no options: Kubernetes sets some in every pod beside a Service named
// tasktable, and the tests have theirs.
var notOurs = regexp.MustCompile(`^TASKTABLE_(SERVICE_HOST|SERVICE_PORT.*|PORT(_.*)?|TEST_.*)$`)

// warnUnknown tells of variables that no command reads. It is no error, because an older program must start in the
// environment of a newer one.
func (e environment) warnUnknown(known []string, logger *slog.Logger) {
	for _, entry := range e {
		name, value, _ := strings.Cut(entry, "=")
		if !strings.HasPrefix(name, variablePrefix) || value == "" || slices.Contains(known, name) || notOurs.MatchString(name) {
			continue
		}
		logger.Warn("an environment variable is no option of this program, and has no effect", "variable", name, "did_you_mean", nearest(name, known))
	}
}
