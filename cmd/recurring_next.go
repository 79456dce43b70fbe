package cmd

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/tasktable/tasktable/cmd/internal/options"
	"github.com/tasktable/tasktable/cmd/internal/term"
	"github.com/tasktable/tasktable/store"
	"github.com/tasktable/tasktable/store/inspect"
	"github.com/tasktable/tasktable/store/recurrence"
)

const recurringNextHelp = `Computes the next fires of a recurring task, in its own time zone and in that of --time-zone.
With --cron it computes the next fires of an expression. It needs the database only for calendars.

Behind an expression may stand options, as in "0 9 * * TUE every=2 from=2027-01-05 out-of=company move=next". --every,
--out-of, --keep-to and --move write them, and --every counts from the day of --from. It prints which fires the
calendars move or leave out, and by which day. --count does not count those that are left out.

For a task it prints whether a fire is overdue, which pauses hold it, whether and when the task ends, and its jitter.
Each occurrence is due later than its fire by up to the jitter. The command cannot know whether an occurrence will be
skipped because an earlier one has not ended. In an expression, @every counts from --from.

An expression has 5 fields (minute, hour, day of month, month, day of week), or 6 with the seconds first. It may also be
@hourly, @daily and so on, or "@every 90s". Days may also be L (the last day of the month), L-3, 15W (the weekday
nearest to the 15th), 5L (the last Friday) and FRI#2 (the second Friday). When the clocks change, an expression of fixed
times still fires once, and an expression with a wildcard in second, minute or hour fires at every real instant that
matches.

` + term.MomentHelp

const recurringNextExample = `  tasktable recurring next nightly
  tasktable recurring next nightly --count 3 --time-zone America/New_York --output json | jq -r '.fires[].at'
  tasktable recurring next nightly --from 2027-03-27    # when the clocks change, for example
  tasktable recurring next --cron "0 3 * * *" --cron-time-zone Europe/Berlin
  tasktable recurring next --cron "30 2 * * *" --cron-time-zone Europe/Berlin --from 2027-03-27   # summer time begins
  tasktable recurring next --cron "0 9 * * TUE" --every 2 --from 2027-01-05
  tasktable recurring next --cron "0 9 L * *" --keep-to workdays --move previous`

// recurringNext is the command recurring next.
type recurringNext struct {
	*client
	given    []string
	count    int
	cron     string
	cronZone string
	from     term.Moment
	days     dayOptions
	tenant   string
}

func (p *program) recurringNextCommand() *cobra.Command {
	n := &recurringNext{client: p.client()}
	opts := []options.Option{
		{Flag: "count", Kind: "number", Default: "10", Set: options.Int(&n.count, 1, 1000), Usage: "how many fires"},
		{Flag: "cron", Kind: "expression", Set: options.Text(&n.cron, recurrence.MaxExpressionBytes),
			Usage: "an expression instead of a task"},
		{Flag: "cron-time-zone", Kind: "zone", Set: options.Text(&n.cronZone, 64),
			Usage: "the time zone of the expression (default UTC)"},
		{Flag: "from", Kind: "time", Set: options.Moment(&n.from),
			Usage: "only fires after this time, which for a task is not in the past (default now)"},
	}
	opts = append(opts, n.days.options(n.client)...)
	opts = append(opts, options.Option{Flag: "tenant", Kind: "tenant", Set: options.Text(&n.tenant, store.MaxIDBytes),
		Usage: "with --cron: the calendars of this tenant come before the general ones"})
	return p.BindArguments(&cobra.Command{
		Use:     "next [ID]",
		Short:   "Computes when a recurring task, or a cron expression, fires next",
		Long:    recurringNextHelp,
		Example: recurringNextExample,
	}, append(opts, n.options()...), options.IDs(&n.given, 0, 1, n.recurringIDs), func(command *cobra.Command) error {
		switch {
		case n.cron != "" && len(n.given) > 0:
			return options.Usage("%q takes an ID or --cron, not both", command.CommandPath())
		case n.cron != "":
			return n.ofExpression(command)
		case len(n.given) == 0:
			return options.Usage("%q needs the ID of a task, or --cron", command.CommandPath())
		case n.cronZone != "" || !n.days.IsZero() || n.tenant != "":
			return options.Usage("--cron is missing: --cron-time-zone, --every, --out-of, --keep-to, --move and " +
				"--tenant are for an expression")
		}
		return n.opened(n.ofTask, n.check)(command)
	})
}

// check reports a wrong --from before the database is opened and its time is known.
func (n *recurringNext) check() error {
	_, err := options.Instant(n.printing.clock(), "from", n.from)
	return err
}

// recurringIDs completes the ids of recurring tasks. It lists all of them, because there is no query for a prefix.
func (c *client) recurringIDs(ctx context.Context, prefix string) []string {
	return c.ask(ctx, prefix, func(ctx context.Context, db store.DB, config store.Config) ([]string, error) {
		all, err := inspect.New(config).ListRecurring(ctx, db, inspect.RecurringFilter{Limit: 10000})
		var found []string
		for _, task := range all {
			if strings.HasPrefix(task.ID, prefix) && len(found) < completeMost {
				found = append(found, task.ID+"\t"+task.Cron+", "+string(task.Status))
			}
		}
		return found, err
	})
}

// expressionFires is the output for an expression.
type expressionFires struct {
	Cron        string            `json:"cron"`
	TimeZone    string            `json:"time_zone"`
	From        time.Time         `json:"from"`
	Fires       []inspect.Fire    `json:"fires"`
	LeftOut     []inspect.LeftOut `json:"left_out,omitempty"`
	LeftOutMore bool              `json:"left_out_more,omitempty"`
	Ended       string            `json:"ended,omitempty"`
}

// ofExpression needs the database only for the days of calendars. So now may be this machine's.
func (n *recurringNext) ofExpression(command *cobra.Command) error {
	ctx, now := command.Context(), n.now
	if now.IsZero() {
		now = time.Now()
	}
	n.Printer = n.printing.printer(ctx, n.program, now)
	from, err := options.Instant(n.Clock, "from", n.from)
	if err != nil {
		return err
	}
	if from.IsZero() {
		from = now
	}
	if n.cron, err = n.days.of(n.cron, recurrence.DateOf(from.In(n.Zone))); err != nil {
		return err
	}
	rule, err := recurrence.Parse(n.cron, n.cronZone)
	if err != nil {
		return options.Usage("%w", err)
	}
	if len(rule.Calendars()) == 0 {
		return n.printExpression(rule, from)
	}
	return n.opened(func(ctx context.Context) error {
		rule, err := n.bound(ctx, rule, n.tenant)
		if err != nil {
			return err
		}
		return n.printExpression(rule, from)
	})(command)
}

func (n *recurringNext) printExpression(rule *recurrence.Rule, from time.Time) error {
	rule = rule.Anchored(from)
	shown := expressionFires{Cron: n.cron, TimeZone: n.cronZone, From: from, Fires: []inspect.Fire{}}
	if shown.TimeZone == "" {
		shown.TimeZone = "UTC"
	}
	for at := rule.Next(from); len(shown.Fires) < n.count; at = rule.Next(at) {
		if at.IsZero() {
			if shown.Ended = "the expression has no further fire"; rule.HasCalendars() {
				shown.Ended = "the calendars leave no further fire within 20 years"
			}
			break
		}
		shown.Fires = append(shown.Fires, inspect.Fire{At: at})
	}
	shown.LeftOut, shown.LeftOutMore = inspect.ExplainFires(rule, from, shown.Fires)
	return n.print(shown, inspect.Forecast{Fires: shown.Fires, LeftOut: shown.LeftOut,
		LeftOutMore: shown.LeftOutMore, Ended: shown.Ended}, shown.TimeZone)
}

func (n *recurringNext) ofTask(ctx context.Context) error {
	from, err := options.Instant(n.Clock, "from", n.from)
	if err != nil {
		return err
	}
	if !from.IsZero() && from.Before(n.Now) {
		return options.Usage("--from must not be in the past for a task")
	}
	task, err := n.inspector.GetRecurring(ctx, n.pool, n.given[0])
	if errors.Is(err, store.ErrNotFound) {
		return n.unknown(ctx, err)
	}
	if err != nil {
		return err
	}
	pauses, err := n.tasks.Pauses(ctx, n.pool)
	if err != nil {
		return err
	}
	forecast, err := task.ForecastAfter(from, n.Now, pauses, n.count)
	if err != nil {
		return err
	}
	if err := n.print(forecast, forecast, task.TimeZone); err != nil || n.JSON {
		return err
	}
	if forecast.ZoneDataDiffer {
		n.Note("The leader planned the first fire with other time zone data than this machine's: bring both up to " +
			"date.")
	}
	if task.Jitter != nil && len(forecast.Fires) > 0 {
		n.Note("Each occurrence is due up to %s later, its jitter.", term.Took(*task.Jitter))
	}
	if task.Status == store.StatusPaused && task.PausedUntil == nil {
		n.Note("The task is paused until somebody resumes it.")
	}
	return nil
}

// unknown is the error of an id that no recurring task has.
func (n *recurringNext) unknown(ctx context.Context, missing error) error {
	all, err := n.inspector.ListRecurring(ctx, n.pool, inspect.RecurringFilter{Limit: 10000})
	if err != nil {
		return missing
	}
	ids := textsOf(all, func(task inspect.RecurringTask) string { return task.ID })
	if like := term.Nearest(n.given[0], ids); like != "" {
		return fmt.Errorf("%w%s", missing, options.DidYouMean("", term.Printable(like)))
	}
	return fmt.Errorf("%w that recurs: tasktable recurring list shows those there are", missing)
}

// print prints each fire in its own zone, and also in the zone of --time-zone if that shows another time.
func (n *recurringNext) print(thing any, of inspect.Forecast, zoneName string) error {
	if n.JSON {
		return n.Document(thing)
	}
	zone, err := time.LoadLocation(zoneName)
	if err != nil {
		zone = time.UTC // the expression was parsed with that zone, so it is right, but this machine may not have it
	}
	own := term.Clock{Now: n.Now, Zone: zone}
	lines := fireLines(of, own)
	here := "IN " + n.zoneName()
	t := term.NewTable("FIRES AT ("+zone.String()+")", here, "FROM NOW", "NOTE")
	apart := false
	for _, one := range lines {
		t.Add(own.Weekday(one.at), n.Weekday(one.at), n.Relative(one.at), one.note)
		apart = apart || own.Weekday(one.at) != n.Weekday(one.at)
	}
	if !apart {
		t.Drop(here)
	}
	none := "There is no coming fire"
	if of.Ended != "" {
		none += ": " + of.Ended
	}
	if err := n.List(lines, t, none+"."); err != nil {
		return err
	}
	if of.LeftOutMore {
		n.Note("More days are left out than these.")
	}
	if of.Ended != "" && len(lines) > 0 {
		n.Note("Then there are no more: %s.", of.Ended)
	}
	return nil
}

// zoneName returns the name of the zone of --time-zone. Go calls the zone of this machine Local. For that zone it
// returns UTC, or a text.
func (n *recurringNext) zoneName() string {
	if name := n.Zone.String(); name != "Local" {
		return name
	}
	if name, offset := n.Clock.Now.In(n.Zone).Zone(); offset == 0 {
		return name
	}
	return "THIS MACHINE'S ZONE"
}

// fireLine is a fire, or a day whose fires are left out.
type fireLine struct {
	at   time.Time
	note term.Cell
}

// fireLines returns the lines in the order of their times.
func fireLines(of inspect.Forecast, own term.Clock) []fireLine {
	var lines []fireLine
	for _, fire := range of.Fires {
		lines = append(lines, fireLine{fire.At, fireNote(fire, own)})
	}
	for _, day := range of.LeftOut {
		lines = append(lines, fireLine{day.At, term.Cell{Text: "left out: " + day.Why, Color: term.Faint}})
	}
	slices.SortStableFunc(lines, func(a, b fireLine) int { return a.at.Compare(b.at) })
	return lines
}

func fireNote(fire inspect.Fire, own term.Clock) term.Cell {
	var notes []string
	if fire.MovedFrom != nil {
		notes = append(notes, "moved from "+own.Weekday(*fire.MovedFrom)+": "+fire.Why)
	}
	if fire.Overdue {
		notes = append(notes, "overdue")
	}
	return term.Cell{Text: strings.Join(append(notes, fire.Holds()...), ", "), Color: term.Yellow}
}
