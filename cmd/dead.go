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

func (p *program) deadCommand() *cobra.Command {
	dead := group(&cobra.Command{
		Use:   "dead",
		Short: "Lists, retries and archives dead letters",
		Long: `Dead letters are FAILED and EXPIRED tasks. A task is FAILED when its attempts are used up, or after a
permanent error. A dead letter does not run again unless somebody retries or reschedules it. If you have dealt with a
dead letter in another way, archive it.

` + term.MomentHelp,
		Example: `  tasktable dead list --group
  tasktable dead retry --type SEND_EMAIL --message 421 --finished-from -2h
  tasktable dead archive task-SEND_EVENT_REMINDER-42 --note "the member has left"`,
	}, p.deadListCommand())
	for _, verb := range inspect.Verbs() {
		if verb.Dead {
			dead.AddCommand(p.tasksVerbCommand(taskVerb{verb, true}))
		}
	}
	return dead
}

// noDead returns the sentence for an empty list of dead letters.
func noDead(filter *taskFilter, archived bool) string {
	switch {
	case filter.given():
		return "No dead letters like that."
	case archived:
		return "No archived dead letters."
	}
	return "No dead letters."
}

const deadListHelp = `Lists dead letters, the latest first, one page at a time. On stderr it prints the command for the
next page. It lists dead letters that match all given filters. With --group it counts them instead, by type, by status
and by the last error. Errors that differ only in quoted texts and in words with digits, such as ids and addresses,
count as one, in which a * stands for these parts. In JSON each group has this pattern, and --pattern takes it. With
--group-by it counts them by entity or by tenant, too. It counts at most 20,000 letters, and leaves out the older ones.
The command reads the whole table, so it is for people and reports.

` + term.MomentHelp + `

With --output json it prints an array of objects: of tasks, whose fields are the columns of the task, or of groups.
Null fields are left out. Durations are in nanoseconds.`

const deadListExample = `  tasktable dead list
  tasktable dead list --group --finished-from -1d     # what went wrong since yesterday?
  tasktable dead list --group-by tenant               # and whose?
  tasktable dead list --pattern "image * too large"
  tasktable dead list --type SEND_EMAIL --message 421 --output json | jq -r '.[].id'
  tasktable dead list --archived --limit 10`

// deadList is the command dead list.
type deadList struct {
	tasksList
	archived bool
	group    bool
	by       inspect.Grouping // "": none
}

func (p *program) deadListCommand() *cobra.Command {
	l := &deadList{tasksList: tasksList{client: p.client(), filter: newTaskFilter(inspect.DeadLetterFields())}}
	opts := append(l.filter.options(l.client),
		options.Option{Flag: "archived", Set: options.Bool(&l.archived),
			Usage: "lists archived dead letters instead of the others"},
		options.Option{Flag: "group", Set: options.Bool(&l.group),
			Usage: "counts them by type, status and the last error, the most frequent first"},
		options.Option{Flag: "group-by", Kind: "field", Set: options.OneOf(&l.by, inspect.ByEntity, inspect.ByTenant),
			Complete: options.Words(inspect.ByEntity, inspect.ByTenant),
			Usage:    "like --group, and also by this field: entity or tenant"})
	opts = append(opts, l.pageOptions("how many dead letters a page has, or how many groups are shown",
		l.ids(inspect.DeadLetters().Statuses...))...)
	opts = append(opts, options.Option{Flag: "asc", Set: options.Bool(&l.reverse), Usage: "the oldest first"})
	return p.Bind(&cobra.Command{
		Use:     "list",
		Short:   "Lists dead letters, or counts them by what went wrong",
		Long:    deadListHelp,
		Example: deadListExample,
	}, append(opts, l.options()...), l.opened(l.run, l.check))
}

func (l *deadList) check() error {
	if l.grouped() && (l.after != "" || l.reverse) {
		return options.Usage("--after and --asc are for lists, not for --group and --group-by")
	}
	return l.filter.check(l.client)
}

func (l *deadList) grouped() bool { return l.group || l.by != "" }

func (l *deadList) run(ctx context.Context) error {
	filter, err := l.filter.resolved(l.Clock)
	if err != nil {
		return err
	}
	filter.Order, filter.Archived, filter.LatestFirst = inspect.ByFinished, &l.archived, !l.reverse
	if len(filter.Statuses) == 0 {
		filter.Statuses = inspect.DeadLetters().Statuses
	}
	if l.grouped() {
		return l.groups(ctx, filter)
	}
	rows, next, err := l.page(ctx, filter)
	if err != nil {
		return err
	}
	return l.listPage(filter, rows, l.table(rows), noDead(&l.filter, l.archived), next)
}

// table leaves out the column ENTITY if no row has an entity, and the column TENANT if no row has a tenant.
func (l *deadList) table(rows []store.Row) *term.Table {
	t := term.NewTable("ID", "TYPE", "STATUS", "ENTITY", "TENANT", "QUEUE", "ATTEMPT", "FINISHED AT", "ARCHIVED AT",
		"NOTE", "MESSAGE")
	for _, row := range rows {
		t.Add(row.ID, row.Type, row.Status, row.Entity, row.TenantID, row.Queue,
			fmt.Sprintf("%d/%d", row.Attempt, row.MaxAttempts), l.When(row.FinishedAt), l.When(row.ArchivedAt),
			row.ArchivedNote, row.Message)
	}
	t.DropEmpty("ENTITY", "TENANT")
	if l.archived {
		t.Drop("QUEUE", "ATTEMPT")
	} else {
		t.Drop("ARCHIVED AT", "NOTE")
	}
	return t
}

func (l *deadList) groups(ctx context.Context, filter inspect.Filter) error {
	filter.Limit = l.limit + 1
	groups, err := l.inspector.Groups(ctx, l.pool, filter, l.by)
	if err != nil {
		return err
	}
	groups, more := onePage(groups, l.limit)
	t := term.NewTable("TYPE", "STATUS", "ENTITY", "TENANT", "COUNT", "OLDEST", "LATEST", "EXAMPLE", "MESSAGE")
	for _, group := range groups {
		t.Add(group.Type, group.Status, group.Entity, group.TenantID, group.Count, l.When(group.Oldest),
			l.When(group.Latest), group.Example, group.Message)
	}
	if l.by != inspect.ByEntity {
		t.Drop("ENTITY")
	}
	if l.by != inspect.ByTenant {
		t.Drop("TENANT")
	}
	if err := l.List(groups, t, noDead(&l.filter, l.archived)); err != nil {
		return err
	}
	if len(groups) > 0 && groups[0].More {
		l.Note("These are the counts of the %d that ended last.", inspect.MaxGrouped)
	}
	if more {
		l.Note("There are more groups: --limit shows them.")
	}
	return nil
}
