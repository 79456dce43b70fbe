package cmd

import (
	"errors"
	"strings"

	"github.com/spf13/cobra"

	"github.com/tasktable/tasktable/cmd/internal/options"
	"github.com/tasktable/tasktable/cmd/internal/term"
	"github.com/tasktable/tasktable/store"
)

func (p *program) tasksCommand() *cobra.Command {
	tasks := &cobra.Command{
		Use:   "tasks",
		Short: "Lists, shows, schedules, cancels, pauses, retries and deletes tasks",
		Long: `Looks at tasks and changes them, for people and for scripts. What it changes is recorded with who did it, as
everything: tasktable tasks show.

` + term.MomentHelp,
		Example: `  tasktable tasks list --status FAILED,EXPIRED --finished-from -1d
  tasktable tasks show task-SEND_EVENT_REMINDER-42
  tasktable tasks schedule --type LOG --payload '{"message": "hi"}' --at +10m
  tasktable tasks cancel --entity event:42 --yes`,
		Args: options.NoArguments,
		RunE: func(command *cobra.Command, _ []string) error { return command.Help() },
	}
	tasks.AddCommand(p.tasksListCommand(), p.tasksShowCommand(), p.tasksScheduleCommand(), p.tasksRescheduleCommand())
	for _, verb := range taskVerbs() {
		tasks.AddCommand(p.tasksVerbCommand(verb))
	}
	return tasks
}

// taskFilter is which tasks a command is about. Its options have no variables: one that somebody has forgotten would silently
// make a command about other tasks.
type taskFilter struct {
	filter                                store.Filter
	from, until, finishedFrom, finishedTo term.Moment
}

func (f *taskFilter) options(c *client, statusUsage string) []options.Option {
	return []options.Option{
		{Flag: "type", Kind: "type", Set: taskType(&f.filter.Type), Complete: c.types, Usage: "only tasks of this type"},
		{Flag: "status", Kind: "status", Repeatable: true, Set: statusesOf(&f.filter.Statuses), Complete: completeStatus, Usage: statusUsage},
		{Flag: "queue", Kind: "name", Set: queueName(&f.filter.Queue), Complete: c.queues, Usage: "only tasks in this queue"},
		{Flag: "entity", Kind: "entity", Set: options.Text(&f.filter.Entity, store.MaxIDBytes), Usage: "only tasks of this entity, as event:42"},
		{Flag: "tenant", Kind: "tenant", Set: options.Text(&f.filter.TenantID, store.MaxIDBytes), Usage: "only tasks of this tenant"},
		{Flag: "id-prefix", Kind: "text", Set: options.Text(&f.filter.IDPrefix, store.MaxIDBytes), Complete: c.ids(),
			Usage: "only tasks whose id begins so"},
		{Flag: "spawned-by", Kind: "id", Set: options.Text(&f.filter.SpawnedBy, store.MaxIDBytes), Complete: c.ids(),
			Usage: "only follow-ups of this task"},
		{Flag: "message", Kind: "text", Set: options.Text(&f.filter.Message, 4096),
			Usage: "only tasks whose message, such as the last error, contains this"},
		{Flag: "scheduled-from", Kind: "time", Set: options.Moment(&f.from), Usage: "only tasks scheduled for then or later"},
		{Flag: "scheduled-to", Kind: "time", Set: options.Moment(&f.until), Usage: "only tasks scheduled for before then"},
		{Flag: "finished-from", Kind: "time", Set: options.Moment(&f.finishedFrom), Usage: "only tasks that have ended then or later"},
		{Flag: "finished-to", Kind: "time", Set: options.Moment(&f.finishedTo), Usage: "only tasks that have ended before then"},
	}
}

// given says whether it selects anything less than all tasks.
func (f *taskFilter) given() bool {
	s := f.filter
	texts := s.Type + s.Queue + s.Entity + s.TenantID + s.IDPrefix + s.SpawnedBy + s.Message + string(f.from+f.until+f.finishedFrom+f.finishedTo)
	return texts != "" || len(s.Statuses) > 0
}

// resolved is the filter with its times, now that there is a clock.
func (f *taskFilter) resolved(c term.Clock) (filter store.Filter, err error) {
	filter = f.filter
	if filter.From, err = options.Instant(c, "scheduled-from", f.from); err != nil {
		return filter, err
	}
	if filter.To, err = options.Instant(c, "scheduled-to", f.until); err != nil {
		return filter, err
	}
	if filter.FinishedFrom, err = options.Instant(c, "finished-from", f.finishedFrom); err != nil {
		return filter, err
	}
	filter.FinishedTo, err = options.Instant(c, "finished-to", f.finishedTo)
	return filter, err
}

// check tells what is wrong with the times before there is a clock.
func (f *taskFilter) check(c *client) error {
	_, err := f.resolved(c.printing.clock())
	return err
}

func queueName(into *string) func(string) error {
	return func(given string) error {
		if store.CheckQueue(given) != nil {
			return errors.New("must be 1 to 64 of a-z, 0-9, inner - or _")
		}
		*into = given
		return nil
	}
}

// statusesOf takes statuses in large or small letters.
func statusesOf(into *[]store.Status) func(string) error {
	rule := "must be of " + strings.Join(statuses(), ", ") + ", one or several separated by commas"
	return func(given string) error {
		*into = nil
		for one := range strings.SplitSeq(given, ",") {
			var status string
			if options.OneOf(&status, statuses()...)(strings.ToUpper(strings.TrimSpace(one))) != nil {
				return errors.New(rule)
			}
			*into = append(*into, store.Status(status))
		}
		return nil
	}
}
