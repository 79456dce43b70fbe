package cmd

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/spf13/cobra"

	"github.com/tasktable/tasktable/cmd/internal/options"
	"github.com/tasktable/tasktable/cmd/internal/term"
	"github.com/tasktable/tasktable/store"
)

// taskVerb is what can be done to tasks.
type taskVerb struct {
	verb     store.Verb
	name     string // of the command
	does     string // "cancels"
	short    string
	long     string
	statuses []store.Status  // what a filter selects, unless --status says otherwise
	complete []store.Status  // of what the shell completes ids; nil: of any
	undone   []store.Outcome // with these it was not done
}

const verbHelp = `

It is given the ids of tasks, or a filter. Of ids it tells for each what came of it; those that do not exist make the exit
code 1, and the others are done all the same. With a filter it says how many tasks that are, and asks; without a
terminal --yes must say so. A task that has changed meanwhile so that the filter does not select it is left alone.
Unless --status says otherwise, a filter selects tasks that are %s.
Either way it is one transaction: all or, after an error, none.`

func taskVerbs() []taskVerb {
	waiting := []store.Status{store.StatusQueued, store.StatusPaused}
	living := append(waiting, store.StatusExecuting)
	queued, paused := []store.Status{store.StatusQueued}, []store.Status{store.StatusPaused}
	dead := []store.Status{store.StatusFailed, store.StatusExpired}
	ended := append(dead, store.StatusCompleted, store.StatusCancelled, store.StatusSkipped)
	absent, untouched := []store.Outcome{store.Absent}, []store.Outcome{store.Absent, store.Running}
	return []taskVerb{
		{verb: store.VerbCancel, name: "cancel", does: "cancels", statuses: living, complete: living, undone: absent,
			short: "Keeps tasks from running",
			long: `Cancels tasks. After it none of them starts, and of one that runs the handler's context ends. Outcomes: cancelled,
unchanged (it was), finished (it has ended otherwise), absent.`},
		{verb: store.VerbPause, name: "pause", does: "pauses", statuses: queued, complete: queued, undone: absent,
			short: "Keeps tasks from running until resumed, or until a time",
			long: `Pauses tasks. After it none of them starts. An attempt that runs goes on, and what would follow it waits. Outcomes:
paused, unchanged (it was), finished (it has ended), absent.`},
		{verb: store.VerbResume, name: "resume", does: "resumes", statuses: paused, complete: paused, undone: absent,
			short: "Queues paused tasks for the time they had",
			long: `Resumes paused tasks: they run at the time they had, at once if that has passed. Outcomes: queued, unchanged (it was
not paused), finished (it has ended), absent.`},
		{verb: store.VerbRunNow, name: "run-now", does: "runs", statuses: waiting, undone: absent,
			short: "Runs tasks at once, also those that have ended",
			long: `Runs tasks at once, with all their attempts, also those that have ended; of a recurring task it makes one more
occurrence. Outcomes: queued, running (it runs already), absent.`},
		{verb: store.VerbRetry, name: "retry", does: "retries", statuses: dead, complete: dead, undone: absent,
			short: "Runs FAILED and EXPIRED tasks again at once",
			long: `Retries tasks that have FAILED or EXPIRED, at once and with all their attempts; a filter leaves out those that are
archived. Outcomes: queued, unchanged (it is no dead letter: one that was CANCELLED runs by run-now), finished (it has COMPLETED, or was SKIPPED), absent.`},
		{verb: store.VerbDelete, name: "delete", does: "deletes", statuses: ended, undone: untouched,
			short: "Removes tasks; their history stays",
			long: `Deletes tasks. Their history stays. Outcomes: deleted, running (a claim holds it, and it is not deleted: exit code 1;
cancel it first), absent.`},
	}
}

func (v taskVerb) help() string {
	words := make([]string, len(v.statuses))
	for i, status := range v.statuses {
		words[i] = string(status)
	}
	return v.long + fmt.Sprintf(verbHelp, strings.Join(words, ", ")) + "\n\n" + term.MomentHelp
}

func (v taskVerb) example() string {
	example := "  tasktable tasks " + v.name + " task-SEND_EVENT_REMINDER-42 task-SEND_EVENT_REMINDER-43\n"
	switch v.verb {
	case store.VerbPause:
		return example + `  tasktable tasks pause task-SEND_EVENT_REMINDER-42 --until "2026-11-23 08:00"
  tasktable tasks pause --type SEND_EMAIL --tenant acme --until +1h --yes`
	case store.VerbRetry:
		return example + "  tasktable tasks retry --type SEND_EMAIL --message 421 --finished-from -2h"
	case store.VerbDelete:
		return example + "  tasktable tasks delete --status CANCELLED --finished-to -7d --yes"
	}
	return example + "  tasktable tasks " + v.name + " --entity event:42\n" +
		"  tasktable tasks " + v.name + " --type SEND_EMAIL --tenant acme --yes --output json"
}

// tasksVerb is the command of a verb.
type tasksVerb struct {
	*client
	verb   taskVerb
	given  []string
	filter taskFilter
	limit  int
	until  term.Moment
	confirmation
}

func (p *program) tasksVerbCommand(verb taskVerb) *cobra.Command {
	v := &tasksVerb{client: p.client(), verb: verb}
	var opts []options.Option
	if verb.verb == store.VerbPause {
		opts = append(opts, options.Option{Flag: "until", Kind: "time", Set: options.Moment(&v.until),
			Usage: "when they resume by themselves (default never)"})
	}
	opts = append(opts, v.option())
	opts = append(opts, v.filter.options(v.client, "only tasks in this status; several separated by commas (default those above)")...)
	opts = append(opts, options.Option{Flag: "limit", Kind: "number", Default: "10000", Set: options.Int(&v.limit, 1, 10000),
		Usage: "how many tasks of those that the filter selects, by their ids"})
	return p.BindArguments(&cobra.Command{
		Use:     verb.name + " [ID…]",
		Short:   verb.short,
		Long:    verb.help(),
		Example: verb.example(),
	}, append(opts, v.options()...), options.IDs(&v.given, 0, -1, v.ids(verb.complete...)), v.opened(v.run, v.check))
}

func (v *tasksVerb) check() error {
	switch filtered := v.filter.given(); {
	case len(v.given) > 0 && filtered:
		return options.Usage("takes ids or a filter, not both")
	case len(v.given) == 0 && !filtered:
		return options.Usage("needs the id of a task, or a filter such as --type")
	}
	if _, err := options.Instant(v.printing.clock(), "until", v.until); err != nil {
		return err
	}
	return v.filter.check(v.client)
}

func (v *tasksVerb) run(ctx context.Context) error {
	until, err := options.Instant(v.Clock, "until", v.until)
	if err != nil {
		return err
	}
	if len(v.given) > 0 {
		err := v.each(ctx, v.given, func(tx pgx.Tx, id string) (store.Receipt, error) { return v.do(ctx, tx, id, until) }, v.verb.undone...)
		if v.verb.verb == store.VerbRetry {
			v.noteCancelled(ctx, v.given)
		}
		return err
	}
	return v.toFiltered(ctx, until)
}

func (v *tasksVerb) do(ctx context.Context, tx pgx.Tx, id string, until time.Time) (store.Receipt, error) {
	switch v.verb.verb {
	case store.VerbCancel:
		return v.tasks.Cancel(ctx, tx, id)
	case store.VerbPause:
		if until.IsZero() {
			return v.tasks.Pause(ctx, tx, id)
		}
		return v.tasks.PauseUntil(ctx, tx, id, until)
	case store.VerbResume:
		return v.tasks.Resume(ctx, tx, id)
	case store.VerbRunNow:
		return v.tasks.RunNow(ctx, tx, id)
	case store.VerbRetry:
		return v.tasks.Retry(ctx, tx, id)
	case store.VerbDelete:
		return v.tasks.Delete(ctx, tx, id)
	}
	panic("no such verb: " + v.verb.verb)
}

func (v *tasksVerb) toFiltered(ctx context.Context, until time.Time) error {
	filter, err := v.filter.resolved(v.Clock)
	if err != nil {
		return err
	}
	if len(filter.Statuses) == 0 {
		filter.Statuses = v.verb.statuses
	}
	filter.NotArchived, filter.Limit = v.verb.verb == store.VerbRetry, v.limit
	const none = "No task matches."
	names, err := v.tasks.Names(ctx, v.pool, filter)
	if err != nil {
		return err
	}
	if len(names) == 0 {
		return v.receipts(nil, none)
	}
	if err := v.confirm(ctx, v.program, v.verb.does+" "+counted(names)); err != nil {
		return err
	}
	ids := make([]string, len(names))
	for i, name := range names {
		ids[i] = name.ID
	}
	receipts, err := v.tasks.Apply(ctx, v.pool, v.verb.verb, ids, filter, until)
	if err != nil {
		return err
	}
	if changed := len(names) - len(receipts); changed > 0 {
		v.Note("%d of them had changed meanwhile, and were left alone.", changed)
	}
	if len(names) == v.limit {
		v.Note("There may be more: run it again.")
	}
	return v.receipts(receipts, none, v.verb.undone...)
}

// counted says how many tasks there are, and of what kinds: "3 tasks (2 QUEUED of LOG, 1 PAUSED of SEND_EMAIL)".
func counted(names []store.Name) string {
	counts := map[string]int{}
	for _, name := range names {
		counts[string(name.Status)+" of "+name.Type]++
	}
	kinds := make([]string, 0, len(counts))
	for kind := range counts {
		kinds = append(kinds, kind)
	}
	slices.SortFunc(kinds, func(a, b string) int {
		if counts[a] != counts[b] {
			return counts[b] - counts[a]
		}
		return strings.Compare(a, b)
	})
	const most = 5
	said := "1 task"
	if len(names) > 1 {
		said = fmt.Sprintf("%d tasks", len(names))
	}
	var parts []string
	for _, kind := range kinds[:min(len(kinds), most)] {
		parts = append(parts, fmt.Sprintf("%d %s", counts[kind], kind))
	}
	if len(kinds) > most {
		parts = append(parts, "…")
	}
	return said + " (" + strings.Join(parts, ", ") + ")"
}
