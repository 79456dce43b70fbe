package inspect

import (
	"fmt"
	"slices"
	"strings"

	"github.com/tasktable/tasktable/store"
)

// Verb names a verb for Do.
type Verb string

// The verbs. The methods of store.Store with the same names document the effect of each verb on a task.
const (
	Cancel  Verb = "cancel"
	Pause   Verb = "pause"
	Resume  Verb = "resume"
	RunNow  Verb = "run_now"
	Retry   Verb = "retry"
	Archive Verb = "archive"
	Delete  Verb = "delete"
)

// VerbRule is a verb with its words and rules. The API makes its paths from it, the dashboard its buttons and
// questions, and the command line its commands.
type VerbRule struct {
	Verb    Verb
	Label   string // of its button: "Run now"
	Does    string // in a sentence about several tasks: "runs"
	Done    string // the state of a task afterwards, in a sentence: "due now"
	Summary string
	// Scope is the scope of a key that may do it, as package keys names it.
	Scope string
	// Takes are the arguments that the verb takes: until, note or over. over is for several tasks.
	Takes []string
	// Statuses are those of the tasks that a filter selects if it names no status.
	Statuses []store.Status
	// Dead tells that it works on dead letters alone. Then a filter selects no archived ones.
	Dead bool
	// Danger tells that work is lost. Asks tells that a person must confirm it even for one task, because it cannot be
	// undone.
	Danger, Asks bool
	// Restarts tells that it works on tasks that have ended, too. A person who saw a task that waits did not mean one
	// that has ended since.
	Restarts bool
	// First is the verb that a task needs first if a node has claimed it. "" means that this verb works on such a task.
	First   Verb
	Effects []Effect
	// Odd are the statuses of tasks for which few people want it, so that a page with one task does not offer it.
	Odd []store.Status
	// Recurring is the text of the effect on a recurring task. "" means that it is the same as on others.
	Recurring string

	call string // of the SQL function
}

// Effect is what a verb does to tasks of some statuses.
type Effect struct {
	Statuses []store.Status // nil: all that no effect before it has
	Outcome  store.Outcome
	Text     string // goes on after "it": "becomes CANCELLED"
}

// Writes reports whether the effect changes a task.
func (e Effect) Writes() bool {
	switch e.Outcome {
	case store.Unchanged, store.Finished, store.Running, store.Absent:
		return false
	}
	return true
}

var (
	queued, paused     = []store.Status{store.StatusQueued}, []store.Status{store.StatusPaused}
	executing          = []store.Status{store.StatusExecuting}
	waitingStatuses    = []store.Status{store.StatusQueued, store.StatusPaused}
	livingStatuses     = []store.Status{store.StatusQueued, store.StatusPaused, store.StatusExecuting}
	completedOrSkipped = []store.Status{store.StatusCompleted, store.StatusSkipped}
	endedStatuses      = []store.Status{store.StatusFailed, store.StatusExpired, store.StatusCompleted,
		store.StatusCancelled, store.StatusSkipped}
)

const hasEnded = "has ended, and stays as it is"

// verbRules are in the order of their buttons. To add a verb, add it here, and write its function in SQL beside those
// of the others, between enter_verb and leave_verb.
var verbRules = []VerbRule{
	{
		Verb: Retry, Label: "Retry", Does: "retries", Done: "due now, with all attempts",
		Summary: "Runs FAILED and EXPIRED tasks again at once", Scope: "schedule", Takes: []string{"over"},
		Statuses: deadStatuses(), Dead: true,
		call: `tasktable.retry(chosen.id, given.by, given.wake, given.after + given.step * named.steps)`,
		Effects: []Effect{
			{deadStatuses(), store.Queued, "runs again at once, with all its attempts and the idempotency key that " +
				"it " +
				"had, and its expiration counts from now"},
			{completedOrSkipped, store.Finished, hasEnded},
			{nil, store.Unchanged, "is no dead letter, and stays as it is"},
		},
	},
	{
		Verb: Resume, Label: "Resume", Does: "resumes", Done: "queued again",
		Summary: "Queues paused tasks for the time they had", Scope: "schedule", Statuses: paused,
		call: `tasktable.resume(chosen.id, given.by)`,
		Effects: []Effect{
			{paused, store.Queued, "becomes QUEUED for the time that it had, or for now if that has passed"},
			{append(queued, executing...), store.Unchanged, "is not paused, and stays as it is"},
			{nil, store.Finished, hasEnded},
		},
	},
	{
		Verb: RunNow, Label: "Run now", Does: "runs", Done: "due now",
		Summary: "Runs tasks at once, also those that have ended", Scope: "schedule", Statuses: waitingStatuses,
		Restarts: true, Odd: append(executing, deadStatuses()...),
		call: `tasktable.run_now(chosen.id, given.by, given.wake)`,
		Effects: []Effect{
			{waitingStatuses, store.Queued, "runs at once, with all its attempts, and its expiration counts from now"},
			{executing, store.RunsAgain, "runs already, and runs once more when the attempt has ended"},
			{nil, store.Queued, "has ended, and runs again at once, with all its attempts"},
		},
		Recurring: "gets one more occurrence, and stays as it is",
	},
	{
		Verb: Archive, Label: "Archive", Does: "archives", Done: "archived",
		Summary: "Marks dead letters as dealt with", Scope: "operate", Takes: []string{"note"},
		Statuses: deadStatuses(), Dead: true, call: `tasktable.archive(chosen.id, given.note, given.by)`,
		Effects: []Effect{
			{deadStatuses(), store.Archived, "is marked as dealt with, and is no longer listed or counted as a dead " +
				"letter"},
			{nil, store.Unchanged, "is no dead letter, and stays as it is"},
		},
	},
	{
		Verb: Pause, Label: "Pause", Does: "pauses", Done: "paused",
		Summary: "Keeps tasks from running until resumed, or until a time", Scope: "schedule",
		Takes: []string{"until"}, Statuses: queued, call: `tasktable.pause(chosen.id, given.by, given.until)`,
		Effects: []Effect{
			{queued, store.Paused, "becomes PAUSED until somebody resumes it, or until the given time"},
			{executing, store.Paused, "goes on with this attempt, whose outcome counts, " +
				"but a retry waits for the resume"},
			{paused, store.Unchanged, "stays PAUSED, but until the given time"},
			{nil, store.Finished, hasEnded},
		},
	},
	{
		Verb: Cancel, Label: "Cancel", Does: "cancels", Done: "cancelled", Summary: "Keeps tasks from running",
		Scope: "schedule", Statuses: livingStatuses, Danger: true,
		call: `tasktable.cancel(chosen.id, given.by)`,
		Effects: []Effect{
			{waitingStatuses, store.Cancelled, "becomes CANCELLED, and does not run"},
			{executing, store.Cancelled, "becomes CANCELLED, and the context of its handler ends"},
			{[]store.Status{store.StatusCancelled}, store.Unchanged, "is CANCELLED, and stays as it is"},
			{nil, store.Finished, hasEnded},
		},
		Recurring: "does not fire any more, but occurrences that wait or run are not cancelled",
	},
	{
		Verb: Delete, Label: "Delete", Does: "deletes", Done: "deleted", Summary: "Removes tasks; their history stays",
		Scope: "schedule", Statuses: endedStatuses, Danger: true, Asks: true, Restarts: true,
		First: Cancel, call: `tasktable.delete(chosen.id, given.by)`,
		Effects: []Effect{
			{waitingStatuses, store.Deleted, "is removed, and does not run; its history stays"},
			{executing, store.Running, "is claimed by a node, and stays; cancel it first"},
			{nil, store.Deleted, "is removed; its history stays"},
		},
		Recurring: "is removed, and does not fire any more; its occurrences and its history stay",
	},
}

// Verbs returns all verbs, in the order of their buttons.
func Verbs() []VerbRule { return slices.Clone(verbRules) }

// Rule returns the rule of the verb. known is false if there is no such verb.
func (v Verb) Rule() (rule VerbRule, known bool) {
	at := slices.IndexFunc(verbRules, func(rule VerbRule) bool { return rule.Verb == v })
	if at < 0 {
		return VerbRule{}, false
	}
	return verbRules[at], true
}

// verbWords lists the verbs.
func verbWords() string {
	words := make([]string, len(verbRules))
	for i, rule := range verbRules {
		words[i] = string(rule.Verb)
	}
	return "must be " + strings.Join(words[:len(words)-1], ", ") + " or " + words[len(words)-1]
}

// Path is the verb's name in paths and on the command line: run-now.
func (r VerbRule) Path() string { return strings.ReplaceAll(string(r.Verb), "_", "-") }

// Needs reports whether the verb takes an argument.
func (r VerbRule) Needs(argument string) bool { return slices.Contains(r.Takes, argument) }

// EffectOn returns the effect of the verb on tasks of a status.
func (r VerbRule) EffectOn(status store.Status) Effect {
	at := slices.IndexFunc(r.Effects, func(e Effect) bool {
		return e.Statuses == nil || slices.Contains(e.Statuses, status)
	})
	return r.Effects[at]
}

// EffectOnTask returns the effect of the verb on a task as it is now.
func (r VerbRule) EffectOnTask(row store.Row) Effect {
	effect := r.EffectOn(row.Status)
	if held := r.EffectOn(store.StatusExecuting); row.Fence != nil && held.Outcome == store.Running {
		effect = held // it was edited or cancelled while a node has it
	}
	if row.ArchivedAt != nil && effect.Outcome == store.Archived {
		effect = Effect{Outcome: store.Unchanged, Text: "is archived already"}
	}
	if row.Cron != nil && r.Recurring != "" && effect.Writes() {
		effect.Text = r.Recurring
	}
	return effect
}

// Answers are the outcomes of the verb.
func (r VerbRule) Answers() (outcomes []store.Outcome) {
	for _, effect := range append(slices.Clone(r.Effects), Effect{Outcome: store.Absent}) {
		if !slices.Contains(outcomes, effect.Outcome) {
			outcomes = append(outcomes, effect.Outcome)
		}
	}
	return outcomes
}

// Help tells what the verb does to tasks of each status, one line each.
func (r VerbRule) Help() string {
	var text strings.Builder
	for _, effect := range r.Effects {
		statuses := "others"
		if effect.Statuses != nil {
			statuses = StatusWords(effect.Statuses)
		}
		fmt.Fprintf(&text, "- %s: it %s. Outcome: %s.\n", statuses, effect.Text, effect.Outcome)
	}
	if r.Recurring != "" {
		fmt.Fprintf(&text, "- A recurring task: it %s.\n", r.Recurring)
	}
	return text.String()
}

// Told says in a sentence what the verb has done. of is the id of the task if there is only one, and otherwise "". left
// is the number of tasks that Do left alone because somebody had changed them.
func (r VerbRule) Told(of string, receipts []store.Receipt, left int) string {
	counts, done := map[store.Outcome]int{}, 0
	for _, receipt := range receipts {
		counts[receipt.Outcome]++
		if (Effect{Outcome: receipt.Outcome}).Writes() && receipt.Outcome != store.RunsAgain {
			done++
		}
	}
	var parts []string
	note := func(number int, one, several string) {
		switch {
		case number == 0:
		case of != "":
			parts = append(parts, of+" "+one)
		case number == 1:
			parts = append(parts, "1 task "+one)
		default:
			parts = append(parts, fmt.Sprintf("%d tasks %s", number, several))
		}
	}
	note(done, "is "+r.Done, "are "+r.Done)
	note(counts[store.RunsAgain], "runs, and runs once more after this attempt",
		"run, and run once more after this attempt")
	note(counts[store.Unchanged], "stays as it was", "stay as they were")
	note(counts[store.Finished], "had ended already", "had ended already")
	note(counts[store.Running], fmt.Sprintf("is claimed by a node: %s it first", r.First),
		fmt.Sprintf("are claimed by a node: %s them first", r.First))
	note(counts[store.Absent]+left, "had changed meanwhile and was left alone",
		"had changed meanwhile and were left alone")
	if len(parts) == 0 {
		parts = []string{"no task is " + r.Done}
	}
	return strings.Join(parts, "; ")
}
