package dashboard

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strconv"

	"github.com/tasktable/tasktable/store"
	"github.com/tasktable/tasktable/store/inspect"
)

// verbView is a verb that makes sense for a task as it is now.
type verbView struct {
	Name   string // of its path: POST /tasks/{id}/{name}
	Label  string
	Input  string // what the verb asks for: until, note, at, or nothing
	Hint   string // what the verb does
	Danger bool
}

// scopesOf returns the scopes that a verb needs, as the API asks for them.
func scopesOf(verb string) Scopes {
	if verb == string(inspect.Archive) {
		return Operate
	}
	return Schedule
}

// verbsOf returns the verbs that would change a task.
func verbsOf(row store.Row) (verbs []verbView) {
	recurs, ended := row.Cron != nil, row.FinishedAt != nil
	waits := row.Status == store.StatusQueued || row.Status == store.StatusPaused
	runs := row.Status == store.StatusExecuting
	failed := row.Status == store.StatusFailed || row.Status == store.StatusExpired
	offer := func(makesSense bool, verb verbView) {
		if makesSense {
			verbs = append(verbs, verb)
		}
	}
	again := "Run now"
	if ended {
		again = "Run again now"
	}
	offer(failed, verbView{Name: "retry", Label: "Retry", Hint: "It runs at once, with all its attempts."})
	offer(row.Status == store.StatusPaused, verbView{Name: "resume", Label: "Resume",
		Hint: "It runs at its time, or at once if that has passed."})
	offer(!recurs && !runs && !failed, verbView{Name: "run-now", Label: again, Hint: "It keeps its time."})
	offer(recurs, verbView{Name: "run-now", Label: "Run now", Hint: "It makes one more occurrence."})
	offer(!recurs, verbView{Name: "move", Label: "Move", Input: "at", Hint: moveHint(row)})
	offer(isDead(row), verbView{Name: "archive", Label: "Archive", Input: "note",
		Hint: "It leaves the dead letters. It does not run again."})
	switch {
	case runs:
		offer(true, verbView{Name: "pause", Label: "Pause", Input: "until",
			Hint: "The attempt that runs goes on. A retry waits."})
	case row.Status == store.StatusPaused:
		offer(true, verbView{Name: "pause", Label: "Pause until", Input: "until",
			Hint: "It changes the end of the pause. Without a time the pause lasts until somebody resumes the task."})
	case waits:
		offer(true, verbView{Name: "pause", Label: "Pause", Input: "until",
			Hint: "Without a time the pause lasts until somebody resumes the task."})
	}
	offer(waits || runs, verbView{Name: "cancel", Label: "Cancel", Danger: true, Hint: cancelHint(row)})
	offer(row.Fence == nil, verbView{Name: "delete", Label: "Delete", Danger: true, Hint: "Its history stays."})
	return verbs
}

func moveHint(row store.Row) string {
	switch {
	case row.Status == store.StatusExecuting:
		return "It runs once more at that time, when the attempt that runs now has ended."
	case row.FinishedAt != nil:
		return "It runs once more at that time."
	}
	return "It changes the time, and nothing else."
}

func cancelHint(row store.Row) string {
	switch {
	case row.Cron != nil:
		return "It does not fire any more."
	case row.Fence != nil:
		return "It ends the context of the handler that runs."
	}
	return "It does not run."
}

// registerVerbs adds an act for each verb.
func (d *Dashboard) registerVerbs(mux *http.ServeMux) {
	never := func(store.Row) bool { return false }
	always := func(store.Row) bool { return true }
	recurs := func(row store.Row) bool { return row.Cron != nil }
	d.taskVerb(mux, "run-now", never, func(ctx context.Context, v *visit, id string) (store.Receipt, error) {
		return v.tasks.RunNow(ctx, v.db, id)
	})
	d.taskVerb(mux, "retry", never, func(ctx context.Context, v *visit, id string) (store.Receipt, error) {
		return v.tasks.Retry(ctx, v.db, id)
	})
	d.taskVerb(mux, "resume", never, func(ctx context.Context, v *visit, id string) (store.Receipt, error) {
		return v.tasks.Resume(ctx, v.db, id)
	})
	d.taskVerb(mux, "cancel", recurs, func(ctx context.Context, v *visit, id string) (store.Receipt, error) {
		return v.tasks.Cancel(ctx, v.db, id)
	})
	d.taskVerb(mux, "delete", always, func(ctx context.Context, v *visit, id string) (store.Receipt, error) {
		return v.tasks.Delete(ctx, v.db, id)
	})
	d.taskVerb(mux, "archive", never, func(ctx context.Context, v *visit, id string) (store.Receipt, error) {
		return v.tasks.Archive(ctx, v.db, id, v.form("note"))
	})
	d.taskVerb(mux, "pause", never, pauseTask)
	d.taskVerb(mux, "move", never, moveTask)
}

func pauseTask(ctx context.Context, v *visit, id string) (store.Receipt, error) {
	until, err := v.untilOf()
	switch {
	case err != nil:
		return store.Receipt{}, err
	case until.IsZero():
		return v.tasks.Pause(ctx, v.db, id)
	}
	return v.tasks.PauseUntil(ctx, v.db, id, until)
}

func moveTask(ctx context.Context, v *visit, id string) (store.Receipt, error) {
	at, err := v.momentOf("at")
	switch {
	case err != nil:
		return store.Receipt{}, err
	case at.IsZero():
		return store.Receipt{}, notValid("At must be given.")
	}
	return v.tasks.Reschedule(ctx, v.db, id, at)
}

// confirmTaskView asks before a verb is done.
type confirmTaskView struct {
	Row  store.Row
	Verb verbView
	Text string
}

// taskVerb adds the act of a verb. It asks first if asks says so.
func (d *Dashboard) taskVerb(mux *http.ServeMux, name string, asks func(store.Row) bool,
	do func(context.Context, *visit, string) (store.Receipt, error),
) {
	own := act{path: "/tasks/{id}/" + name, needs: scopesOf(name)}
	d.act(mux, own, func(ctx context.Context, v *visit) (done, error) {
		row, err := v.lockedAsSeen(ctx)
		if err != nil {
			return done{}, err
		}
		if i := slices.IndexFunc(verbsOf(row), func(verb verbView) bool { return verb.Name == name }); i >= 0 &&
			asks(row) && v.form("confirmed") == "" {
			verb := verbsOf(row)[i]
			return done{show: "confirm-task", title: verb.Label + " " + row.ID,
				view: confirmTaskView{row, verb, confirmText(row, name)}}, nil
		}
		receipt, err := do(ctx, v, row.ID)
		if err != nil {
			return done{}, err
		}
		text, err := outcomeText(row, name, receipt)
		made := done{text: text, to: taskPath(row.ID)}
		if v.form("back") != "" {
			made.to = "" // the form says where to
		}
		return made, err
	})
}

func confirmText(row store.Row, verb string) string {
	switch {
	case verb == "delete" && row.Cron != nil:
		return "The recurring task is deleted, and does not fire any more. Its occurrences and its history stay."
	case verb == "delete":
		return "The task is deleted. Its history stays."
	}
	return "The recurring task is cancelled, and does not fire any more. Occurrences that wait run all the same."
}

// lockedAsSeen is locked, for an act on the task of the path. The form's field status is the status that the person
// saw. A task that has ended since is not started again by somebody who did not know that. Its revision is the same.
func (v *visit) lockedAsSeen(ctx context.Context) (store.Row, error) {
	row, err := v.locked(ctx, v.path("id"))
	if err != nil {
		return row, err
	}
	seen := store.Status(v.form("status"))
	if seen != "" && hasEnded(seen) != hasEnded(row.Status) {
		return row, problem{http.StatusConflict, "Changed meanwhile", errorView{Text: fmt.Sprintf(
			"%s was %s when you saw it. It is %s now. Nothing was done. Look at it again.", row.ID, seen, row.Status)}}
	}
	return row, nil
}

func hasEnded(status store.Status) bool {
	switch status {
	case store.StatusQueued, store.StatusPaused, store.StatusExecuting:
		return false
	}
	return true
}

// outcomeText tells what a verb has done. It returns an error if that is nothing.
func outcomeText(row store.Row, verb string, receipt store.Receipt) (string, error) {
	nothing := func(why string) (string, error) {
		return "", problem{http.StatusConflict, "Nothing was done", errorView{Text: why}}
	}
	switch receipt.Outcome {
	case store.Absent:
		return nothing("There is no task " + row.ID + " any more.")
	case store.RunsAgain:
		return row.ID + " runs, and runs once more after this attempt.", nil
	case store.Running:
		return nothing(row.ID + " is claimed by a node. Cancel it first, or wait until it has ended.")
	case store.Finished:
		return nothing(row.ID + " has ended: it is " + string(row.Status) + ".")
	case store.Unchanged:
		return row.ID + " was so already. Nothing was changed.", nil
	case store.Rescheduled, store.Rearmed:
		if row.Status == store.StatusExecuting {
			return row.ID + " runs once more at the new time.", nil
		}
		return row.ID + " has a new time.", nil
	}
	said := map[string]string{
		"run-now": " is due now.", "retry": " is due now, with all its attempts.",
		"resume": " waits for its time again.",
		"cancel": " is cancelled.", "delete": " is deleted.", "archive": " is archived.", "pause": " is paused.",
	}
	if verb == "run-now" && row.Cron != nil {
		return row.ID + " has one more occurrence.", nil
	}
	return row.ID + said[verb], nil
}

// Revision is the revision that the person sees.
func (v confirmTaskView) Revision() string { return strconv.FormatInt(v.Row.Revision, 10) }

// Revision is the revision that the person sees.
func (v taskView) Revision() string { return strconv.FormatInt(v.Row.Revision, 10) }
