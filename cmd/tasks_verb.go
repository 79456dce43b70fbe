package cmd

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/spf13/cobra"

	"github.com/tasktable/tasktable/cmd/internal/options"
	"github.com/tasktable/tasktable/cmd/internal/term"
	"github.com/tasktable/tasktable/store"
	"github.com/tasktable/tasktable/store/inspect"
)

// taskVerb describes the command of one verb.
type taskVerb struct {
	verb     inspect.Verb
	dead     bool   // whether it is a command of "dead", and not of "tasks"
	name     string // the name of the command
	does     string // its verb in a sentence: "cancels"
	short    string
	long     string
	example  string          // "": the same as for the other verbs
	statuses []store.Status  // the statuses that a filter selects without --status
	complete []store.Status  // the shell completes ids of tasks in these statuses; nil: in any status
	undone   []store.Outcome // the outcomes that make the exit code 1
}

const verbHelp = `

It takes the ids of tasks, or a filter%s.

With ids it changes all tasks in one transaction, and prints the outcome of each. If an id does not exist, the exit code
is 1, and the other tasks are changed all the same.

With a filter it prints how many tasks it has found, and asks whether to go on. Without a terminal --yes must be given.
Then it changes a thousand tasks in each transaction. So after an error or a signal the earlier transactions stay. If a
task has changed meanwhile, and the filter no longer selects it, the command leaves it alone.

%s`

func taskVerbs() []taskVerb {
	waiting := []store.Status{store.StatusQueued, store.StatusPaused}
	living := append(waiting, store.StatusExecuting)
	queued, paused := []store.Status{store.StatusQueued}, []store.Status{store.StatusPaused}
	dead := []store.Status{store.StatusFailed, store.StatusExpired}
	ended := append(dead, store.StatusCompleted, store.StatusCancelled, store.StatusSkipped)
	absent, untouched := []store.Outcome{store.Absent}, []store.Outcome{store.Absent, store.Running}
	return []taskVerb{
		{verb: inspect.Cancel, name: "cancel", does: "cancels", statuses: living, complete: living, undone: absent,
			short: "Keeps tasks from running",
			long: `Cancels tasks. From then on none of them starts. If a task runs, the context of its handler ends.
Outcomes: cancelled, unchanged (it was cancelled before), finished (it has ended in another way), absent.`},
		{verb: inspect.Pause, name: "pause", does: "pauses", statuses: queued, complete: queued, undone: absent,
			short: "Keeps tasks from running until resumed, or until a time",
			long: `Pauses tasks. From then on none of them starts. A running attempt goes on, but a retry waits for the
resume. Outcomes: paused, unchanged (it was paused before), finished (it has ended), absent.`},
		{verb: inspect.Resume, name: "resume", does: "resumes", statuses: paused, complete: paused, undone: absent,
			short: "Queues paused tasks for the time they had",
			long: `Resumes paused tasks. They run at the time they had, or at once if that time has passed. Outcomes:
queued, unchanged (it was not paused), finished (it has ended), absent.`},
		{verb: inspect.RunNow, name: "run-now", does: "runs", statuses: waiting, undone: absent,
			short: "Runs tasks at once, also those that have ended",
			long: `Runs tasks at once, with all their attempts, even if they have ended. For a recurring task it makes
one more occurrence. Outcomes: queued, again (it runs, and runs once more after this attempt), absent.`},
		{verb: inspect.Retry, name: "retry", does: "retries", statuses: dead, complete: dead, undone: absent,
			short: "Runs FAILED and EXPIRED tasks again at once",
			long: `Retries tasks that have FAILED or EXPIRED, at once and with all their attempts. A filter does not
select archived tasks. Outcomes: queued, unchanged (it is no dead letter; to run a CANCELLED task, use run-now),
finished (it is COMPLETED or SKIPPED), absent.`},
		{verb: inspect.Delete, name: "delete", does: "deletes", statuses: ended, undone: untouched,
			short: "Removes tasks; their history stays",
			long: `Deletes tasks. Their history stays. Outcomes: deleted, running (it is not deleted, because a claim
holds it; the exit code is 1; cancel it first), absent.`},
	}
}

// path returns the command with its parents, as a user calls it.
func (v taskVerb) path() string {
	if v.dead {
		return "tasktable dead " + v.name
	}
	return "tasktable tasks " + v.name
}

func (v taskVerb) help() string {
	or, selects := "", "Without --status a filter selects tasks that are "+statusList(v.statuses)+"."
	if v.dead {
		or = ", or --all"
		selects = "A filter selects dead letters that are not archived. If it selects more than --limit, the " +
			"command\ntakes those that ended first."
	}
	return v.long + fmt.Sprintf(verbHelp, or, selects) + "\n\n" + term.MomentHelp
}

func (v taskVerb) examples() string {
	if v.example != "" {
		return v.example
	}
	example := "  tasktable tasks " + v.name + " task-SEND_EVENT_REMINDER-42 task-SEND_EVENT_REMINDER-43\n"
	switch v.verb {
	case inspect.Pause:
		return example + `  tasktable tasks pause task-SEND_EVENT_REMINDER-42 --until "2026-11-23 08:00"
  tasktable tasks pause --type SEND_EMAIL --tenant acme --until +1h --yes`
	case inspect.Retry:
		return example + "  tasktable tasks retry --type SEND_EMAIL --message 421 --finished-from -2h --over 10m"
	case inspect.Delete:
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
	all    bool
	limit  int
	until  term.Moment
	remark string
	over   time.Duration
	confirmation
}

func (p *program) tasksVerbCommand(verb taskVerb) *cobra.Command {
	v := &tasksVerb{client: p.client(), verb: verb}
	var opts []options.Option
	switch verb.verb {
	case inspect.Pause:
		opts = append(opts, options.Option{Flag: "until", Kind: "time", Set: options.Moment(&v.until),
			Usage: "when the leader resumes them (default never)"})
	case inspect.Archive:
		opts = append(opts, options.Option{Flag: "note", Kind: "text", Set: options.Text(&v.remark, 4096),
			Usage: "what was done about it"})
	case inspect.Retry:
		opts = append(opts, options.Option{Flag: "over", Kind: "duration",
			Set:   options.Duration(&v.over, time.Microsecond, inspect.MaxOver),
			Usage: "spreads what a filter selects evenly over this time (default all at once)"})
	}
	opts = append(opts, v.option())
	chosen := "how many of the selected tasks at most, in the order of their ids"
	if verb.dead {
		chosen = "how many of the selected dead letters at most, the oldest first"
		opts = append(opts, v.filter.options(v.client, verb.statuses, deadStatusUsage)...)
		opts = append(opts, options.Option{Flag: "all", Set: options.Bool(&v.all), Usage: "all dead letters"})
	} else {
		const usage = "only tasks in this status, or in several separated by commas (default see above)"
		opts = append(opts, v.filter.options(v.client, store.Statuses(), usage)...)
	}
	opts = append(opts, options.Option{Flag: "limit", Kind: "number", Default: "10000",
		Set:   options.Int(&v.limit, 1, inspect.MaxNames),
		Usage: chosen})
	return p.BindArguments(&cobra.Command{
		Use:     verb.name + " [ID…]",
		Short:   verb.short,
		Long:    verb.help(),
		Example: verb.examples(),
	}, append(opts, v.options()...), options.IDs(&v.given, 0, -1, v.ids(verb.complete...)), v.opened(v.run, v.check))
}

func (v *tasksVerb) check() error {
	or := ""
	if v.verb.dead {
		or = ", or --all"
	}
	switch filtered := v.filter.given(); {
	case len(v.given) > 0 && (filtered || v.all):
		return options.Usage("%q takes ids or a filter, not both", v.verb.path())
	case len(v.given) == 0 && !filtered && !v.all:
		return options.Usage("%q needs the id of a task, or a filter such as --type%s", v.verb.path(), or)
	case filtered && v.all:
		return options.Usage("--all and a filter cannot be given together")
	}
	if v.over > 0 && len(v.given) > 0 {
		return options.Usage("--over is for a filter%s, not for ids", or)
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
	if len(v.given) == 0 {
		return v.toFiltered(ctx, inspect.Action{Verb: v.verb.verb, Until: until, Note: v.remark, Over: v.over})
	}
	do := func(tx pgx.Tx, id string) (store.Receipt, error) { return v.do(ctx, tx, id, until) }
	err = v.each(ctx, v.given, do, v.verb.undone...)
	if v.verb.verb == inspect.Retry {
		v.noteCancelled(ctx, v.given)
	}
	return err
}

func (v *tasksVerb) do(ctx context.Context, tx pgx.Tx, id string, until time.Time) (store.Receipt, error) {
	switch v.verb.verb {
	case inspect.Cancel:
		return v.tasks.Cancel(ctx, tx, id)
	case inspect.Pause:
		if until.IsZero() {
			return v.tasks.Pause(ctx, tx, id)
		}
		return v.tasks.PauseUntil(ctx, tx, id, until)
	case inspect.Resume:
		return v.tasks.Resume(ctx, tx, id)
	case inspect.RunNow:
		return v.tasks.RunNow(ctx, tx, id)
	case inspect.Retry:
		return v.tasks.Retry(ctx, tx, id)
	case inspect.Archive:
		return v.tasks.Archive(ctx, tx, id, v.remark)
	case inspect.Delete:
		return v.tasks.Delete(ctx, tx, id)
	}
	panic("no such verb: " + v.verb.verb)
}
