package cmd

import (
	"context"
	"slices"

	"github.com/jackc/pgx/v5"
	"github.com/spf13/cobra"

	"github.com/tasktable/tasktable/cmd/internal/options"
	"github.com/tasktable/tasktable/cmd/internal/term"
	"github.com/tasktable/tasktable/store"
)

const tasksRescheduleHelp = `Moves tasks to another time, and changes nothing else. Outcomes: rescheduled (it waited, or
runs and will run again), rearmed (it had ended, and now waits for the new time), unchanged (it has that time),
finished (it has ended at that time), absent (it does not exist). If a task is absent, the exit code is 1, and the
others are moved all the same. The command changes all tasks in one transaction.

` + term.MomentHelp

// tasksReschedule is the command tasks reschedule.
type tasksReschedule struct {
	*client
	given []string
	at    term.Moment
}

func (p *program) tasksRescheduleCommand() *cobra.Command {
	r := &tasksReschedule{client: p.client()}
	opts := []options.Option{
		{Flag: "at", Kind: "time", Set: options.Moment(&r.at), Usage: "the new time of the tasks"},
	}
	waiting := []store.Status{store.StatusQueued, store.StatusPaused}
	return p.BindArguments(&cobra.Command{
		Use:   "reschedule ID…",
		Short: "Moves tasks to another time",
		Long:  tasksRescheduleHelp,
		Example: `  tasktable tasks reschedule task-SEND_EVENT_REMINDER-42 --at "2027-05-01 16:00"
  tasktable tasks reschedule task-SEND_EVENT_REMINDER-42 task-SEND_EVENT_REMINDER-43 --at +1h`,
	}, append(opts, r.options()...), options.IDs(&r.given, 1, -1, r.ids(waiting...)), r.opened(r.run, r.check))
}

func (r *tasksReschedule) check() error {
	if r.at == "" {
		return options.Usage("--at is missing")
	}
	_, err := options.Instant(r.printing.clock(), "at", r.at)
	return err
}

func (r *tasksReschedule) run(ctx context.Context) error {
	at, err := options.Instant(r.Clock, "at", r.at)
	if err != nil {
		return err
	}
	ids := slices.Compact(slices.Sorted(slices.Values(r.given))) // sorted, so that two transactions cannot deadlock
	receipts, err := together(ctx, r.pool, ids, func(tx pgx.Tx, id string) (store.Receipt, error) {
		return r.tasks.Reschedule(ctx, tx, id, at)
	})
	if err != nil {
		return err
	}
	return r.receipts(inOrder(receipts, r.given), "", store.Absent)
}
