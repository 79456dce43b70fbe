package cmd

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/tasktable/tasktable/store"
)

const deadListHelp = `Lists dead letters, the latest first, a page at a time: what it takes to go on with the next page is said on stderr.
All filters that are given must hold. With --group it counts them instead, by type, status and how their last errors
begin. It reads the table through, so it is for people and reports.

` + momentHelp + `

With --output json it is an array: of the table's rows, named as its columns, or of groups. What is null is left out,
and durations are in nanoseconds.`

const deadListExample = `  tasktable dead list
  tasktable dead list --group --finished-from -1d     # what went wrong since yesterday?
  tasktable dead list --type SEND_EMAIL --message 421 --output json | jq -r '.[].id'
  tasktable dead list --archived --limit 10`

// deadList is the command dead list.
type deadList struct {
	*client
	pager
	filter deadFilter
	asc    bool
	group  bool
}

func (p *program) deadListCommand() *cobra.Command {
	l := &deadList{client: p.client()}
	options := append(l.filter.options(l.client), l.filter.archivedOption(),
		option{flag: "group", set: toggle(&l.group), usage: "counts them by type, status and the beginning of the last error, the most frequent first"})
	options = append(options, l.pageOptions("how many dead letters a page has, or how many groups are shown",
		l.ids(store.StatusFailed, store.StatusExpired))...)
	options = append(options, option{flag: "asc", set: toggle(&l.asc), usage: "the oldest first"})
	return p.bind(&cobra.Command{
		Use:     "list",
		Short:   "Lists dead letters, or counts them by what went wrong",
		Long:    deadListHelp,
		Example: deadListExample,
	}, append(options, l.options()...), func(command *cobra.Command) error {
		l.command = command
		return l.opened(l.run, l.check)(command)
	})
}

func (l *deadList) check() error {
	if l.group && (l.after != "" || l.asc) {
		return usage("--after and --asc are for lists, not for --group")
	}
	return l.filter.check(l.client)
}

func (l *deadList) run(ctx context.Context) error {
	filter, err := l.filter.resolved(l.clock)
	if err != nil {
		return err
	}
	filter.LatestFirst, filter.Limit = !l.asc, l.limit+1 // one more says whether there is another page
	if l.group {
		return l.groups(ctx, filter)
	}
	if filter.After, err = l.place(ctx, l.client); err != nil {
		return err
	}
	rows, err := l.tasks.DeadLetters(ctx, l.pool, filter)
	if err != nil {
		return err
	}
	rows, more := onePage(rows, l.limit)
	if err := l.list(rows, l.table(rows), l.filter.none()); err != nil {
		return err
	}
	if more {
		last := rows[len(rows)-1]
		l.noteNext(l.client, *last.FinishedAt, last.ID)
	}
	return nil
}

func (l *deadList) table(rows []store.Row) *table {
	if l.filter.filter.Archived {
		t := newTable("ID", "TYPE", "STATUS", "FINISHED AT", "ARCHIVED AT", "NOTE", "MESSAGE")
		for _, row := range rows {
			t.add(row.ID, row.Type, row.Status, l.when(row.FinishedAt), l.when(row.ArchivedAt), row.ArchivedNote, row.Message)
		}
		return t
	}
	t := newTable("ID", "TYPE", "STATUS", "QUEUE", "ATTEMPT", "FINISHED AT", "MESSAGE")
	for _, row := range rows {
		t.add(row.ID, row.Type, row.Status, row.Queue, fmt.Sprintf("%d/%d", row.Attempt, row.MaxAttempts), l.when(row.FinishedAt), row.Message)
	}
	return t
}

func (l *deadList) groups(ctx context.Context, filter store.DeadFilter) error {
	groups, err := l.tasks.DeadGroups(ctx, l.pool, filter)
	if err != nil {
		return err
	}
	groups, more := onePage(groups, l.limit)
	t := newTable("TYPE", "STATUS", "COUNT", "OLDEST", "LATEST", "EXAMPLE", "MESSAGE")
	for _, group := range groups {
		t.add(group.Type, group.Status, group.Count, l.when(&group.Oldest), l.when(&group.Latest), group.Example, group.Message)
	}
	if err := l.list(groups, t, l.filter.none()); err != nil {
		return err
	}
	if more {
		l.note("There are more groups: --limit shows them.")
	}
	return nil
}
