package cmd

import (
	"errors"
	"fmt"
	"regexp"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// option is one setting: a flag and an environment variable, the flag winning over the variable over the default. Both
// are text until resolve, so each goes through the same check and the same message.
type option struct {
	flag     string
	short    string // a letter that does for the flag
	variable string // "": said on the command line or not at all
	usage    string
	value    string // what the value is, for the help: "duration"; "": on or off
	fallback string // the default, written as a user would
	many     bool   // may be given several times
	secret   bool   // what was given is never shown
	set      func(text string) error
	complete completion // for the shell; nil: nothing, or the files where value is a file or a folder
}

func (o *option) name() string {
	if o.variable == "" {
		return "--" + o.flag
	}
	return fmt.Sprintf("--%s (%s)", o.flag, o.variable)
}

func (o *option) help() string {
	help := o.usage
	if o.fallback != "" {
		help += " (default " + o.fallback + ")"
	}
	if o.variable != "" {
		help += " [$" + o.variable + "]"
	}
	return help
}

// text is what holds of flag, variable and default. An empty one counts as not given; an empty flag hides the variable,
// so that `--database-url=` chooses the default against the environment.
func (o *option) text(flags *pflag.FlagSet, environment environment) string {
	if flag := flags.Lookup(o.flag); flag != nil && flag.Changed {
		if given := flag.Value.(*rawValue).joined(); given != "" {
			return given
		}
		return o.fallback
	}
	if given := environment.get(o.variable); given != "" {
		return given
	}
	return o.fallback
}

// resolve sets all options and names all that are wrong, not just the first.
func resolve(options []option, flags *pflag.FlagSet, environment environment) error {
	var errs []error
	for _, o := range options {
		text := o.text(flags, environment)
		if text == "" {
			continue
		}
		if err := o.set(text); err != nil {
			errs = append(errs, o.wrong(err, text))
		}
	}
	return errors.Join(errs...)
}

// credentials are a name and a password as URLs have them: one may be given where only its host was asked for.
var credentials = regexp.MustCompile(`[^\s/]:[^\s/]*@`)

func (o *option) wrong(rule error, text string) error {
	if o.secret || credentials.MatchString(text) {
		return usage("%s %w", o.name(), rule)
	}
	return usage("%s %w, got %q", o.name(), rule, text)
}

// bind makes a command of its options and of what it does once they are set.
func (p *program) bind(command *cobra.Command, options []option, run func(*cobra.Command) error) *cobra.Command {
	return p.bindArguments(command, options, arguments{}, run)
}

// bindArguments is bind for a command that takes arguments.
func (p *program) bindArguments(command *cobra.Command, options []option, takes arguments, run func(*cobra.Command) error) *cobra.Command {
	command.Flags().SortFlags = false
	for _, o := range options {
		flag := command.Flags().VarPF(&rawValue{option: o}, o.flag, o.short, o.help())
		if o.variable != "" {
			p.variables = append(p.variables, o.variable)
		}
		if o.value == "" {
			flag.NoOptDefVal = "true"
		}
		if o.complete != nil || o.value != "file" && o.value != "folder" {
			_ = command.RegisterFlagCompletionFunc(o.flag, p.completed(options, o.complete, -1)) // fails only for a flag that is not there
		}
	}
	command.Args = takes.check
	command.ValidArgsFunction = p.completed(options, takes.complete, takes.most)
	command.RunE = func(command *cobra.Command, given []string) error {
		if err := resolve(options, command.Flags(), p.environment); err != nil {
			return err
		}
		if takes.set != nil {
			if err := takes.set(given); err != nil {
				return err
			}
		}
		return run(command)
	}
	return command
}

// rawValue keeps what flags said, for resolve.
type rawValue struct {
	option option
	given  []string
}

func (v *rawValue) Set(text string) error {
	if !v.option.many {
		v.given = nil
	}
	v.given = append(v.given, text)
	return nil
}

func (v *rawValue) joined() string { return strings.Join(v.given, ",") }
func (v *rawValue) String() string { return v.joined() }

// Type is what the help shows behind the flag; nothing for "bool".
func (v *rawValue) Type() string {
	if v.option.value == "" {
		return "bool"
	}
	return v.option.value
}
