package dashboard

import (
	"slices"
	"strings"

	"github.com/tasktable/tasktable/scheduled/dashboard/internal/words"
	"github.com/tasktable/tasktable/store"
	"github.com/tasktable/tasktable/store/inspect"
)

// bulkVerb is a verb that acts on many tasks.
type bulkVerb struct {
	Verb  inspect.Verb
	Label string // of its button
	did   string // begins the sentence about the tasks on which it had an effect
	as    string // ends that sentence
	// already tells of tasks that are as the verb asks, or that it is not for. It has one form for one task, and one
	// for several.
	already [2]string
	// statuses are those of all tasks that match, if the filter names none.
	statuses []store.Status
	// Danger tells that it cannot be undone.
	Danger bool
	// restarts tells that the verb works on tasks that have ended. It leaves a task alone whose status has changed
	// since the person saw it, because the person meant a task that waits.
	restarts bool
	effects  []effect
}

// effect tells what a verb does to tasks of some statuses.
type effect struct {
	statuses []store.Status // none: all others
	text     string
}

var (
	waitingStatuses = []store.Status{store.StatusQueued, store.StatusPaused}
	livingStatuses  = []store.Status{store.StatusQueued, store.StatusPaused, store.StatusExecuting}
	deadStatuses    = []store.Status{store.StatusFailed, store.StatusExpired}
	endedStatuses   = []store.Status{store.StatusFailed, store.StatusExpired, store.StatusCompleted,
		store.StatusCancelled, store.StatusSkipped}
)

func only(status store.Status) []store.Status { return []store.Status{status} }

// bulkVerbs are in the order of their buttons.
var bulkVerbs = []bulkVerb{
	{
		Verb: inspect.Cancel, Label: "Cancel", did: "Cancelled", already: [2]string{"was cancelled already",
			"were cancelled already"}, statuses: livingStatuses,
		effects: []effect{
			{waitingStatuses, "They become CANCELLED and do not run."},
			{only(store.StatusExecuting), "They become CANCELLED, and the context of the handler ends. What the " +
				"handler has done so far stays."},
			{only(store.StatusCancelled), "They stay as they are."},
			{nil, "They have ended, and stay as they are."},
		},
	},
	{
		Verb: inspect.Pause, Label: "Pause", did: "Paused", already: [2]string{"was paused already",
			"were paused already"}, statuses: only(store.StatusQueued),
		effects: []effect{
			{only(store.StatusQueued), "They become PAUSED and do not start until somebody resumes them, or until " +
				"the time below."},
			{only(store.StatusExecuting), "The running attempt goes on, and its outcome counts. A retry waits for " +
				"the resume."},
			{only(store.StatusPaused), "They stay paused, but until the time below."},
			{nil, "They have ended, and stay as they are."},
		},
	},
	{
		Verb: inspect.Resume, Label: "Resume", did: "Resumed", already: [2]string{"was not paused",
			"were not paused"}, statuses: only(store.StatusPaused),
		effects: []effect{
			{only(store.StatusPaused), "They become QUEUED for the time they had, or for now if that time has passed."},
			{[]store.Status{store.StatusQueued, store.StatusExecuting}, "They are not paused, and stay as they are."},
			{nil, "They have ended, and stay as they are."},
		},
	},
	{
		Verb: inspect.RunNow, Label: "Run now", did: "Queued", as: "to run now", already: [2]string{"", ""},
		statuses: waitingStatuses, restarts: true,
		effects: []effect{
			{waitingStatuses, "They run at once, with all their attempts. Their expiration counts from now. A " +
				"recurring task stays as it is, and gets one more occurrence."},
			{only(store.StatusExecuting), "They run already, and run once more when the attempt has ended."},
			{nil, "They have ended, and run again at once, with all their attempts."},
		},
	},
	{
		Verb: inspect.Retry, Label: "Retry", did: "Queued", as: "to be tried again", already: [2]string{
			"was no dead letter", "were no dead letters"}, statuses: deadStatuses,
		effects: []effect{
			{deadStatuses, "They run again at once, with all their attempts. Their expiration counts from now."},
			{nil, "They are no dead letters, and stay as they are."},
		},
	},
	{
		Verb: inspect.Archive, Label: "Archive", did: "Archived", already: [2]string{
			"was archived already or was no dead letter", "were archived already or were no dead letters"},
		statuses: deadStatuses,
		effects: []effect{
			{deadStatuses, "They are marked as dealt with, and are no longer counted. They and their history stay " +
				"until their retention ends."},
			{nil, "They are no dead letters, and stay as they are."},
		},
	},
	{
		Verb: inspect.Delete, Label: "Delete", did: "Deleted", already: [2]string{"", ""}, statuses: endedStatuses,
		Danger: true, restarts: true,
		effects: []effect{
			{waitingStatuses, "They are removed and do not run. Their history stays."},
			{only(store.StatusExecuting), "A node has claimed them, so they stay. Cancel them first."},
			{nil, "They are removed. Their history stays."},
		},
	},
}

func bulkVerbOf(word string) (bulkVerb, bool) {
	at := slices.IndexFunc(bulkVerbs, func(known bulkVerb) bool { return string(known.Verb) == word })
	if at < 0 {
		return bulkVerb{}, false
	}
	return bulkVerbs[at], true
}

// effectOn returns what the verb does to tasks of a status.
func (b bulkVerb) effectOn(status store.Status) string {
	for _, one := range b.effects {
		if len(one.statuses) == 0 || slices.Contains(one.statuses, status) {
			return one.text
		}
	}
	return ""
}

// told tells what the verb has done. changed is the number of tasks that were left alone because somebody had changed
// them.
func (b bulkVerb) told(receipts []store.Receipt, changed int) string {
	counts := map[store.Outcome]int{}
	for _, receipt := range receipts {
		counts[receipt.Outcome]++
	}
	rest := counts[store.Unchanged] + counts[store.Finished] + counts[store.Running] + counts[store.Absent] +
		counts[store.RunsAgain]
	text := b.did + " " + amount(len(receipts)-rest, "task", "tasks")
	if b.as != "" {
		text += " " + b.as
	}
	parts := []string{text}
	note := func(number int, one, several string) {
		switch {
		case number == 1:
			parts = append(parts, "1 "+one)
		case number > 1:
			parts = append(parts, words.Count(number, false)+" "+several)
		}
	}
	note(counts[store.Unchanged], b.already[0], b.already[1])
	note(counts[store.Finished], "had ended already", "had ended already")
	note(counts[store.RunsAgain], "was running and runs once more", "were running and run once more")
	note(counts[store.Running], "was running and was left alone", "were running and were left alone")
	note(counts[store.Absent]+changed, "was changed meanwhile and left alone",
		"were changed meanwhile and left alone")
	return strings.Join(parts, "; ")
}
