package cmd

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/tasktable/tasktable/cmd/internal/options"
	"github.com/tasktable/tasktable/cmd/internal/term"
	noticerules "github.com/tasktable/tasktable/handlers/notice/rules"
	"github.com/tasktable/tasktable/store"
)

const noticesHelp = `Notices tell people what happened to tasks, by e-mail, webhook, Slack, Teams, Discord or ntfy. A
rule says which events make a notice, and who gets it. Nodes send notices: see --notices and --notice-target of
tasktable serve.`

func (p *program) noticesCommand() *cobra.Command {
	return group(&cobra.Command{
		Use:   "notices",
		Short: "Lists, sets, removes and tests the rules and recipients of notices",
		Long:  noticesHelp,
		Example: `  tasktable notices recipients set ops --target ops
  tasktable notices set dead --event failed,expired --to ops --digest 5m
  tasktable notices test ops
  tasktable notices list`,
	}, p.noticesListCommand(), p.noticesSetCommand(), p.noticesRemoveCommand(), p.noticesTestCommand(),
		p.recipientsCommand())
}

// rules are the rules and recipients in the schema of the command.
func (c *client) rules() *noticerules.Rules {
	return noticerules.New(noticerules.Config{Schema: c.database.inSchema()})
}

const noticesListHelp = `Lists the rules of notices, sorted by name. MATCHES is - for a rule that matches all tasks.
DECLARED BY is the service whose code declares the rule.

With --output json it prints an array of the rules.`

func (p *program) noticesListCommand() *cobra.Command {
	c := p.client()
	return p.Bind(&cobra.Command{
		Use:   "list",
		Short: "Lists the rules",
		Long:  noticesListHelp,
		Example: `  tasktable notices list
  tasktable notices list --output json | jq -r '.[] | select(.enabled) | .name'`,
	}, c.options(), c.opened(c.listRules))
}

func (c *client) listRules(ctx context.Context) error {
	found, err := c.rules().List(ctx, c.pool)
	if err != nil {
		return err
	}
	t := term.NewTable("NAME", "EVENTS", "MATCHES", "RECIPIENTS", "DIGEST", "AFTER", "STATE", "DECLARED BY")
	for _, rule := range found {
		state := "enabled"
		if rule.Disabled {
			state = "disabled"
		}
		digest := "off"
		if rule.Digest != noticerules.AtOnce {
			digest = rule.Digest.String()
		}
		t.Add(rule.Name, term.Join(rule.Events, ","), matchText(rule), strings.Join(rule.Recipients, ","), digest,
			rule.After.String(), state, rule.DeclaredBy)
	}
	return c.List(found, t, "There are no rules of notices.")
}

func matchText(rule noticerules.Rule) string {
	var parts []string
	for _, one := range []struct {
		name   string
		values []string
	}{{"type", rule.Types}, {"queue", rule.Queues}, {"tenant", rule.Tenants}, {"entity", rule.Entities},
		{"recurring", rule.Recurring}} {
		if len(one.values) > 0 {
			parts = append(parts, one.name+" "+strings.Join(one.values, ","))
		}
	}
	return strings.Join(parts, "; ")
}

const noticesRemoveHelp = `Removes a rule of notices. Notices that it has scheduled are not sent. If no rule has the
name, or the code of a service declares it, the exit code is 1.`

func (p *program) noticesRemoveCommand() *cobra.Command {
	c := p.client()
	var name string
	return p.BindArguments(&cobra.Command{
		Use:     "remove NAME",
		Short:   "Removes a rule",
		Long:    noticesRemoveHelp,
		Example: "  tasktable notices remove dead",
	}, c.options(), options.One("NAME", &name, c.ruleNames), c.opened(func(ctx context.Context) error {
		return c.outcome(name, "removed", c.rules().Remove(ctx, c.pool, name))
	}))
}

// outcome prints the result of a command that changes one rule or recipient.
func (c *client) outcome(name, outcome string, err error) error {
	if err != nil {
		return err
	}
	t := term.NewTable("NAME", "OUTCOME")
	t.Add(name, outcome)
	return c.One(nameOutcome{"name", name, store.Outcome(outcome)}, t)
}

// ruleNames completes the names of rules.
func (c *client) ruleNames(ctx context.Context, prefix string) []string {
	return c.ask(ctx, prefix, func(ctx context.Context, db store.DB, _ store.Config) ([]string, error) {
		found, err := c.rules().List(ctx, db)
		return textsOf(found, func(rule noticerules.Rule) string { return rule.Name }), err
	})
}

const noticesTestHelp = `Sends a test to a recipient, and waits until a node has sent it. The exit code is 1 if no such
recipient exists, if the message was not taken, or if no node has sent it in time.`

// noticesTest is the command notices test.
type noticesTest struct {
	*client
	name string
	wait time.Duration
}

func (p *program) noticesTestCommand() *cobra.Command {
	n := &noticesTest{client: p.client()}
	opts := []options.Option{{Flag: "wait", Kind: "duration", Default: "30s",
		Set:   options.Duration(&n.wait, time.Second, time.Hour),
		Usage: "how long to wait for a node that sends the test"}}
	return p.BindArguments(&cobra.Command{
		Use:     "test RECIPIENT",
		Short:   "Sends a test to a recipient",
		Long:    noticesTestHelp,
		Example: "  tasktable notices test ops\n  tasktable notices test ops --wait 2m --output json",
	}, append(opts, n.options()...), options.One("RECIPIENT", &n.name, n.recipientNames), n.opened(n.run))
}

var errNotSent = errors.New("the test was not sent")

func (n *noticesTest) run(ctx context.Context) error {
	receipt, err := n.rules().SendTest(ctx, n.pool, n.tasks, n.name, n.wait)
	if err != nil {
		return err
	}
	row, err := n.ended(ctx, receipt.ID)
	if err != nil {
		return err
	}
	t := term.NewTable("ID", "STATUS", "MESSAGE")
	t.Add(row.ID, row.Status, row.Message)
	if err := n.One(struct {
		ID      string       `json:"id"`
		Status  store.Status `json:"status"`
		Message *string      `json:"message"`
	}{row.ID, row.Status, row.Message}, t); err != nil {
		return err
	}
	switch {
	case row.Status == store.StatusCompleted:
		return nil
	case row.FinishedAt == nil:
		return fmt.Errorf("%w: no node has sent it within %s; tasktable why %s tells why", errNotSent, n.wait, row.ID)
	}
	return errNotSent
}

// ended waits until the task has ended, or for as long as the caller wants to wait.
func (n *noticesTest) ended(ctx context.Context, id string) (row store.Row, err error) {
	const pause = 200 * time.Millisecond
	limited, cancel := context.WithTimeout(ctx, n.wait)
	defer cancel()
	for {
		if row, err = n.tasks.Get(ctx, n.pool, id); err != nil || row.FinishedAt != nil {
			return row, err
		}
		select {
		case <-limited.Done():
			return row, ctx.Err() // nil, unless somebody has interrupted the command
		case <-time.After(pause):
		}
	}
}

const noticesSetHelp = `Creates a rule of notices, or replaces it: what is not given has its default again.

The events are failed (for good), expired, lost (an attempt), late (due since more than --after), missed (a fire of a
recurring task is more than --after late, or came so late), unsuccessful (no occurrence of a recurring task has
completed for more than --after) and recovered (late, missed or unsuccessful no more, or a task that had failed or
expired has completed after a retry).

All causes of a window of --digest are one notice for each recipient, however many they are. With --digest off each
cause is a notice of its own.

NAME has 1 to 63 letters, digits or _.-.`

// noticesSet is the command notices set.
type noticesSet struct {
	*client
	rule noticerules.Rule
}

func (p *program) noticesSetCommand() *cobra.Command {
	s := &noticesSet{client: p.client()}
	r := &s.rule
	opts := []options.Option{
		{Flag: "event", Kind: "event", Repeatable: true, Set: options.SomeOf(&r.Events, noticerules.Events()...),
			Complete: options.Words(noticerules.Events()...).Each(),
			Usage:    "what is told: " + term.Join(noticerules.Events(), ", ") + "; one or several; required"},
		{Flag: "to", Kind: "recipient", Repeatable: true, Set: list(&r.Recipients), Complete: s.recipientNames,
			Usage: "who is told: the name of a recipient, one or several; required"},
		{Flag: "type", Kind: "type", Repeatable: true, Set: list(&r.Types), Complete: s.types,
			Usage: "only tasks of this type, or of one of several"},
		{Flag: "queue", Kind: "name", Repeatable: true, Set: list(&r.Queues), Usage: "only tasks of this queue"},
		{Flag: "tenant", Kind: "tenant", Repeatable: true, Set: list(&r.Tenants), Usage: "only tasks of this tenant"},
		{Flag: "entity", Kind: "entity", Repeatable: true, Set: list(&r.Entities), Usage: "only tasks of this entity"},
		{Flag: "recurring", Kind: "id", Repeatable: true, Set: list(&r.Recurring),
			Usage: "only the recurring task of this id and its occurrences, or those of one of several"},
		{Flag: "digest", Kind: "duration", Default: noticerules.DefaultDigest.String(), Set: digest(&r.Digest),
			Usage: "the length of the windows; off: each cause is a notice of its own, at once"},
		{Flag: "after", Kind: "duration", Default: noticerules.DefaultAfter.String(),
			Set:   options.Duration(&r.After, time.Second, 366*24*time.Hour),
			Usage: "how long something lasts before it is late, missed or unsuccessful"},
		{Flag: "no-details", Set: options.Bool(&r.WithoutDetails), Usage: "leaves the errors of tasks out of the text"},
		{Flag: "disabled", Set: options.Bool(&r.Disabled), Usage: "keeps the rule, but makes no notices"},
	}
	return p.BindArguments(&cobra.Command{
		Use:   "set NAME",
		Short: "Creates or replaces a rule",
		Long:  noticesSetHelp,
		Example: `  tasktable notices set dead --event failed,expired --to ops --digest 5m
  tasktable notices set payments --event failed --type CAPTURE_PAYMENT --to ann,ops --digest off --no-details
  tasktable notices set nightly --event missed,unsuccessful,recovered --recurring nightly-backup --after 26h --to ops`,
	}, append(opts, s.options()...), options.One("NAME", &r.Name, s.ruleNames), s.opened(s.run, s.check))
}

// list takes one or several values, separated by commas.
func list(into *[]string) func(string) error {
	return options.Each(into, func(one string) (string, error) {
		if one == "" || len(one) > store.MaxIDBytes {
			return "", fmt.Errorf("must be of 1 to %d bytes, one or several separated by commas", store.MaxIDBytes)
		}
		return one, nil
	})
}

func digest(into *time.Duration) func(string) error {
	set := options.Duration(into, time.Second, 7*24*time.Hour)
	return func(given string) error {
		if given == "off" {
			*into = noticerules.AtOnce
			return nil
		}
		if set(given) != nil {
			return errors.New("must be off or a duration from 1s to 168h, such as 5m")
		}
		return nil
	}
}

func (s *noticesSet) check() error {
	switch {
	case len(s.rule.Events) == 0:
		return options.Usage("--event is missing: the rule must tell something")
	case len(s.rule.Recipients) == 0:
		return options.Usage("--to is missing: the rule must tell somebody")
	}
	return s.rule.Check()
}

func (s *noticesSet) run(ctx context.Context) error {
	outcome, err := s.rules().Set(ctx, s.pool, s.rule)
	return s.outcome(s.rule.Name, outcome, err)
}
