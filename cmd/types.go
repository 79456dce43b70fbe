package cmd

import (
	"context"
	"time"

	"github.com/spf13/cobra"

	"github.com/tasktable/tasktable/cmd/internal/options"
	"github.com/tasktable/tasktable/cmd/internal/term"
	"github.com/tasktable/tasktable/store"
	"github.com/tasktable/tasktable/store/form"
)

func (p *program) typesCommand() *cobra.Command {
	return group(&cobra.Command{
		Use:   "types",
		Short: "Lists, sets and removes the defaults of types: attempts, backoff, queue and others",
		Example: `  tasktable types set CHARGE --max-attempts 3 --backoff 1m
  tasktable types set "*" --expiration 24h
  tasktable types list
  tasktable types remove CHARGE`,
	}, p.typesListCommand(), p.typesSetCommand(), p.typesRemoveCommand())
}

const typesListHelp = `Lists the types that have defaults, sorted. * stands for all types. DECLARED BY is the service
whose code has the defaults, and is empty if somebody has set them.

With --output json it prints an array. Its lengths of time are in nanoseconds.`

func (p *program) typesListCommand() *cobra.Command {
	c := p.client()
	return p.Bind(&cobra.Command{
		Use:     "list",
		Short:   "Lists the defaults of types",
		Long:    typesListHelp,
		Example: `  tasktable types list`,
	}, c.options(), c.opened(c.listDefaults))
}

func (c *client) listDefaults(ctx context.Context) error {
	all, err := c.tasks.Defaults(ctx, c.pool)
	if err != nil {
		return err
	}
	t := term.NewTable("TYPE", "DEFAULTS", "CHANGED AT", "CHANGED BY", "DECLARED BY")
	for _, one := range all {
		t.Add(one.Type, form.DefaultsText(one), c.When(&one.ChangedAt), one.ChangedBy, one.DeclaredBy)
	}
	return c.List(all, t, "No type has defaults.")
}

const typesSetHelp = `Sets the defaults of a type, in the place of all that it had: the values of the fields that a task
of the type leaves out when it is scheduled. The type * stands for all types, for fields that the type itself has no
default for. Tasks that were scheduled before stay as they are. A task that is scheduled again gets the new defaults.

Types whose code has the method TaskDefaults get their defaults from there. Outcomes: created, changed, unchanged.`

// typesSet is the command types set.
type typesSet struct {
	*client
	name     string
	task     store.Task // with the fields that the options set
	defaults store.Defaults
}

func (p *program) typesSetCommand() *cobra.Command {
	s := &typesSet{client: p.client()}
	var opts []options.Option
	for _, field := range form.Fields {
		if field.OfType {
			option := fieldOption(field, func(text string) error {
				return field.Read(&s.task, text, form.Clock{Now: time.Now(), Zone: time.UTC})
			})
			option.Complete = map[string]options.Completion{"queue": s.queues}[field.Name]
			opts = append(opts, option)
		}
	}
	return p.BindArguments(&cobra.Command{
		Use:     "set TYPE",
		Short:   "Sets the defaults of a type",
		Long:    typesSetHelp,
		Example: `  tasktable types set CHARGE --max-attempts 3 --backoff "1m x2 max 1h"`,
	}, append(opts, s.options()...), options.One("TYPE", &s.name, s.types), s.opened(s.run, s.check))
}

func (s *typesSet) check() (err error) {
	if s.defaults, err = form.DefaultsOf(s.name, s.task); s.defaults == (store.Defaults{Type: s.name}) {
		return options.Usage("needs an option with a default. To remove the defaults: tasktable types remove %s",
			s.name)
	}
	if err != nil {
		return options.Usage("%w", err)
	}
	return nil
}

func (s *typesSet) run(ctx context.Context) error {
	outcome, err := s.tasks.SetDefaults(ctx, s.pool, s.defaults)
	return s.outcomes([]nameOutcome{{"type", s.name, outcome}}, err)
}

func (p *program) typesRemoveCommand() *cobra.Command {
	c := p.client()
	var name string
	return p.BindArguments(&cobra.Command{
		Use:   "remove TYPE",
		Short: "Removes the defaults of a type",
		Long: `Removes the defaults of a type. Tasks that were scheduled before stay as they are. If the code of a
service has defaults for the type, its next node that starts sets them again. Outcomes: deleted, absent.`,
		Example: `  tasktable types remove CHARGE`,
	}, c.options(), options.One("TYPE", &name, c.types), c.opened(func(ctx context.Context) error {
		outcome, err := c.tasks.RemoveDefaults(ctx, c.pool, name)
		return c.outcomes([]nameOutcome{{"type", name, outcome}}, err)
	}))
}
