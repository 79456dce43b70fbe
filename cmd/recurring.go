package cmd

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/tasktable/tasktable/store"
)

func (p *program) recurringCommand() *cobra.Command {
	recurring := &cobra.Command{
		Use:   "recurring",
		Short: "Lists recurring tasks, and computes when they fire next",
		Long: `A recurring task never runs itself: each fire of its cron expression makes an occurrence, a task of its own. They are
paused, resumed, run now and cancelled as any task: tasktable tasks.`,
		Example: `  tasktable recurring list
  tasktable recurring next nightly --count 5
  tasktable recurring next --cron "0 3 * * *" --cron-time-zone Europe/Berlin`,
		Args: noArguments,
		RunE: func(command *cobra.Command, _ []string) error { return command.Help() },
	}
	recurring.AddCommand(p.recurringListCommand(), p.recurringNextCommand())
	return recurring
}

const recurringListHelp = `Lists recurring tasks by their ids, also those that are paused or have ended, a page at a time: what it takes to go on
with the next page is said on stderr. Behind the status stands whether everything, its queue or its type is paused.
CATCH UP is what becomes of fires missed while no node was there, and of those missed while paused. It reads the table
through, so it is for people and reports.

With --output json it is an array of the table's rows, with more fields; what is null is left out, and durations are in
nanoseconds.`

// recurringList is the command recurring list.
type recurringList struct {
	*client
	filter   store.RecurringFilter
	statuses []store.Status
	command  *cobra.Command
}

func (p *program) recurringListCommand() *cobra.Command {
	l := &recurringList{client: p.client()}
	f := &l.filter
	options := []option{
		{flag: "type", value: "type", set: taskType(&f.Type), complete: l.types, usage: "only those of this type"},
		{flag: "status", value: "status", set: statusesOf(&l.statuses), complete: words(statuses()...), usage: "only those in this status"},
		{flag: "queue", value: "name", set: queueName(&f.Queue), complete: l.queues, usage: "only those in this queue"},
		{flag: "entity", value: "entity", set: text(&f.Entity, store.MaxIDBytes), usage: "only those of this entity, as member:42"},
		{flag: "tenant", value: "tenant", set: text(&f.TenantID, store.MaxIDBytes), usage: "only those of this tenant"},
		{flag: "declared-by", value: "service", set: text(&f.DeclaredBy, store.MaxIDBytes),
			usage: "only those that are declared in the code of this service"},
		{flag: "limit", value: "number", fallback: "100", set: whole(&f.Limit, 1, 5000), usage: "how many tasks a page has"},
		{flag: "after", value: "id", set: text(&f.After, store.MaxIDBytes), usage: "the next page: the id of the last task of the page before"},
	}
	return p.bind(&cobra.Command{
		Use:   "list",
		Short: "Lists recurring tasks with their last and next fires",
		Long:  recurringListHelp,
		Example: `  tasktable recurring list --status PAUSED
  tasktable recurring list --declared-by events-api --output json | jq -r '.[] | [.id, .next_fire] | @tsv'`,
	}, append(options, l.options()...), func(command *cobra.Command) error {
		l.command = command
		return l.opened(l.run, l.check)(command)
	})
}

func (l *recurringList) check() error {
	switch len(l.statuses) {
	case 0:
		return nil
	case 1:
		l.filter.Status = l.statuses[0]
		return nil
	}
	return usage("--status must be one status")
}

func (l *recurringList) run(ctx context.Context) error {
	filter := l.filter
	filter.Limit++ // one more says whether there is another page
	tasks, err := l.tasks.ListRecurring(ctx, l.pool, filter)
	if err != nil {
		return err
	}
	tasks, more := onePage(tasks, l.filter.Limit)
	t := newTable("ID", "TYPE", "CRON", "ZONE", "STATUS", "LAST FIRE", "NEXT FIRE", "OVERLAP", "CATCH UP", "DECLARED BY", "MESSAGE")
	for _, task := range tasks {
		t.add(task.ID, task.Type, task.Cron, task.TimeZone, recurringStatus(task), l.when(task.LastFire), l.nextFire(task),
			task.Overlap, string(task.CatchUp)+", "+string(task.CatchUpPaused), task.DeclaredBy, task.Message)
	}
	if err := l.list(tasks, t, "There is no such recurring task."); err != nil {
		return err
	}
	if more {
		l.note("There are more: %s", again(l.command, tasks[len(tasks)-1].ID))
	}
	return nil
}

func recurringStatus(task store.RecurringTask) cell {
	status := painted(string(task.Status))
	if task.IsPaused && task.Status == store.StatusQueued {
		status = cell{text: status.text + ", paused", color: yellow}
	}
	return status
}

// nextFire says also why there is none: a task that waits has one as soon as the leader has planned it.
func (l *recurringList) nextFire(task store.RecurringTask) string {
	switch {
	case task.NextFire != nil:
		return l.when(task.NextFire)
	case task.Status == store.StatusPaused && task.PausedUntil != nil:
		return "after " + l.when(task.PausedUntil)
	case task.Status == store.StatusQueued:
		return "to be planned"
	}
	return ""
}
