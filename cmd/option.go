package cmd

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/spf13/cobra"
)

// option is one setting: a flag, an environment variable, and a key of the configuration file, of which the first that is given wins.
// All are text until resolve, so each goes through the same check and the same message.
type option struct {
	flag     string
	short    string // a letter that does for the flag
	variable string // "": said on the command line or not at all
	usage    string
	value    string // what the value is, for the help: "duration"; "": on or off
	fallback string // the default, written as a user would
	unsaid   string // what holds where nobody says anything, for the command config: a default that differs from machine to machine
	sample   string // a value for the example of a configuration file, where neither the default nor its kind of value will do
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
	if o.secret && o.variable != "" {
		help += "; $" + o.variable + variableOfFile + " names a file with it"
	}
	if o.variable != "" {
		help += " [$" + o.variable + "]"
	}
	return help
}

// credentials are a name and a password as URLs have them: one may be given where only its host was asked for.
var credentials = regexp.MustCompile(`[^\s/]:[^\s/]*@`)

// hides says that the text is not to be shown.
func (o *option) hides(text string) bool { return o.secret || credentials.MatchString(text) }

// bind makes a command of its options and of what it does once they are set.
func (p *program) bind(command *cobra.Command, options []option, run func(*cobra.Command) error) *cobra.Command {
	return p.bindArguments(command, options, arguments{}, run)
}

// bindArguments is bind for a command that takes arguments.
func (p *program) bindArguments(command *cobra.Command, options []option, takes arguments, run func(*cobra.Command) error) *cobra.Command {
	command.Flags().SortFlags = false
	for _, o := range append(slices.Clone(options), configOption(new(string))) {
		flag := command.Flags().VarPF(&rawValue{option: o}, o.flag, o.short, o.help())
		p.know(o)
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
		from, err := p.sources(command.Flags())
		if err != nil {
			return err
		}
		if err := resolve(options, from); err != nil {
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

// know keeps what variables and keys there are.
func (p *program) know(o option) {
	if o.variable == "" {
		return
	}
	p.variables = append(p.variables, o.variable)
	if o.secret {
		p.variables = append(p.variables, o.variable+variableOfFile)
	}
	if key := o.key(); key != "" && !slices.ContainsFunc(p.settable, func(known option) bool { return known.key() == key }) {
		p.settable = append(p.settable, o)
	}
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
