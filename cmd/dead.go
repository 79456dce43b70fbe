package cmd

import (
	"github.com/spf13/cobra"

	"github.com/tasktable/tasktable/cmd/internal/term"
	"github.com/tasktable/tasktable/store/inspect"
)

func (p *program) deadCommand() *cobra.Command {
	dead := group(&cobra.Command{
		Use:   "dead",
		Short: "Lists, retries and archives dead letters",
		Long: `Dead letters are FAILED and EXPIRED tasks. A task is FAILED when its attempts are used up, or after a
permanent error. A dead letter does not run again unless somebody retries or reschedules it. If you have dealt with a
dead letter in another way, archive it.

` + term.MomentHelp,
		Example: `  tasktable dead list --group
  tasktable dead retry --type SEND_EMAIL --message 421 --finished-from -2h
  tasktable dead archive task-SEND_EVENT_REMINDER-42 --note "the member has left"`,
	}, p.deadListCommand())
	for _, verb := range inspect.Verbs() {
		if verb.Dead {
			dead.AddCommand(p.tasksVerbCommand(taskVerb{verb, true}))
		}
	}
	return dead
}

// noDead returns the sentence for an empty list of dead letters.
func noDead(filter *taskFilter, archived bool) string {
	switch {
	case filter.given():
		return "No dead letters like that."
	case archived:
		return "No archived dead letters."
	}
	return "No dead letters."
}
