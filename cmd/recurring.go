package cmd

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/tasktable/tasktable/cmd/internal/options"
	"github.com/tasktable/tasktable/cmd/internal/term"
	"github.com/tasktable/tasktable/store"
	"github.com/tasktable/tasktable/store/inspect"
)

func (p *program) recurringCommand() *cobra.Command {
	return group(&cobra.Command{
		Use:   "recurring",
		Short: "Lists recurring tasks, and computes when they fire next",
		Long: `A recurring task never runs itself. Each fire of its cron expression makes an occurrence, which is a task
of its own. To list the occurrences of a task, and to pause, resume, run or cancel recurring tasks and occurrences, use
tasktable tasks, as for any task.`,
		Example: `  tasktable recurring list
  tasktable recurring next nightly --count 5
  tasktable recurring next --cron "0 3 * * *" --cron-time-zone Europe/Berlin
  tasktable tasks list --parent nightly --desc   # the occurrences, the latest first`,
	}, p.recurringListCommand(), p.recurringNextCommand())
}

const recurringListHelp = `Lists recurring tasks, ordered by id, one page at a time. On stderr it prints the command for
the next page. Paused and ended tasks are in the list. The word "paused" after the status means that everything, the
queue or the type is paused. CATCH UP has two policies: for fires missed while no node was running, and for fires
missed during a pause. It reads the whole table, so it is for people and reports.

HEALTH is ok; failing, if the last occurrence that ended FAILED or EXPIRED, with the number of these since the last
success; overdue, if two fires have passed since the last success, and their occurrences have had their expected time;
new, if no occurrence has ended; paused; or ended.

With --output json it prints an array of the table's rows, with more fields. Null fields are left out. Durations are in
nanoseconds.`

// recurringList is the command recurring list.
type recurringList struct {
	*client
	filter inspect.RecurringFilter
	fields taskFilter
}

func (p *program) recurringListCommand() *cobra.Command {
	l := &recurringList{client: p.client(),
		fields: newTaskFilter(fieldsNamed("type", "status", "queue", "entity", "tenant"))}
	f := &l.filter
	opts := append(l.fields.options(l.client), []options.Option{
		{Flag: "declared-by", Kind: "service", Set: options.Text(&f.DeclaredBy, store.MaxIDBytes),
			Usage: "only those that are declared in the code of this service"},
		{Flag: "limit", Kind: "number", Default: "100", Set: options.Int(&f.Limit, 1, 5000),
			Usage: "how many tasks a page has"},
		{Flag: "after", Kind: "id", Set: options.Text(&f.After, store.MaxIDBytes),
			Usage: "the next page: the id of the last task of the page before"},
	}...)
	return p.Bind(&cobra.Command{
		Use:   "list",
		Short: "Lists recurring tasks with their last and next fires",
		Long:  recurringListHelp,
		Example: `  tasktable recurring list --status PAUSED
  tasktable recurring list --declared-by events-api --output json | jq -r '.[] | [.id, .next_fire] | @tsv'`,
	}, append(opts, l.options()...), l.opened(l.run, l.check))
}

func (l *recurringList) check() error {
	fields, err := l.fields.resolved(l.printing.clock())
	if len(fields.Statuses) > 1 {
		return options.Usage("--status must be one status")
	}
	l.filter.Type, l.filter.Queue, l.filter.Entity, l.filter.TenantID = fields.Type, fields.Queue, fields.Entity,
		fields.TenantID
	if len(fields.Statuses) == 1 {
		l.filter.Status = fields.Statuses[0]
	}
	return err
}

func (l *recurringList) run(ctx context.Context) error {
	filter := l.filter
	filter.Limit++ // one more row shows whether there is another page
	tasks, err := l.inspector.ListRecurring(ctx, l.pool, filter)
	if err != nil {
		return err
	}
	tasks, more := onePage(tasks, l.filter.Limit)
	t := term.NewTable("ID", "TYPE", "CRON", "ZONE", "STATUS", "HEALTH", "LAST SUCCESS", "LAST FIRE", "NEXT FIRE",
		"OVERLAP", "CATCH UP", "DECLARED BY", "MESSAGE")
	for _, task := range tasks {
		t.Add(task.ID, task.Type, task.Cron, task.TimeZone, recurringStatus(task), recurringHealth(task),
			l.When(task.LastSuccess), l.When(task.LastFire), l.nextFire(task),
			task.Overlap, string(task.CatchUp)+", "+string(task.CatchUpPaused), task.DeclaredBy, task.Message)
	}
	if err := l.List(tasks, t, "There is no such recurring task."); err != nil {
		return err
	}
	if more {
		l.Note("There are more: %s", options.CommandLine(l.command, "after", tasks[len(tasks)-1].ID))
	}
	return nil
}

func recurringStatus(task inspect.RecurringTask) term.Cell {
	status := term.Painted(string(task.Status))
	if task.IsPaused && task.Status == store.StatusQueued {
		status = term.Cell{Text: status.Text + ", paused", Color: term.Yellow}
	}
	return status
}

// recurringHealth is the verdict, with the failures since the last success.
func recurringHealth(task inspect.RecurringTask) term.Cell {
	health := term.Cell{Text: string(task.Health)}
	if task.FailuresInARow > 0 {
		health.Text += fmt.Sprintf(", %d failed", task.FailuresInARow)
	}
	switch task.Health {
	case inspect.HealthOK:
		health.Color = term.Green
	case inspect.HealthFailing, inspect.HealthOverdue:
		health.Color = term.Red
	case inspect.HealthPaused:
		health.Color = term.Yellow
	case inspect.HealthNew, inspect.HealthEnded:
	}
	return health
}

// nextFire is the next fire, or the reason that there is none. A task that waits has one as soon as the leader has
// planned it.
func (l *recurringList) nextFire(task inspect.RecurringTask) string {
	switch {
	case task.NextFire != nil:
		return l.When(task.NextFire)
	case task.Status == store.StatusPaused && task.PausedUntil != nil:
		return "after " + l.When(task.PausedUntil)
	case task.Status == store.StatusQueued:
		return "to be planned"
	}
	return ""
}
