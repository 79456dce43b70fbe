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

const tasksListHelp = `Lists tasks by the time they are scheduled for, a page at a time: what it takes to go on with the next page
is said on stderr. All filters that are given must hold. It reads the table through, so it is for people and reports.
Of a recurring task the table shows the next fire, though its place is that of the time it began at.

` + term.MomentHelp + `

With --output json it is an array of the table's rows, named as its columns; what is null is left out, and durations
are in nanoseconds.`

const tasksListExample = `  tasktable tasks list --status FAILED --finished-from -1d
  tasktable tasks list --type SEND_EMAIL --message "connection refused"
  tasktable tasks list --scheduled-from "2026-11-21 18:00" --scheduled-to +1d --time-zone Europe/Berlin
  tasktable tasks list --spawned-by task-SEND_EVENT_REMINDER-42   # its follow-ups
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
	l := &tasksList{client: p.client()}
	opts := append(
		l.filter.options(l.client, store.Statuses(), "only tasks in this status; several separated by commas"),
		l.pageOptions("how many tasks a page has", l.ids())...)
	opts = append(opts, options.Option{Flag: "desc", Set: options.Bool(&l.reverse), Usage: "those with the latest times first"})
	return p.Bind(&cobra.Command{
		Use:     "list",
		Short:   "Lists tasks by time",
		Long:    tasksListHelp,
		Example: tasksListExample,
	}, append(opts, l.options()...), func(command *cobra.Command) error {
		l.command = command
		return l.opened(l.run, func() error { return l.filter.check(l.client) })(command)
	})
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
	return l.listPage(rows, t, noTask, next)
}

// noTask is what a command prints if its filter selects nothing.
const noTask = "No task matches."

// page reads a page of the filter's tasks. The next page begins after the task next; nil: there is none.
func (l *tasksList) page(ctx context.Context, filter inspect.Filter) (rows []store.Row, next *store.Row, err error) {
	if filter.After, err = l.place(ctx, l.client); err != nil {
		return nil, nil, err
	}
	filter.Limit = l.limit + 1 // one more says whether there is another page
	if rows, err = l.inspector.List(ctx, l.pool, filter); err != nil {
		return nil, nil, err
	}
	rows, more := onePage(rows, l.limit)
	if more {
		next = &rows[len(rows)-1]
	}
	return rows, next, nil
}

// listPage prints a page, and how the list goes on.
func (l *tasksList) listPage(rows []store.Row, t *term.Table, none string, next *store.Row) error {
	if err := l.List(rows, t, none); err != nil {
		return err
	}
	switch {
	case next == nil:
	case l.filter.filter.Order == inspect.ByFinished:
		l.noteNext(l.client, *next.FinishedAt, next.ID)
	default:
		l.noteNext(l.client, next.ScheduledAt, next.ID)
	}
	return nil
}

// at is when a task is scheduled for. A recurring one is scheduled for when it began, which would read as overdue: of
// such a one it is the next fire, as soon as that is planned; "": it is paused.
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
