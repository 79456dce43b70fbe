package cmd

import (
	"github.com/spf13/cobra"

	"github.com/tasktable/tasktable/cmd/internal/options"
	"github.com/tasktable/tasktable/cmd/internal/term"
	"github.com/tasktable/tasktable/store"
	"github.com/tasktable/tasktable/store/inspect"
)

func (p *program) deadCommand() *cobra.Command {
	dead := &cobra.Command{
		Use:   "dead",
		Short: "Lists, retries and archives dead letters",
		Long: `Dead letters are FAILED and EXPIRED tasks. A task is FAILED when its attempts are used up, or after a
permanent error. A dead letter does not run again unless somebody retries or reschedules it. If you have dealt with a
dead letter in another way, archive it.

` + term.MomentHelp,
		Example: `  tasktable dead list --group
  tasktable dead retry --type SEND_EMAIL --message 421 --finished-from -2h
  tasktable dead archive task-SEND_EVENT_REMINDER-42 --note "the member has left"`,
		Args: options.NoArguments,
		RunE: func(command *cobra.Command, _ []string) error { return command.Help() },
	}
	dead.AddCommand(p.deadListCommand())
	for _, verb := range deadVerbs() {
		dead.AddCommand(p.tasksVerbCommand(verb))
	}
	return dead
}

// deadStatuses are the statuses of dead letters.
func deadStatuses() []store.Status { return inspect.DeadLetters().Statuses }

const deadStatusUsage = "only FAILED or only EXPIRED dead letters"

// noDead returns the sentence for an empty list of dead letters.
func noDead(filter *taskFilter) string {
	switch {
	case filter.given():
		return "No dead letters like that."
	case filter.filter.Archived != nil && *filter.filter.Archived:
		return "No archived dead letters."
	}
	return "No dead letters."
}

// deadVerbs returns the verbs of dead letters. A filter of such a command never selects archived dead letters.
func deadVerbs() []taskVerb {
	dead := deadStatuses()
	return []taskVerb{
		{verb: inspect.Retry, dead: true, name: "retry", does: "retries", statuses: dead, complete: dead,
			undone: []store.Outcome{store.Absent}, short: "Runs dead letters again at once",
			long: `Retries dead letters at once, with all their attempts and the idempotency key that they had.
Their expiration counts from now. With --over they become due one after the other, evenly over that time, those that
ended first first. A service that has just come back is then not called by all of them at once.

Outcomes: queued, unchanged (it is no dead letter), finished (it is COMPLETED or SKIPPED), absent.`,
			example: `  tasktable dead retry task-SEND_EVENT_REMINDER-42
  tasktable dead retry --type SEND_EMAIL --message 421 --finished-from -2h
  tasktable dead retry --type SEND_EMAIL --limit 1 --yes        # one first, to see whether it works now
  tasktable dead retry --all --over 10m                         # not all of them at once
  tasktable dead retry --all --yes --output json | jq length`},
		{verb: inspect.Archive, dead: true, name: "archive", does: "archives", statuses: dead, complete: dead,
			undone: []store.Outcome{store.Absent}, short: "Marks dead letters as dealt with",
			long: `Archives dead letters. From then on lists and counts leave them out. They stay until retention
removes them. Outcomes: archived, unchanged (it is no dead letter, or was archived before), absent.`,
			example: `  tasktable dead archive task-SEND_EVENT_REMINDER-42 --note "the member has left"
  tasktable dead archive --status EXPIRED --finished-to -7d --note "too late now"`},
	}
}
