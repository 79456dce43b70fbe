package cmd

import (
	"context"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/spf13/cobra"

	"github.com/tasktable/tasktable/cmd/internal/options"
	"github.com/tasktable/tasktable/cmd/internal/term"
	"github.com/tasktable/tasktable/store"
)

const scopeHelp = `

A SCOPE is the name of a queue, type: and the name of a type, or all. The queue with the name all is queue:all. If two
pauses hold for a task, both must be resumed. To pause single tasks, see tasktable tasks pause.`

const queuesPauseHelp = `Pauses queues, types or everything. From then on no node starts their tasks, and running
tasks finish. Tasks can still be scheduled. They run when the pause ends, unless they expire before. A pause holds
until it is resumed, or until a time. A new pause of the same scope replaces the old one. Outcomes: paused, unchanged
(it was paused in just this way).

Pausing everything asks first. Without a terminal --yes must confirm it.` + scopeHelp + "\n\n" + term.MomentHelp

const queuesResumeHelp = `Ends pauses. Tasks that are due by then start at once. Outcomes: resumed, unchanged (it was
not paused).` + scopeHelp

// scopeArguments are the scopes that a command pauses or resumes.
type scopeArguments struct{ given []store.Scope }

func (s *scopeArguments) arguments(complete options.Completion) options.Arguments {
	return options.Arguments{Name: "SCOPE", MinCount: 1, MaxCount: -1, Complete: complete,
		Set: func(given []string) error {
			s.given = nil
			for _, text := range given {
				scope, err := parseScope(text)
				if err != nil {
					return err
				}
				if !slices.Contains(s.given, scope) {
					s.given = append(s.given, scope)
				}
			}
			return nil
		}}
}

// parseScope takes a queue by its bare name, too.
func parseScope(given string) (store.Scope, error) {
	if given != "all" && !strings.Contains(given, ":") {
		given = "queue:" + given
	}
	scope, err := store.ParseScope(given)
	if err != nil {
		return scope, options.Usage("SCOPE must be the name of a queue, type: and the name of a type, or all: %w", err)
	}
	return scope, nil
}

// resumed replaces the library's outcome queued in the output, because nobody would understand "queued" of a queue.
const resumed store.Outcome = "resumed"

// inOrder applies the verb to all scopes in one transaction. Every caller goes in the order of the names, so that two
// transactions cannot deadlock.
func (s *scopeArguments) inOrder(ctx context.Context, c *client,
	do func(pgx.Tx, store.Scope) (store.Outcome, error)) error {
	ordered := slices.Clone(s.given)
	slices.SortFunc(ordered, func(a, b store.Scope) int { return strings.Compare(a.String(), b.String()) })
	return c.outcomes(together(ctx, c.pool, ordered, func(tx pgx.Tx, scope store.Scope) (nameOutcome, error) {
		outcome, err := do(tx, scope)
		return nameOutcome{"scope", scope.String(), outcome}, err
	}))
}

// queuesPause is the command queues pause.
type queuesPause struct {
	*client
	scopeArguments
	until  term.Moment
	reason string
	confirmation
}

func (p *program) queuesPauseCommand() *cobra.Command {
	q := &queuesPause{client: p.client()}
	opts := []options.Option{
		{Flag: "until", Kind: "time", Set: options.Moment(&q.until), Usage: "when it ends by itself (default never)"},
		{Flag: "reason", Kind: "text", Set: options.Text(&q.reason, 4096), Usage: "the reason, for other people"},
		q.option(),
	}
	return p.BindArguments(&cobra.Command{
		Use:   "pause SCOPE…",
		Short: "Pauses queues, types or everything",
		Long:  queuesPauseHelp,
		Example: `  tasktable queues pause mail --until +1h --reason "the mail server moves"
  tasktable queues pause type:SEND_EMAIL type:SEND_DIGEST
  tasktable queues pause all --reason "the database moves" --yes`,
	}, append(opts, q.options()...), q.arguments(q.anyScope), q.opened(q.run, q.check))
}

func (q *queuesPause) check() error {
	_, err := options.Instant(q.printing.clock(), "until", q.until)
	return err
}

func (q *queuesPause) run(ctx context.Context) error {
	until, err := q.pauseEnd(q.until)
	if err != nil {
		return err
	}
	if slices.Contains(q.given, store.Everything()) {
		if err := q.confirm(ctx, q.program, "pauses all tasks of all services"); err != nil {
			return err
		}
	}
	if err := q.noteUnknown(ctx, q.given); err != nil {
		return err
	}
	return q.inOrder(ctx, q.client, func(tx pgx.Tx, scope store.Scope) (store.Outcome, error) {
		return q.tasks.PauseScope(ctx, tx, scope, until, q.reason)
	})
}

// noteUnknown prints the names that no node and no task uses. They may be mistakes, or be meant for later.
func (c *client) noteUnknown(ctx context.Context, scopes []store.Scope) error {
	queues, err := c.inspector.Queues(ctx, c.pool)
	if err != nil {
		return err
	}
	types, err := c.inspector.Types(ctx, c.pool)
	if err != nil {
		return err
	}
	for _, scope := range scopes {
		switch kind, name, _ := strings.Cut(scope.String(), ":"); {
		case kind == "queue" && !slices.Contains(queues, name):
			c.Note("No node works queue %s, and no task waits in it%s.", name, mayMean(term.Nearest(name, queues)))
		case kind == "type" && !slices.Contains(types, name):
			c.Note("No node has type %s, and no task of it waits%s.", name, mayMean(term.Nearest(name, types)))
		}
	}
	return nil
}

func mayMean(name string) string {
	if name == "" {
		return ""
	}
	return "; there is " + name
}

// anyScope completes queues, types and all.
func (c *client) anyScope(ctx context.Context, prefix string) []string {
	if kind, _, both := strings.Cut(prefix, ":"); both {
		return c.named(ctx, kind, prefix)
	}
	return append(c.queues(ctx, prefix), options.Words("type:", "all")(ctx, prefix)...)
}

func (c *client) named(ctx context.Context, kind, prefix string) []string {
	list := c.types
	if kind == "queue" {
		list = c.queues
	}
	found := list(ctx, prefix[len(kind)+1:])
	for i := range found {
		found[i] = kind + ":" + found[i]
	}
	return found
}

// queuesResume is the command queues resume.
type queuesResume struct {
	*client
	scopeArguments
}

func (p *program) queuesResumeCommand() *cobra.Command {
	q := &queuesResume{client: p.client()}
	return p.BindArguments(&cobra.Command{
		Use:     "resume SCOPE…",
		Short:   "Ends pauses of queues, types or everything",
		Long:    queuesResumeHelp,
		Example: "  tasktable queues resume mail type:SEND_EMAIL\n  tasktable queues resume all",
	}, q.options(), q.arguments(q.pausedScopes), q.opened(q.run))
}

func (q *queuesResume) run(ctx context.Context) error {
	var unpaused []store.Scope // only these may be slips
	err := q.inOrder(ctx, q.client, func(tx pgx.Tx, scope store.Scope) (store.Outcome, error) {
		outcome, err := q.tasks.ResumeScope(ctx, tx, scope)
		if outcome == store.Queued {
			return resumed, err
		}
		unpaused = append(unpaused, scope)
		return outcome, err
	})
	if err != nil {
		return err
	}
	return q.noteUnknown(ctx, unpaused)
}

// pausedScopes completes the scopes that are paused.
func (c *client) pausedScopes(ctx context.Context, prefix string) []string {
	return c.ask(ctx, prefix, func(ctx context.Context, db store.DB, config store.Config) ([]string, error) {
		pauses, err := store.New(config).Pauses(ctx, db)
		var paused []string
		for _, pause := range pauses {
			scope := pause.Of().String()
			if name, ok := strings.CutPrefix(scope, "queue:"); ok && name != "all" {
				scope = name
			}
			paused = append(paused, scope)
		}
		return paused, err
	})
}
