package options

import (
	"errors"
	"fmt"
	"regexp"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/tasktable/tasktable/cmd/internal/term"
)

// UsageError is a wrong command line or environment.
type UsageError struct{ err error }

func (e *UsageError) Error() string { return e.err.Error() }
func (e *UsageError) Unwrap() error { return e.err }

// Usage returns a usageError.
func Usage(format string, args ...any) error { return &UsageError{fmt.Errorf(format, args...)} }

var plainWord = regexp.MustCompile(`^[a-z][a-z-]*$`)

// NoArguments refuses arguments. It quotes one only if it is a plain word, because another may be a URL with a
// password.
func NoArguments(command *cobra.Command, args []string) error {
	switch {
	case len(args) == 0:
		return nil
	case !plainWord.MatchString(args[0]):
		return Usage("%q takes no arguments, only options", command.CommandPath())
	case !command.HasAvailableSubCommands():
		return Usage("%q takes no arguments, only options, got %q", command.CommandPath(), args[0])
	}
	var names []string
	for _, sub := range command.Commands() {
		names = append(names, sub.Name())
	}
	return Usage("%q has no command %q%s", command.CommandPath(), args[0], DidYouMean("", term.Nearest(args[0], names)))
}

// FlagError makes an error of pflag a usageError, and suggests the nearest option for one that does not exist.
func FlagError(command *cobra.Command, err error) error {
	var unknown *pflag.NotExistError
	if !errors.As(err, &unknown) {
		return &UsageError{err}
	}
	var names []string
	command.Flags().VisitAll(func(flag *pflag.Flag) { names = append(names, flag.Name) })
	if unknown.GetSpecifiedShortnames() != "" {
		return Usage("options have two dashes and a whole name")
	}
	name := unknown.GetSpecifiedName()
	return Usage("there is no option --%s%s", name, DidYouMean("--", term.Nearest(name, names)))
}

// DidYouMean ends a message with a suggestion. Without a name it is empty.
func DidYouMean(prefix, name string) string {
	if name == "" {
		return ""
	}
	return "; did you mean " + prefix + name + "?"
}
