package cmd

import (
	"strings"

	"github.com/spf13/cobra"

	"github.com/tasktable/tasktable/cmd/internal/options"
	"github.com/tasktable/tasktable/cmd/internal/term"
	"github.com/tasktable/tasktable/store"
)

func (p *program) deadCommand() *cobra.Command {
	dead := &cobra.Command{
		Use:   "dead",
		Short: "Lists, retries and archives dead letters",
		Long: `Dead letters are tasks that have FAILED, with their attempts used up or for good, or have EXPIRED. None of them runs
again unless somebody retries or reschedules it; whoever has dealt with one otherwise archives it.

` + term.MomentHelp,
		Example: `  tasktable dead list --group
  tasktable dead retry --type SEND_EMAIL --message 421 --finished-from -2h
  tasktable dead archive task-SEND_EVENT_REMINDER-42 --note "the member has left"`,
		Args: options.NoArguments,
		RunE: func(command *cobra.Command, _ []string) error { return command.Help() },
	}
	dead.AddCommand(p.deadListCommand(), p.deadVerbCommand(deadRetry), p.deadVerbCommand(deadArchive))
	return dead
}

// deadFilter is which dead letters a command is about. As those of tasks, its options have no variables.
type deadFilter struct {
	filter                   store.DeadFilter
	status                   string
	finishedFrom, finishedTo term.Moment
}

func (f *deadFilter) options(c *client) []options.Option {
	kinds := []string{string(store.StatusFailed), string(store.StatusExpired)}
	return []options.Option{
		{Flag: "type", Kind: "type", Set: taskType(&f.filter.Type), Complete: c.types, Usage: "only those of this type"},
		{Flag: "status", Kind: "status", Set: upper(options.OneOf(&f.status, kinds...)), Complete: options.Words(kinds...),
			Usage: "only those that have FAILED, or EXPIRED"},
		{Flag: "queue", Kind: "name", Set: queueName(&f.filter.Queue), Complete: c.queues, Usage: "only those in this queue"},
		{Flag: "entity", Kind: "entity", Set: options.Text(&f.filter.Entity, store.MaxIDBytes), Usage: "only those of this entity, as event:42"},
		{Flag: "tenant", Kind: "tenant", Set: options.Text(&f.filter.TenantID, store.MaxIDBytes), Usage: "only those of this tenant"},
		{Flag: "message", Kind: "text", Set: options.Text(&f.filter.Message, 4096), Usage: "only those whose last error contains this"},
		{Flag: "finished-from", Kind: "time", Set: options.Moment(&f.finishedFrom), Usage: "only those that have ended then or later"},
		{Flag: "finished-to", Kind: "time", Set: options.Moment(&f.finishedTo), Usage: "only those that have ended before then"},
	}
}

// archivedOption is for commands to which those that are archived mean something.
func (f *deadFilter) archivedOption() options.Option {
	return options.Option{Flag: "archived", Set: options.Bool(&f.filter.Archived), Usage: "those that are archived, in place of those that are not"}
}

// upper takes a word in small letters, too.
func upper(set func(string) error) func(string) error {
	return func(given string) error { return set(strings.ToUpper(given)) }
}

// given says whether it selects anything less than all.
func (f *deadFilter) given() bool {
	s := f.filter
	return s.Type+f.status+s.Queue+s.Entity+s.TenantID+s.Message+string(f.finishedFrom+f.finishedTo) != ""
}

// none says that there are none.
func (f *deadFilter) none() string {
	switch {
	case f.given():
		return "No dead letters like that."
	case f.filter.Archived:
		return "No archived dead letters."
	}
	return "No dead letters."
}

// resolved is the filter with its times, now that there is a clock.
func (f *deadFilter) resolved(c term.Clock) (filter store.DeadFilter, err error) {
	filter = f.filter
	filter.Status = store.Status(f.status)
	if filter.FinishedFrom, err = options.Instant(c, "finished-from", f.finishedFrom); err != nil {
		return filter, err
	}
	filter.FinishedTo, err = options.Instant(c, "finished-to", f.finishedTo)
	return filter, err
}

// check tells what is wrong with the times before there is a clock.
func (f *deadFilter) check(c *client) error {
	_, err := f.resolved(c.printing.clock())
	return err
}
