package cmd

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/spf13/cobra"

	"github.com/tasktable/tasktable/cmd/internal/options"
	"github.com/tasktable/tasktable/cmd/internal/term"
	"github.com/tasktable/tasktable/store"
	"github.com/tasktable/tasktable/store/form"
	"github.com/tasktable/tasktable/store/when"
)

func (p *program) limitsCommand() *cobra.Command {
	return group(&cobra.Command{
		Use:   "limits",
		Short: "Lists, sets and removes limits: how many tasks run at once, or start in an interval",
		Example: `  tasktable limits set charges --type CHARGE --max-running 5
  tasktable limits set stripe --queue stripe --rate 100/1m --burst 20
  tasktable limits set per-customer --type CHARGE --per group --max-running 1
  tasktable limits set ledger --type LEDGER --per group --in-order
  tasktable limits set fair --type REPORT --per tenant --weight large=3
  tasktable limits list
  tasktable limits remove charges`,
	}, p.limitsListCommand(), p.limitsSetCommand(), p.limitsRemoveCommand())
}

const limitsListHelp = `Lists the limits, sorted by name:

  OF          the tasks that count: all, those of a queue, or those of a type
  PER         group or tenant: each of them counts by itself; "in order" if its tasks run one after the other
  RUNNING     how many of them run, or are about to, and how many may; with PER, of the one of which most run
  RATE        how many may start in the interval
  BURST       how many may start at once after a time in which none started
  WEIGHTS     how many turns some groups or tenants have for one of the others
  NEXT START  when the rate lets the next task start; - if it does now, or if each of PER has a rate of its own
  WAITING     how many due tasks the limit holds back now; a + means that there are perhaps more
  OLDEST DUE  since when the first of them is due

With --output json it prints an array of the limits. Its intervals are in nanoseconds.`

func (p *program) limitsListCommand() *cobra.Command {
	c := p.client()
	return p.Bind(&cobra.Command{
		Use:   "list",
		Short: "Lists limits, and how far they are used",
		Long:  limitsListHelp,
		Example: `  tasktable limits list
  tasktable limits list --output json | jq -r '.[] | select(.running >= .max_running) | .name'   # these are reached`,
	}, c.options(), c.opened(c.listLimits))
}

func (c *client) listLimits(ctx context.Context) error {
	limits, err := c.tasks.Limits(ctx, c.pool)
	if err != nil {
		return err
	}
	t := term.NewTable("NAME", "OF", "PER", "RUNNING", "RATE", "BURST", "WEIGHTS", "NEXT START", "WAITING",
		"OLDEST DUE", "CHANGED AT", "CHANGED BY")
	for _, one := range limits {
		var running, rate string
		if one.MaxRunning != nil {
			running = fmt.Sprintf("%d of %d", *one.Running, *one.MaxRunning)
		}
		if one.Rate != nil {
			rate = fmt.Sprintf("%d/%s", *one.Rate, when.LengthText(*one.RateInterval))
		}
		next := one.NextStartAt
		if next != nil && !next.After(c.Now) {
			next = nil
		}
		var per string
		if one.Per != nil {
			per = string(*one.Per)
		}
		if one.InOrder {
			per += " in order"
		}
		t.Add(one.Name, one.Of().String(), per, running, rate, one.Burst, form.WeightsText(one.Weights), c.When(next),
			atLeast(one.Waiting, one.WaitingMore), c.When(one.OldestDue), c.When(&one.ChangedAt), one.ChangedBy)
	}
	return c.List(limits, t, "There is no limit.")
}

const limitsSetHelp = `Creates a limit, or replaces the limit that has the name. It counts the tasks of a type, of a
queue or of everything, over all nodes. Tasks that it keeps from starting stay QUEUED, and start when it lets them. If
several limits have a task, all must let it. A change holds from the leader's next pass, within about a second. Tasks
that run already go on.

--rate 100/1m lets 100 tasks start in each minute, spread evenly. With --burst 20, up to 20 of them may start at once
after a time in which none started.

--per group counts the tasks of each group by themselves, so that --max-running 1 is one at a time for each group, and
--rate 100/1m is 100 in each minute for each group. Of those that wait, the group of which the fewest tasks run comes
first, then the one that was served longest ago. --per tenant does the same for tenants. With --in-order, a task of a
group or tenant starts when the one before has ended, after all its attempts. --weight NAME=3 gives the group or tenant
three turns for one of each other, and so three times as many tasks that run while all have tasks that wait. Outcomes:
created, changed, unchanged.`

// limitsSet is the command limits set.
type limitsSet struct {
	*client
	limit       store.Limit
	kind, queue string
	everything  bool
}

func (p *program) limitsSetCommand() *cobra.Command {
	s := &limitsSet{client: p.client()}
	const most = 1_000_000
	opts := []options.Option{
		{Flag: "type", Kind: "name", Set: options.Text(&s.kind, 127), Complete: s.types,
			Usage: "the tasks of this type"},
		{Flag: "queue", Kind: "name", Set: queueName(&s.queue), Complete: s.queues, Usage: "the tasks of this queue"},
		{Flag: "all", Set: options.Bool(&s.everything), Usage: "all tasks"},
		{Flag: "per", Kind: "group|tenant",
			Set:   options.OneOf(&s.limit.Per, store.PerGroup, store.PerTenant),
			Usage: "count each group or tenant by itself (default all together)"},
		{Flag: "in-order", Set: options.Bool(&s.limit.InOrder),
			Usage: "with --per: start a task when the one before has ended"},
		{Flag: "weight", Kind: "name=number", Repeatable: true, Set: s.setWeights,
			Usage: "with --per: how many turns a group or tenant has for one of each other"},
		{Flag: "max-running", Kind: "number", Set: options.Int(&s.limit.MaxRunning, 1, most),
			Usage: "how many of the tasks may run at once (default any number)"},
		{Flag: "rate", Kind: "number/interval", Set: s.setRate,
			Usage: "how many of the tasks may start in an interval, from 1s to 24h, such as 100/1m " +
				"(default any number)"},
		{Flag: "burst", Kind: "number", Set: options.Int(&s.limit.Burst, 1, most),
			Usage: "how many may start at once (default what the rate gives in a tenth of a second)"},
	}
	return p.BindArguments(&cobra.Command{
		Use:   "set NAME",
		Short: "Creates or changes a limit",
		Long:  limitsSetHelp,
		Example: `  tasktable limits set charges --type CHARGE --max-running 5
  tasktable limits set stripe --queue stripe --rate 100/1m --burst 20
  tasktable limits set per-customer --type CHARGE --per group --max-running 1
  tasktable limits set ledger --type LEDGER --per group --in-order`,
	}, append(opts, s.options()...), options.One("NAME", &s.limit.Name, s.limits), s.opened(s.run, s.check))
}

// setWeights reads the option --weight.
func (s *limitsSet) setWeights(given string) (err error) {
	s.limit.Weights, err = form.Weights(strings.Split(given, ","))
	return err //nolint:wrapcheck // it is the rule
}

// setRate reads a rate, such as 100/1m.
func (s *limitsSet) setRate(given string) error {
	number, interval, both := strings.Cut(given, "/")
	rate, err := strconv.Atoi(number)
	if err != nil || !both {
		return errors.New("must be a number, / and an interval, such as 100/1m")
	}
	if rate < 1 {
		return errors.New("must be at least 1 in an interval, such as 100/1m")
	}
	if s.limit.Interval, err = when.LengthBetween(interval, time.Second, 24*time.Hour); err != nil {
		return fmt.Errorf("has an interval that %w", err)
	}
	s.limit.Rate = rate
	return nil
}

// check finds out which tasks the limit counts, and whether it is valid.
func (s *limitsSet) check() error {
	var scopes []store.Scope
	if s.kind != "" {
		scopes = append(scopes, store.Type(s.kind))
	}
	if s.queue != "" {
		scopes = append(scopes, store.Queue(s.queue))
	}
	if s.everything {
		scopes = append(scopes, store.Everything())
	}
	if len(scopes) != 1 {
		return options.Usage("needs one of --type, --queue and --all")
	}
	s.limit.Of = scopes[0]
	if err := s.limit.Check(); err != nil {
		return options.Usage("%w", err)
	}
	return nil
}

func (s *limitsSet) run(ctx context.Context) error {
	if err := s.noteUnknown(ctx, []store.Scope{s.limit.Of}); err != nil {
		return err
	}
	outcome, err := s.tasks.SetLimit(ctx, s.pool, s.limit)
	return s.outcomes([]nameOutcome{{"name", s.limit.Name, outcome}}, err)
}

// limits completes the names of limits.
func (c *client) limits(ctx context.Context, prefix string) []string {
	return c.ask(ctx, prefix, func(ctx context.Context, db store.DB, config store.Config) ([]string, error) {
		found, err := store.New(config).Limits(ctx, db)
		return textsOf(found, func(one store.LimitState) string { return one.Name }), err
	})
}

func (p *program) limitsRemoveCommand() *cobra.Command {
	c := p.client()
	var names []string
	return p.BindArguments(&cobra.Command{
		Use:     "remove NAME…",
		Short:   "Removes limits",
		Long:    "Removes limits, all in one transaction. Outcomes: deleted, absent (there is no such limit).",
		Example: "  tasktable limits remove charges stripe",
	}, c.options(), options.Arguments{Name: "NAME", MinCount: 1, MaxCount: -1, Complete: c.limits,
		Set: func(given []string) error { names = given; return nil }},
		c.opened(func(ctx context.Context) error { return c.removeLimits(ctx, names) }))
}

func (c *client) removeLimits(ctx context.Context, names []string) error {
	return c.outcomes(together(ctx, c.pool, names, func(tx pgx.Tx, name string) (nameOutcome, error) {
		outcome, err := c.tasks.RemoveLimit(ctx, tx, name)
		return nameOutcome{"name", name, outcome}, err
	}))
}
