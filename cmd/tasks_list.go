package cmd

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/tasktable/tasktable/cmd/internal/options"
	"github.com/tasktable/tasktable/cmd/internal/term"
	"github.com/tasktable/tasktable/store"
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
	filter taskFilter
	desc   bool
}

func (p *program) tasksListCommand() *cobra.Command {
	l := &tasksList{client: p.client()}
	opts := append(l.filter.options(l.client, "only tasks in this status; several separated by commas"),
		l.pageOptions("how many tasks a page has", l.ids())...)
	opts = append(opts, options.Option{Flag: "desc", Set: options.Bool(&l.desc), Usage: "those with the latest times first"})
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
	filter.Limit, filter.LatestFirst = l.limit+1, l.desc // one more says whether there is another page
	if filter.After, err = l.place(ctx, l.client); err != nil {
		return err
	}
	rows, err := l.tasks.List(ctx, l.pool, filter)
	if err != nil {
		return err
	}
	rows, more := onePage(rows, l.limit)
	t := term.NewTable("ID", "TYPE", "STATUS", "QUEUE", "SCHEDULED AT", "ATTEMPT", "MESSAGE")
	for _, row := range rows {
		t.Add(row.ID, row.Type, row.Status, row.Queue, l.at(row), fmt.Sprintf("%d/%d", row.Attempt, row.MaxAttempts), row.Message)
	}
	if err := l.List(rows, t, "No task matches."); err != nil {
		return err
	}
	if more {
		last := rows[len(rows)-1]
		l.noteNext(l.client, last.ScheduledAt, last.ID)
	}
	return nil
}

// at is when a task is scheduled for. A recurring one is scheduled for when it began, which would read as overdue: of such a one it is the
// next fire, as soon as that is planned; "": it is paused.
func (l *tasksList) at(row store.Row) string {
	switch {
	case row.Cron != nil && row.Status == store.StatusPaused:
		return ""
	case row.Cron != nil && row.NextAttemptAt != nil && row.PlannedRevision != nil && *row.PlannedRevision == row.Revision:
		return l.When(row.NextAttemptAt)
	}
	return l.When(&row.ScheduledAt)
}
