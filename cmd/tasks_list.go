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

const tasksListHelp = `Lists tasks, ordered by the time they are scheduled for, one page at a time. On stderr it prints
the command for the next page. It lists tasks that match all given filters. It reads the whole table, so it is for
people and reports. For a recurring task the table shows the next fire, but the order goes by its start time.

` + term.MomentHelp + `

With --output json it prints an array of objects, whose fields are the columns of the task. Null fields are left out.
Durations are in nanoseconds.`

const tasksListExample = `  tasktable tasks list --status FAILED --finished-from -1d
  tasktable tasks list --type SEND_EMAIL --message "connection refused"
  tasktable tasks list --scheduled-from "2026-11-21 18:00" --scheduled-to +1d --time-zone Europe/Berlin
  tasktable tasks list --spawned-by task-SEND_EVENT_REMINDER-42   # its follow-ups
  tasktable tasks list --parent nightly --desc --limit 10         # the last occurrences of a recurring task
  tasktable tasks list --entity event:42 --output json | jq -r '.[].id'
  tasktable tasks list --status COMPLETED --desc --limit 10   # the latest`

// tasksList is the command tasks list.
type tasksList struct {
	*client
	pager
	filter  taskFilter
	reverse bool // the option --desc or --asc
}

func (p *program) tasksListCommand() *cobra.Command {
	l := &tasksList{client: p.client(), filter: newTaskFilter(inspect.FilterFields())}
	opts := append(
		l.filter.options(l.client),
		l.pageOptions("how many tasks a page has", l.ids())...)
	opts = append(opts,
		options.Option{Flag: "desc", Set: options.Bool(&l.reverse), Usage: "lists the latest times first"})
	return p.Bind(&cobra.Command{
		Use:     "list",
		Short:   "Lists tasks by time",
		Long:    tasksListHelp,
		Example: tasksListExample,
	}, append(opts, l.options()...), l.opened(l.run, func() error { return l.filter.check(l.client) }))
}

func (l *tasksList) run(ctx context.Context) error {
	filter, err := l.filter.resolved(l.Clock)
	if err != nil {
		return err
	}
	filter.LatestFirst = l.reverse
	rows, next, err := l.page(ctx, filter)
	if err != nil {
		return err
	}
	t := term.NewTable("ID", "TYPE", "STATUS", "QUEUE", "SCHEDULED AT", "ATTEMPT", "MESSAGE")
	for _, row := range rows {
		attempt := fmt.Sprintf("%d/%d", row.Attempt, row.MaxAttempts)
		t.Add(row.ID, row.Type, row.Status, row.Queue, l.at(row), attempt, row.Message)
	}
	return l.listPage(filter, rows, t, noTask, next)
}

// noTask is what a command prints if its filter selects nothing.
const noTask = "No task matches."

// page reads a page of the tasks that the filter selects. The next page begins after the task next. If next is nil,
// there is no next page.
func (l *tasksList) page(ctx context.Context, filter inspect.Filter) (rows []store.Row, next *store.Row, err error) {
	if filter.After, err = l.place(ctx, l.client); err != nil {
		return nil, nil, err
	}
	if filter.Payload != "" {
		filter.Limit = l.limit
		found, err := l.inspector.Search(ctx, l.pool, filter)
		if found.Cut {
			l.Note("The search stopped, because it has read as many tasks as it reads at once. " +
				"The next page continues it.")
		}
		return found.Rows, found.After, err
	}
	filter.Limit = l.limit + 1 // one more row shows whether there is another page
	if rows, err = l.inspector.List(ctx, l.pool, filter); err != nil {
		return nil, nil, err
	}
	rows, more := onePage(rows, l.limit)
	if more {
		next = &rows[len(rows)-1]
	}
	return rows, next, nil
}

// listPage prints a page, and the command for the next page.
func (l *tasksList) listPage(
	filter inspect.Filter, rows []store.Row, t *term.Table, none string, next *store.Row,
) error {
	if err := l.List(rows, t, none); err != nil {
		return err
	}
	switch {
	case next == nil:
	case filter.Order == inspect.ByFinished:
		l.noteNext(l.client, *next.FinishedAt, next.ID)
	default:
		l.noteNext(l.client, next.ScheduledAt, next.ID)
	}
	return nil
}

// at returns the time of a task. For most tasks this is scheduled_at. The scheduled_at of a recurring task is its
// start, which would look overdue. So at returns its next fire once the leader has planned it, and "" if the task is
// paused.
func (l *tasksList) at(row store.Row) string {
	switch {
	case row.Cron != nil && row.Status == store.StatusPaused:
		return ""
	case row.Cron != nil && row.NextAttemptAt != nil && row.PlannedRevision != nil &&
		*row.PlannedRevision == row.Revision:
		return l.When(row.NextAttemptAt)
	}
	return l.When(&row.ScheduledAt)
}
