package cmd

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/tasktable/tasktable/cmd/internal/options"
	"github.com/tasktable/tasktable/cmd/internal/term"
	noticerules "github.com/tasktable/tasktable/handlers/notice/rules"
	"github.com/tasktable/tasktable/store"
)

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
