package cmd

import (
	"context"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/tasktable/tasktable/cmd/internal/options"
	"github.com/tasktable/tasktable/cmd/internal/term"
	"github.com/tasktable/tasktable/store"
	"github.com/tasktable/tasktable/store/recurrence"
)

const calendarsHelp = `A calendar is a set of days, such as holidays. The rule of a recurring task names calendars. It
keeps out of their days, or keeps to them. When the days change, the leader plans the fires anew within seconds.

A general calendar is for the tasks of all tenants. With --tenant it is for the tasks of one tenant. For these it hides
the general calendar of the same name.`

func (p *program) calendarsCommand() *cobra.Command {
	return group(&cobra.Command{
		Use:   "calendars",
		Short: "Lists and changes calendars: the days on which recurring tasks do not fire, or alone fire",
		Long:  calendarsHelp,
		Example: `  tasktable calendars add company 2027-12-24..2027-12-31 --note closed
  tasktable calendars import holidays-de germany.ics
  tasktable calendars list
  tasktable recurring next --cron "0 9 * * *" --out-of company --from 2027-12-23`,
	}, p.calendarsListCommand(), p.calendarsShowCommand(), p.calendarsAddCommand(),
		p.calendarsRemoveCommand(), p.calendarsImportCommand())
}

// calendarsCommand is what each of these commands has.
type calendarsCommand struct {
	*client
	tenant  string
	name    string
	days    []recurrence.Span
	note    string
	file    string
	replace bool
}

// bind adds the options that each command has, and the store of the tenant.
func (c *calendarsCommand) bind(
	command *cobra.Command, takes options.Arguments, run func(context.Context, *store.Store) error,
	opts ...options.Option,
) *cobra.Command {
	opts = append(opts, options.Option{Flag: "tenant", Kind: "tenant", Set: options.Text(&c.tenant, store.MaxIDBytes),
		Usage: "the tenant for whose tasks the calendar is (default the tasks of all)"})
	return c.BindArguments(command, append(opts, c.options()...), takes, c.opened(func(ctx context.Context) error {
		return run(ctx, c.tasks.ForTenant(c.tenant))
	}))
}

// calendars completes the names of calendars.
func (c *client) calendars(ctx context.Context, prefix string) []string {
	return c.ask(ctx, prefix, func(ctx context.Context, db store.DB, config store.Config) ([]string, error) {
		found, err := store.New(config).Calendars(ctx, db)
		return append(textsOf(found, func(one store.Calendar) string { return one.Name }), "workdays"), err
	})
}

// named takes the name of a calendar. more takes what stands behind the name.
func (c *calendarsCommand) named(argument string, more func(given []string) error) options.Arguments {
	return options.Arguments{Name: argument, MinCount: 1, MaxCount: -1, Complete: c.calendars,
		Set: func(given []string) error {
			if c.name = given[0]; !recurrence.IsCalendarName(c.name) {
				return options.Usage("the name of a calendar must be a-z, then at most 62 of a-z, 0-9, _ or -, and " +
					"not workdays, which is built in")
			}
			return more(given[1:])
		}}
}

// readDays reads the days behind the name.
func (c *calendarsCommand) readDays(given []string) error {
	for _, text := range given {
		span, err := recurrence.ParseSpan(text)
		if err != nil {
			return options.Usage("%w", err)
		}
		c.days = append(c.days, span)
	}
	return nil
}

func (p *program) calendarsListCommand() *cobra.Command {
	c := &calendarsCommand{client: p.client()}
	return c.bind(&cobra.Command{
		Use:   "list",
		Short: "Lists calendars, and how many tasks use them",
		Long: `Lists the calendars, sorted by name. SPANS is how many days and spans of days they have. LAST DAY is the
last of them. TASKS is how many tasks that have not ended use the calendar. With --tenant it lists the calendars of the
tenant, and the general ones.`,
		Example: `  tasktable calendars list
  tasktable calendars list --output json | jq -r '.[] | select(.tasks == 0) | .name'   # nobody uses these`,
	}, options.Arguments{}, func(ctx context.Context, tasks *store.Store) error {
		found, err := tasks.Calendars(ctx, c.pool)
		if err != nil {
			return err
		}
		t := term.NewTable("NAME", "TENANT", "SPANS", "LAST DAY", "TASKS", "CHANGED AT", "CHANGED BY")
		for _, one := range found {
			t.Add(one.Name, one.TenantID, len(one.Days), lastDay(one.Days), one.Tasks, c.When(&one.ChangedAt),
				one.ChangedBy)
		}
		return c.List(found, t, "There is no calendar.")
	})
}

func lastDay(days []recurrence.Span) (last string) {
	for _, span := range days {
		last = max(last, span.To.String())
	}
	return last
}

func (p *program) calendarsShowCommand() *cobra.Command {
	c := &calendarsCommand{client: p.client()}
	return c.bind(&cobra.Command{
		Use:     "show NAME",
		Short:   "Shows the days of a calendar",
		Long:    "Shows the days of a calendar. With --tenant it is the tenant's, or else the general one.",
		Example: "  tasktable calendars show company",
	}, c.named("NAME", func(more []string) error {
		if len(more) > 0 {
			return options.Usage("this command takes no more than one NAME")
		}
		return nil
	}), func(ctx context.Context, tasks *store.Store) error {
		calendar, err := tasks.Calendar(ctx, c.pool, c.name)
		if err != nil {
			return err
		}
		t := term.NewTable("DAYS", "NOTE")
		for _, span := range calendar.Days {
			t.Add(span.String(), span.Note)
		}
		if c.JSON {
			return c.Document(calendar)
		}
		return c.List(calendar.Days, t, "The calendar has no days.")
	})
}

func (p *program) calendarsAddCommand() *cobra.Command {
	c := &calendarsCommand{client: p.client()}
	return c.bind(&cobra.Command{
		Use:   "add NAME DATES…",
		Short: "Adds days to a calendar, and makes it if it is absent",
		Long: `Adds days to a calendar, and makes it if it is absent. DATES is a day, such as 2027-12-24, or the first
and the last of several days, such as 2027-12-24..2027-12-31. Outcomes: created, changed, unchanged.`,
		Example: `  tasktable calendars add company 2027-12-24..2027-12-31 --note closed
  tasktable calendars add company 2027-05-14 2028-05-26 --note "bridge day"`,
	}, c.named("NAME and DATES", func(given []string) error {
		if len(given) == 0 {
			return options.Usage("DATES are missing, such as 2027-12-24 or 2027-12-24..2027-12-31")
		}
		return c.readDays(given)
	}), func(ctx context.Context, tasks *store.Store) error {
		for i := range c.days {
			c.days[i].Note = c.note
		}
		return c.done(tasks.AddDays(ctx, c.pool, c.name, c.days...))
	}, options.Option{Flag: "note", Kind: "text", Set: options.Text(&c.note, 4*recurrence.MaxNote),
		Usage: "what the days are, such as Christmas"})
}

func (p *program) calendarsRemoveCommand() *cobra.Command {
	c := &calendarsCommand{client: p.client()}
	return c.bind(&cobra.Command{
		Use:   "remove NAME [DATES…]",
		Short: "Removes days from a calendar, or the whole calendar",
		Long: `Removes days from a calendar. Without DATES it removes the calendar. A calendar that a task uses is not
removed, unless there is a general one of the same name. Outcomes: changed, deleted, unchanged, absent.`,
		Example: `  tasktable calendars remove company 2027-12-31
  tasktable calendars remove company`,
	}, c.named("NAME", c.readDays), func(ctx context.Context, tasks *store.Store) error {
		if len(c.days) > 0 {
			return c.done(tasks.RemoveDays(ctx, c.pool, c.name, c.days...))
		}
		return c.done(tasks.RemoveCalendar(ctx, c.pool, c.name))
	})
}

const calendarsImportHelp = `Adds the days of a file to a calendar, and makes it if it is absent. A file that ends in
.ics is an iCalendar file, whose events are the days. Any other is CSV: the first day, and perhaps the last day and a
note, as in 2027-12-24,2027-12-31,closed. Events that repeat each year are read up to the year 2100, and other rules
are refused.

With --replace the calendar has only the days of the file then. Outcomes: created, changed, unchanged.`

func (p *program) calendarsImportCommand() *cobra.Command {
	c := &calendarsCommand{client: p.client()}
	return c.bind(&cobra.Command{
		Use:   "import NAME FILE",
		Short: "Adds the days of an iCalendar or CSV file to a calendar",
		Long:  calendarsImportHelp,
		Example: `  tasktable calendars import holidays-de germany.ics
  tasktable calendars import company closing-days.csv --replace`,
	}, c.named("NAME and FILE", func(given []string) error {
		if len(given) != 1 {
			return options.Usage("this command takes one NAME and one FILE")
		}
		c.file = given[0]
		return nil
	}), func(ctx context.Context, tasks *store.Store) error {
		days, err := c.read()
		if err != nil {
			return err
		}
		if c.replace {
			return c.done(tasks.SetCalendar(ctx, c.pool, store.Calendar{Name: c.name, Days: days}))
		}
		return c.done(tasks.AddDays(ctx, c.pool, c.name, days...))
	}, options.Option{Flag: "replace", Set: options.Bool(&c.replace), Usage: "first remove all days that it has"})
}

// read reads the days of the file.
func (c *calendarsCommand) read() ([]recurrence.Span, error) {
	file, err := os.Open(c.file)
	if err != nil {
		return nil, options.Usage("%w", err)
	}
	defer func() { _ = file.Close() }()
	reads := recurrence.ReadCSV
	if strings.EqualFold(filepath.Ext(c.file), ".ics") {
		reads = recurrence.ReadICS
	}
	days, err := reads(io.Reader(file))
	if err != nil {
		return nil, options.Usage("%s: %w", c.file, err)
	}
	return days, nil
}

// done prints the outcome for the calendar.
func (c *calendarsCommand) done(outcome store.Outcome, err error) error {
	return c.outcomes([]nameOutcome{{"name", c.name, outcome}}, err)
}
