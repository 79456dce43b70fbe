package cmd

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/spf13/cobra"

	"github.com/tasktable/tasktable/cmd/internal/options"
	"github.com/tasktable/tasktable/cmd/internal/term"
	"github.com/tasktable/tasktable/store"
)

const deadVerbHelp = `

It is given the ids of tasks, or a filter, or --all. Of ids it tells for each what came of it, all in one transaction;
those that do not exist make the exit code 1, and the others are done all the same. With a filter, which never selects
those that are archived, it says how many dead letters that are, and asks; without a terminal --yes must say so. Then
it goes through them, the oldest first, a thousand in each transaction, so that an error or a signal leaves those before
it done. What becomes a dead letter after they were counted is left alone.

` + term.MomentHelp

// deadBatch is how many are done in one transaction: each locks its task until its end.
const deadBatch = 1000

// deadVerb is what can be done to dead letters.
type deadVerb struct {
	archives                         bool
	name, does, short, long, example string
}

var (
	deadRetry = deadVerb{name: "retry", does: "retries", short: "Runs dead letters again at once",
		long: `Retries dead letters, at once, with all their attempts, and with their expiration counted from now. Outcomes: queued,
unchanged (it is no dead letter), finished (it has COMPLETED, or was SKIPPED), absent.`,
		example: `  tasktable dead retry task-SEND_EVENT_REMINDER-42
  tasktable dead retry --type SEND_EMAIL --message 421 --finished-from -2h
  tasktable dead retry --type SEND_EMAIL --limit 1 --yes        # one first, to see whether it works now
  tasktable dead retry --all --yes --output json | jq length`}
	deadArchive = deadVerb{archives: true, name: "archive", does: "archives", short: "Marks dead letters as dealt with",
		long: `Archives dead letters: they are listed and counted no more, and stay until retention takes them. Outcomes: archived,
unchanged (it is no dead letter, or was archived), absent.`,
		example: `  tasktable dead archive task-SEND_EVENT_REMINDER-42 --note "the member has left"
  tasktable dead archive --status EXPIRED --finished-to -7d --note "too late now"`}
)

// deadVerbRun is the command of a verb.
type deadVerbRun struct {
	*client
	verb   deadVerb
	given  []string
	filter deadFilter
	all    bool
	limit  int
	remark string
	confirmation
}

func (p *program) deadVerbCommand(verb deadVerb) *cobra.Command {
	v := &deadVerbRun{client: p.client(), verb: verb}
	var opts []options.Option
	if verb.archives {
		opts = append(opts, options.Option{Flag: "note", Kind: "text", Set: options.Text(&v.remark, 4096), Usage: "what was done about it"})
	}
	opts = append(opts, v.option())
	opts = append(opts, v.filter.options(v.client)...)
	opts = append(opts,
		options.Option{Flag: "all", Set: options.Bool(&v.all), Usage: "all dead letters"},
		options.Option{Flag: "limit", Kind: "number", Default: "10000", Set: options.Int(&v.limit, 1, 1000000),
			Usage: "how many of those that the filter selects, the oldest"})
	return p.BindArguments(&cobra.Command{
		Use:     verb.name + " [ID…]",
		Short:   verb.short,
		Long:    verb.long + deadVerbHelp,
		Example: verb.example,
	}, append(opts, v.options()...), options.IDs(&v.given, 0, -1, v.ids(store.StatusFailed, store.StatusExpired)), v.opened(v.run, v.check))
}

func (v *deadVerbRun) check() error {
	switch selects := v.filter.given(); {
	case len(v.given) > 0 && (selects || v.all):
		return options.Usage("%q takes ids or a filter, not both", "tasktable dead "+v.verb.name)
	case len(v.given) == 0 && !selects && !v.all:
		return options.Usage("%q needs the id of a task, or a filter such as --type, or --all", "tasktable dead "+v.verb.name)
	case selects && v.all:
		return options.Usage("--all and a filter cannot be given together")
	}
	return v.filter.check(v.client)
}

func (v *deadVerbRun) run(ctx context.Context) error {
	if len(v.given) > 0 {
		return v.toIDs(ctx)
	}
	return v.toFiltered(ctx)
}

// toIDs goes in the order of the ids, as all that changes many: so they do not deadlock.
func (v *deadVerbRun) toIDs(ctx context.Context) error {
	done := map[string]store.Receipt{}
	err := pgx.BeginFunc(ctx, v.pool, func(tx pgx.Tx) (err error) {
		for _, id := range slices.Sorted(slices.Values(v.given)) {
			if v.verb.archives {
				done[id], err = v.tasks.Archive(ctx, tx, id, v.remark)
			} else {
				done[id], err = v.tasks.Retry(ctx, tx, id)
			}
			if err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	receipts := make([]store.Receipt, len(v.given))
	for i, id := range v.given {
		receipts[i] = done[id]
	}
	err = v.receipts(receipts, "", store.Absent)
	if !v.verb.archives {
		v.noteCancelled(ctx, v.given)
	}
	return err
}

func (v *deadVerbRun) toFiltered(ctx context.Context) error {
	filter, err := v.filter.resolved(v.Clock)
	if err != nil {
		return err
	}
	none := v.filter.none()
	total, err := v.tasks.CountDead(ctx, v.pool, filter)
	if err != nil {
		return err
	}
	if total.Count == 0 {
		return v.receipts(nil, none)
	}
	does, err := v.counted(ctx, filter, total.Count)
	if err != nil {
		return err
	}
	if err := v.confirm(ctx, v.program, v.verb.does+" "+does); err != nil {
		return err
	}
	if filter.FinishedTo.IsZero() || filter.FinishedTo.After(total.At) {
		filter.FinishedTo = total.At
	}
	receipts, err := v.toBatches(ctx, filter, min(total.Count, v.limit))
	if err != nil && len(receipts) == 0 {
		return err
	}
	if printed := v.receipts(receipts, none); err == nil {
		return printed
	}
	return fmt.Errorf("%d were done before an error: %w", len(receipts), err)
}

// toBatches does some at a time, until none is left. What it has done the filter does not select any more.
func (v *deadVerbRun) toBatches(ctx context.Context, filter store.DeadFilter, most int) (done []store.Receipt, err error) {
	for most > 0 {
		filter.Limit = min(most, deadBatch)
		var receipts []store.Receipt
		if v.verb.archives {
			receipts, err = v.tasks.ArchiveDead(ctx, v.pool, filter, v.remark)
		} else {
			receipts, err = v.tasks.RetryDead(ctx, v.pool, filter)
		}
		if err != nil || len(receipts) == 0 {
			return done, err
		}
		done = append(done, receipts...)
		most -= len(receipts)
	}
	return done, nil
}

// counted says how many there are, and of what kinds: "3 dead letters (2 FAILED of SEND_EMAIL, 1 EXPIRED of LOG)".
func (v *deadVerbRun) counted(ctx context.Context, filter store.DeadFilter, count int) (string, error) {
	said := "1 dead letter"
	if count > 1 {
		said = fmt.Sprintf("%d dead letters", count)
	}
	if count > v.limit {
		said = fmt.Sprintf("%d of %s, the oldest", v.limit, said)
	}
	const most = 5
	filter.Limit = most + 1
	groups, err := v.tasks.DeadGroups(ctx, v.pool, filter)
	if err != nil {
		return "", err
	}
	var parts []string
	for _, group := range groups[:min(len(groups), most)] {
		part := fmt.Sprintf("%d %s of %s", group.Count, group.Status, group.Type)
		if group.Message != "" {
			part += fmt.Sprintf(": %q", beginning(group))
		}
		parts = append(parts, part)
	}
	if len(groups) > most {
		parts = append(parts, "…")
	}
	return said + " (" + strings.Join(parts, "; ") + ")", nil
}
