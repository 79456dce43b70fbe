package options

import (
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/tasktable/tasktable/cmd/internal/term"
)

// rawValue keeps the text of a flag until resolve reads it.
type rawValue struct {
	option Option
	given  []string
}

func (v *rawValue) Set(text string) error {
	if !v.option.Repeatable {
		v.given = nil
	}
	v.given = append(v.given, text)
	return nil
}

func (v *rawValue) String() string { return strings.Join(v.given, ",") }

// Type is shown behind the flag in the help. The help shows nothing for "bool".
func (v *rawValue) Type() string {
	if v.option.Kind == "" {
		return "bool"
	}
	return v.option.Kind
}

// Of returns the option of a flag. ok is false for a flag that cobra has added.
func Of(flag *pflag.Flag) (o Option, ok bool) {
	raw, ok := flag.Value.(*rawValue)
	if !ok {
		return Option{}, false
	}
	return raw.option, true
}

// CommandLine is the command as it was called, but with another value of one flag. It leaves out secrets, and options
// that were given by other means than flags, because these still apply.
func CommandLine(command *cobra.Command, name, value string) string {
	words := []string{command.CommandPath()}
	command.Flags().Visit(func(flag *pflag.Flag) {
		if o, ok := Of(flag); ok && !o.Secret && flag.Name != name {
			words = append(words, term.Quote("--"+flag.Name+"="+flag.Value.String()))
		}
	})
	return term.Printable(strings.Join(append(words, term.Quote("--"+name+"="+value)), " "))
}
