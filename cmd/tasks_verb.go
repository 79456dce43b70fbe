package cmd

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/tasktable/tasktable/cmd/internal/options"
	"github.com/tasktable/tasktable/cmd/internal/term"
	"github.com/tasktable/tasktable/store"
	"github.com/tasktable/tasktable/store/inspect"
)

// taskVerb is the command of a verb: one of "tasks", or one of "dead".
type taskVerb struct {
	inspect.VerbRule
	dead bool
}

const verbHelp = `
It takes the ids of tasks, or a filter%s.

With ids it changes all tasks in one transaction, and prints the outcome of each. If an id does not exist, the exit code
is 1, and the other tasks are changed all the same.

With a filter it prints how many tasks it has found, and asks whether to go on. Without a terminal --yes must be given.
Then it changes a thousand tasks in each transaction. So after an error or a signal the earlier transactions stay. If a
task has changed meanwhile, and the filter no longer selects it, the command leaves it alone.

%s

`

// path returns the command with its parents, as a user calls it.
func (v taskVerb) path() string {
	if v.dead {
		return "tasktable dead " + v.Path()
	}
	return "tasktable tasks " + v.Path()
}

func (v taskVerb) help() string {
	or, selects := "", "Without --status a filter selects tasks that are "+inspect.StatusWords(v.Statuses)+"."
	if v.dead {
		or = ", or --all"
		selects = "A filter selects dead letters that are not archived. If it selects more than --limit, the " +
			"command\ntakes those that ended first."
	}
	return v.Summary + ". For a task that is:\n\n" + v.Help() + fmt.Sprintf(verbHelp, or, selects) + term.MomentHelp
}

func (v taskVerb) examples() string {
	lines := " task-SEND_EVENT_REMINDER-42 task-SEND_EVENT_REMINDER-43\n" +
		" --type SEND_EMAIL --tenant acme --yes --output json\n"
	if v.dead {
		lines = " task-SEND_EVENT_REMINDER-42\n --type SEND_EMAIL --message 421 --finished-from -2h\n" +
			" --type SEND_EMAIL --limit 1 --yes        # one first\n"
	}
	for argument, line := range map[string]string{
		"until": " task-SEND_EVENT_REMINDER-42 --until \"tomorrow 08:00\"\n",
		"over":  " --type SEND_EMAIL --message 421 --finished-from -2h --over 10m     # not all of them at once\n",
		"note":  " task-SEND_EVENT_REMINDER-42 --note \"the member has left\"\n",
	} {
		if v.Needs(argument) {
			lines += line
		}
	}
	return strings.TrimSuffix(strings.ReplaceAll("\n"+lines, "\n ", "\n  "+v.path()+" ")[1:], "\n")
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
	action inspect.Action
	confirmation
}

// arguments are the options of the arguments that a verb can take.
func (v *tasksVerb) arguments() []options.Option {
	return []options.Option{
		{Flag: "until", Kind: "time", Set: options.Moment(&v.until),
			Usage: "when the leader resumes them (default never)"},
		{Flag: "note", Kind: "text", Set: options.Text(&v.action.Note, inspect.MaxNote),
			Usage: "what was done about it"},
		{Flag: "over", Kind: "duration", Set: options.Duration(&v.action.Over, time.Microsecond, inspect.MaxOver),
			Usage: "spreads what a filter selects evenly over this time (default all at once)"},
	}
}

func (p *program) tasksVerbCommand(verb taskVerb) *cobra.Command {
	v := &tasksVerb{client: p.client(), verb: verb, filter: newTaskFilter(inspect.FilterFields()),
		action: inspect.Action{Verb: verb.Verb}}
	var opts []options.Option
	for _, argument := range v.arguments() {
		if verb.Needs(argument.Flag) {
			opts = append(opts, argument)
		}
	}
	opts = append(opts, v.option())
	chosen := "how many of the selected tasks at most, in the order of their ids"
	if verb.dead {
		v.filter = newTaskFilter(inspect.DeadLetterFields())
		chosen = "how many of the selected dead letters at most, the oldest first"
		opts = append(opts, options.Option{Flag: "all", Set: options.Bool(&v.all), Usage: "all dead letters"})
	}
	opts = append(opts, v.filter.options(v.client)...)
	opts = append(opts, options.Option{Flag: "limit", Kind: "number", Default: "10000",
		Set:   options.Int(&v.limit, 1, inspect.MaxNames),
		Usage: chosen})
	var complete []store.Status // nil: the shell completes the ids of all tasks
	if !verb.Restarts {
		complete = verb.Statuses
	}
	return p.BindArguments(&cobra.Command{
		Use:     verb.Path() + " [ID…]",
		Short:   verb.Summary,
		Long:    verb.help(),
		Example: verb.examples(),
	}, append(opts, v.options()...), options.IDs(&v.given, 0, -1, v.ids(complete...)), v.opened(v.run, v.check))
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
	if v.action.Over > 0 && len(v.given) > 0 {
		return options.Usage("--over is for a filter%s, not for ids", or)
	}
	if _, err := options.Instant(v.printing.clock(), "until", v.until); err != nil {
		return err
	}
	return v.filter.check(v.client)
}

// undone are the outcomes that make the exit code 1.
var undone = []store.Outcome{store.Absent, store.Running}

func (v *tasksVerb) run(ctx context.Context) (err error) {
	if v.action.Until, err = v.pauseEnd(v.until); err != nil {
		return err
	}
	if len(v.given) == 0 {
		return v.toFiltered(ctx)
	}
	done, err := v.inspector.Do(ctx, v.pool, v.action, inspect.Targets{IDs: v.given})
	if err != nil {
		return err
	}
	err = v.receipts(inOrder(done.Receipts, v.given), "", undone...)
	if v.verb.Verb == inspect.Retry {
		v.noteCancelled(ctx, v.given)
	}
	return err
}
