// Package options reads the options of commands. A flag wins over an environment variable, and the variable over the
// default.
//
// A command declares a slice of Option and binds it with Catalog.Bind. All options of the program are in one Catalog,
// which knows the variables that the environment may have.
package options

import (
	"errors"
	"log/slog"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// Catalog holds the options of all commands, and the environment that they are read from.
type Catalog struct {
	environ   environment
	variables []string        // all environment variables that commands read
	options   []Option        // all options that the environment may give, each once
	known     map[string]bool // the keys of options
}

// NewCatalog returns an empty catalog. Its options are read from environ, which has the form of os.Environ.
func NewCatalog(environ []string) *Catalog {
	return &Catalog{environ: environ, known: map[string]bool{}}
}

// Getenv returns the value of an environment variable, or "".
func (c *Catalog) Getenv(name string) string { return c.environ.get(name) }

// WarnUnknown logs a warning for each environment variable that has the program's prefix and that no command reads.
func (c *Catalog) WarnUnknown(logger *slog.Logger) { c.environ.warnUnknown(c.variables, logger) }

// Bind gives the command its options. Once they are set, the command calls run.
func (c *Catalog) Bind(command *cobra.Command, options []Option, run func(*cobra.Command) error) *cobra.Command {
	return c.BindArguments(command, options, Arguments{}, run)
}

// BindArguments is bind for a command that takes arguments.
func (c *Catalog) BindArguments(command *cobra.Command, options []Option, takes Arguments,
	run func(*cobra.Command) error) *cobra.Command {
	command.Flags().SortFlags = false
	for _, o := range options {
		flag := command.Flags().VarPF(&rawValue{option: o}, o.Flag, o.Short, o.help())
		c.register(o)
		if o.Kind == "" {
			flag.NoOptDefVal = "true"
		}
		if o.Complete != nil || o.Kind != "file" && o.Kind != "folder" {
			// It fails only for a flag that does not exist.
			_ = command.RegisterFlagCompletionFunc(o.Flag, c.completed(options, o.Complete, -1))
		}
	}
	command.Args = takes.check
	command.ValidArgsFunction = c.completed(options, takes.Complete, takes.MaxCount)
	command.RunE = func(command *cobra.Command, given []string) error {
		if err := c.environ.resolve(options, command.Flags()); err != nil {
			return err
		}
		if takes.Set != nil {
			if err := takes.Set(given); err != nil {
				return err
			}
		}
		return run(command)
	}
	return command
}

// register remembers the option and its variable.
func (c *Catalog) register(o Option) {
	if o.Variable == "" {
		return
	}
	c.variables = append(c.variables, o.Variable)
	if o.Secret {
		c.variables = append(c.variables, o.Variable+variableOfFile)
	}
	if key := o.key(); !c.known[key] {
		c.known[key] = true
		c.options = append(c.options, o)
	}
}

// completed adapts a completion to cobra. Cobra calls it with the arguments before the cursor, once their flags are
// parsed. It offers no argument twice, and none after maxArguments (-1 means any number).
func (c *Catalog) completed(options []Option, complete Completion, maxArguments int) cobra.CompletionFunc {
	return func(command *cobra.Command, given []string, prefix string) ([]string, cobra.ShellCompDirective) {
		if complete == nil || maxArguments >= 0 && len(given) >= maxArguments {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		_ = c.environ.resolve(options, command.Flags()) // the command reports the errors when it runs
		found := slices.DeleteFunc(complete(command.Context(), prefix), func(one string) bool {
			word, _, _ := strings.Cut(one, "\t")
			return slices.Contains(given, word)
		})
		return found, cobra.ShellCompDirectiveNoFileComp
	}
}

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
