package cmd

import (
	"context"

	"github.com/jackc/pgx/v5"
	"github.com/spf13/cobra"

	"github.com/tasktable/tasktable/store"
)

const tasksRescheduleHelp = `Moves tasks to another time, and keeps all else. Outcomes: rescheduled (it waited, or runs and will run again), rearmed
(it had ended, and now waits for the new time), unchanged (it has that time), finished (it has ended at that time),
absent: one that does not exist makes the exit code 1, and the others are done all the same. It is one transaction.

` + momentHelp

// tasksReschedule is the command tasks reschedule.
type tasksReschedule struct {
	*client
	given []string
	at    moment
}

func (p *program) tasksRescheduleCommand() *cobra.Command {
	r := &tasksReschedule{client: p.client()}
	options := []option{{flag: "at", value: "time", set: instantOf(&r.at), usage: "the time they are moved to"}}
	waiting := []store.Status{store.StatusQueued, store.StatusPaused}
	return p.bindArguments(&cobra.Command{
		Use:   "reschedule ID…",
		Short: "Moves tasks to another time",
		Long:  tasksRescheduleHelp,
		Example: `  tasktable tasks reschedule task-SEND_EVENT_REMINDER-42 --at "2027-05-01 16:00"
  tasktable tasks reschedule task-SEND_EVENT_REMINDER-42 task-SEND_EVENT_REMINDER-43 --at +1h`,
	}, append(options, r.options()...), ids(&r.given, 1, -1, r.ids(waiting...)), r.opened(r.run, r.check))
}

func (r *tasksReschedule) check() error {
	if r.at == "" {
		return usage("--at is missing")
	}
	_, err := r.printing.clock().option("at", r.at)
	return err
}

func (r *tasksReschedule) run(ctx context.Context) error {
	at, err := r.option("at", r.at)
	if err != nil {
		return err
	}
	return r.each(ctx, r.given, func(tx pgx.Tx, id string) (store.Receipt, error) {
		return r.tasks.Reschedule(ctx, tx, id, at)
	}, store.Absent)
}
