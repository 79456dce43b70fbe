package cmd

import (
	"strings"

	"github.com/spf13/cobra"

	"github.com/tasktable/tasktable/store"
)

func (p *program) deadCommand() *cobra.Command {
	dead := &cobra.Command{
		Use:   "dead",
		Short: "Lists, retries and archives dead letters",
		Long: `Dead letters are tasks that have FAILED, with their attempts used up or for good, or have EXPIRED. None of them runs
again unless somebody retries or reschedules it; whoever has dealt with one otherwise archives it.

` + momentHelp,
		Example: `  tasktable dead list --group
  tasktable dead retry --type SEND_EMAIL --message 421 --finished-from -2h
  tasktable dead archive task-SEND_EVENT_REMINDER-42 --note "the member has left"`,
		Args: noArguments,
		RunE: func(command *cobra.Command, _ []string) error { return command.Help() },
	}
	dead.AddCommand(p.deadListCommand(), p.deadVerbCommand(deadRetry), p.deadVerbCommand(deadArchive))
	return dead
}

// deadFilter is which dead letters a command is about. As those of tasks, its options have no variables.
type deadFilter struct {
	filter                   store.DeadFilter
	status                   string
	finishedFrom, finishedTo moment
}

func (f *deadFilter) options(c *client) []option {
	kinds := []string{string(store.StatusFailed), string(store.StatusExpired)}
	return []option{
		{flag: "type", value: "type", set: taskType(&f.filter.Type), complete: c.types, usage: "only those of this type"},
		{flag: "status", value: "status", set: upper(choice(&f.status, kinds...)), complete: words(kinds...),
			usage: "only those that have FAILED, or EXPIRED"},
		{flag: "queue", value: "name", set: queueName(&f.filter.Queue), complete: c.queues, usage: "only those in this queue"},
		{flag: "entity", value: "entity", set: text(&f.filter.Entity, store.MaxIDBytes), usage: "only those of this entity, as event:42"},
		{flag: "tenant", value: "tenant", set: text(&f.filter.TenantID, store.MaxIDBytes), usage: "only those of this tenant"},
		{flag: "message", value: "text", set: text(&f.filter.Message, 4096), usage: "only those whose last error contains this"},
		{flag: "finished-from", value: "time", set: instantOf(&f.finishedFrom), usage: "only those that have ended then or later"},
		{flag: "finished-to", value: "time", set: instantOf(&f.finishedTo), usage: "only those that have ended before then"},
	}
}

// archivedOption is for commands to which those that are archived mean something.
func (f *deadFilter) archivedOption() option {
	return option{flag: "archived", set: toggle(&f.filter.Archived), usage: "those that are archived, in place of those that are not"}
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
func (f *deadFilter) resolved(c clock) (filter store.DeadFilter, err error) {
	filter = f.filter
	filter.Status = store.Status(f.status)
	if filter.FinishedFrom, err = c.option("finished-from", f.finishedFrom); err != nil {
		return filter, err
	}
	filter.FinishedTo, err = c.option("finished-to", f.finishedTo)
	return filter, err
}

// check tells what is wrong with the times before there is a clock.
func (f *deadFilter) check(c *client) error {
	_, err := f.resolved(c.printing.clock())
	return err
}
