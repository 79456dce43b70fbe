package cmd

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/tasktable/tasktable/cmd/internal/options"
	"github.com/tasktable/tasktable/cmd/internal/term"
	noticerules "github.com/tasktable/tasktable/handlers/notice/rules"
	"github.com/tasktable/tasktable/store"
)

func (p *program) recipientsCommand() *cobra.Command {
	return group(&cobra.Command{
		Use:   "recipients",
		Short: "Lists, sets and removes the recipients of notices",
		Example: `  tasktable notices recipients set ann --email ann@example.org
  tasktable notices recipients set ops --target ops
  tasktable notices recipients list`,
	}, p.recipientsListCommand(), p.recipientsSetCommand(), p.recipientsRemoveCommand())
}

func (p *program) recipientsListCommand() *cobra.Command {
	c := p.client()
	return p.Bind(&cobra.Command{
		Use:     "list",
		Short:   "Lists the recipients and what they want",
		Long:    "Lists the recipients of notices, sorted by name. EVENTS is - for a recipient that wants all events.",
		Example: "  tasktable notices recipients list\n  tasktable notices recipients list --output json",
	}, c.options(), c.opened(c.listRecipients))
}

func (c *client) listRecipients(ctx context.Context) error {
	found, err := c.rules().Recipients(ctx, c.pool)
	if err != nil {
		return err
	}
	t := term.NewTable("NAME", "EMAIL", "TARGET", "EVENTS")
	for _, one := range found {
		t.Add(one.Name, one.Email, one.Target, term.Join(one.Events, ","))
	}
	return c.List(found, t, "There are no recipients of notices.")
}

const recipientsSetHelp = `Creates a recipient of notices, or replaces it: what is not given has its default again.

A recipient has an e-mail address, or the name of a target. The URLs and tokens of targets are in the configuration of
the nodes: see --notice-target of tasktable serve.`

// recipientsSet is the command notices recipients set.
type recipientsSet struct {
	*client
	recipient noticerules.Recipient
}

func (p *program) recipientsSetCommand() *cobra.Command {
	s := &recipientsSet{client: p.client()}
	r := &s.recipient
	opts := []options.Option{
		{Flag: "email", Kind: "address", Set: mailAddress(&r.Email), Usage: "the address for e-mails"},
		{Flag: "target", Kind: "name", Set: options.Text(&r.Target, 63), Usage: "the name of a target of the nodes"},
		{Flag: "event", Kind: "event", Repeatable: true, Set: options.SomeOf(&r.Events, noticerules.Events()...),
			Complete: options.Words(noticerules.Events()...).Each(),
			Usage:    "what the recipient wants to be told, one or several (default all events of the rules)"},
	}
	return p.BindArguments(&cobra.Command{
		Use:   "set NAME",
		Short: "Creates or replaces a recipient",
		Long:  recipientsSetHelp,
		Example: `  tasktable notices recipients set ann --email ann@example.org
  tasktable notices recipients set ops --target ops --event failed,late,recovered`,
	}, append(opts, s.options()...), options.One("NAME", &r.Name, s.recipientNames), s.opened(s.run, s.check))
}

func (s *recipientsSet) check() error {
	if (s.recipient.Email == "") == (s.recipient.Target == "") {
		return options.Usage("give either --email or --target")
	}
	return s.recipient.Check()
}

func (s *recipientsSet) run(ctx context.Context) error {
	outcome, err := s.rules().SetRecipient(ctx, s.pool, s.recipient)
	return s.outcome(s.recipient.Name, outcome, err)
}

func (p *program) recipientsRemoveCommand() *cobra.Command {
	c := p.client()
	var name string
	return p.BindArguments(&cobra.Command{
		Use:   "remove NAME",
		Short: "Removes a recipient",
		Long: "Removes a recipient of notices. If there is none of the name, or a rule names it, the exit code is 1, " +
			"and nothing is changed.",
		Example: "  tasktable notices recipients remove ann",
	}, c.options(), options.One("NAME", &name, c.recipientNames), c.opened(func(ctx context.Context) error {
		return c.outcome(name, "removed", c.rules().RemoveRecipient(ctx, c.pool, name))
	}))
}

// recipientNames completes the names of recipients.
func (c *client) recipientNames(ctx context.Context, prefix string) []string {
	return c.ask(ctx, prefix, func(ctx context.Context, db store.DB, _ store.Config) ([]string, error) {
		found, err := c.rules().Recipients(ctx, db)
		return textsOf(found, func(one noticerules.Recipient) string { return one.Name }), err
	})
}
