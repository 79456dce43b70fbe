package cmd

import (
	"errors"
	"strings"

	"github.com/spf13/cobra"

	"github.com/tasktable/tasktable/store"
)

func (p *program) tasksCommand() *cobra.Command {
	tasks := &cobra.Command{
		Use:   "tasks",
		Short: "Lists, shows, schedules, cancels, pauses, retries and deletes tasks",
		Long: `Looks at tasks and changes them, for people and for scripts. What it changes is recorded with who did it, as
everything: tasktable tasks show.

` + momentHelp,
		Example: `  tasktable tasks list --status FAILED,EXPIRED --finished-from -1d
  tasktable tasks show task-SEND_EVENT_REMINDER-42
  tasktable tasks schedule --type LOG --payload '{"message": "hi"}' --at +10m
  tasktable tasks cancel --entity event:42 --yes`,
		Args: noArguments,
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
	from, until, finishedFrom, finishedTo moment
}

func (f *taskFilter) options(c *client, statusUsage string) []option {
	return []option{
		{flag: "type", value: "type", set: taskType(&f.filter.Type), complete: c.types, usage: "only tasks of this type"},
		{flag: "status", value: "status", many: true, set: statusesOf(&f.filter.Statuses), complete: completeStatus, usage: statusUsage},
		{flag: "queue", value: "name", set: queueName(&f.filter.Queue), complete: c.queues, usage: "only tasks in this queue"},
		{flag: "entity", value: "entity", set: text(&f.filter.Entity, store.MaxIDBytes), usage: "only tasks of this entity, as event:42"},
		{flag: "tenant", value: "tenant", set: text(&f.filter.TenantID, store.MaxIDBytes), usage: "only tasks of this tenant"},
		{flag: "id-prefix", value: "text", set: text(&f.filter.IDPrefix, store.MaxIDBytes), complete: c.ids(),
			usage: "only tasks whose id begins so"},
		{flag: "spawned-by", value: "id", set: text(&f.filter.SpawnedBy, store.MaxIDBytes), complete: c.ids(),
			usage: "only follow-ups of this task"},
		{flag: "message", value: "text", set: text(&f.filter.Message, 4096),
			usage: "only tasks whose message, such as the last error, contains this"},
		{flag: "scheduled-from", value: "time", set: instantOf(&f.from), usage: "only tasks scheduled for then or later"},
		{flag: "scheduled-to", value: "time", set: instantOf(&f.until), usage: "only tasks scheduled for before then"},
		{flag: "finished-from", value: "time", set: instantOf(&f.finishedFrom), usage: "only tasks that have ended then or later"},
		{flag: "finished-to", value: "time", set: instantOf(&f.finishedTo), usage: "only tasks that have ended before then"},
	}
}

// given says whether it selects anything less than all tasks.
func (f *taskFilter) given() bool {
	s := f.filter
	texts := s.Type + s.Queue + s.Entity + s.TenantID + s.IDPrefix + s.SpawnedBy + s.Message + string(f.from+f.until+f.finishedFrom+f.finishedTo)
	return texts != "" || len(s.Statuses) > 0
}

// resolved is the filter with its times, now that there is a clock.
func (f *taskFilter) resolved(c clock) (filter store.Filter, err error) {
	filter = f.filter
	if filter.From, err = c.option("scheduled-from", f.from); err != nil {
		return filter, err
	}
	if filter.To, err = c.option("scheduled-to", f.until); err != nil {
		return filter, err
	}
	if filter.FinishedFrom, err = c.option("finished-from", f.finishedFrom); err != nil {
		return filter, err
	}
	filter.FinishedTo, err = c.option("finished-to", f.finishedTo)
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
			if choice(&status, statuses()...)(strings.ToUpper(strings.TrimSpace(one))) != nil {
				return errors.New(rule)
			}
			*into = append(*into, store.Status(status))
		}
		return nil
	}
}
