package cmd

import (
	"github.com/spf13/cobra"

	"github.com/tasktable/tasktable/cmd/internal/term"
	"github.com/tasktable/tasktable/store/inspect"
)

func (p *program) tasksCommand() *cobra.Command {
	tasks := group(&cobra.Command{
		Use:   "tasks",
		Short: "Lists, shows, schedules, cancels, pauses, retries and deletes tasks",
		Long: `Shows tasks and changes them, for people and for scripts. The history of a task records each change and
who made it: tasktable tasks show.

` + term.MomentHelp,
		Example: `  tasktable tasks list --status FAILED,EXPIRED --finished-from -1d
  tasktable tasks show task-SEND_EVENT_REMINDER-42
  tasktable tasks schedule --type LOG --payload '{"message": "hi"}' --at +10m
  tasktable tasks cancel --entity event:42 --yes`,
	}, p.tasksListCommand(), p.tasksShowCommand(), p.tasksScheduleCommand(), p.tasksRescheduleCommand())
	for _, verb := range inspect.Verbs() {
		tasks.AddCommand(p.tasksVerbCommand(taskVerb{verb, false}))
	}
	return tasks
}
