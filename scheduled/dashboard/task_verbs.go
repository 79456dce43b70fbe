package dashboard

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strconv"

	"github.com/tasktable/tasktable/scheduled/api/keys"
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
	Dead   bool // of dead letters alone, so a page of recurring tasks has no such verb
}

// move is the verb that gives a task another time. The API and the command line edit the task instead.
const move = "move"

// scopesOf returns the scopes that a verb needs, as the API asks for them.
func scopesOf(rule inspect.VerbRule) Scopes {
	scopes, _ := ScopesOf(keys.Scope(rule.Scope))
	return scopes
}

// verbsOf returns the verbs that would change a task, and that the person may do.
func (v *visit) verbsOf(row store.Row) (verbs []verbView) {
	for _, rule := range inspect.Verbs() {
		if rule.Verb == inspect.Archive && row.Cron == nil && v.may(Schedule) { // after those that start the task
			verbs = append(verbs, verbView{Name: move, Label: "Move", Input: "at", Hint: moveHint(row)})
		}
		effect := rule.EffectOnTask(row)
		ends := row.Status == store.StatusPaused && rule.Needs("until") // another end of the pause
		if !v.may(scopesOf(rule)) || !effect.Writes() && !ends ||
			row.Cron == nil && slices.Contains(rule.Odd, row.Status) {
			continue
		}
		one := verbView{Name: rule.Path(), Label: rule.Label, Hint: "It " + effect.Text + ".", Danger: rule.Danger,
			Dead: rule.Dead}
		if len(rule.Takes) > 0 && rule.Takes[0] != "over" { // one task is not spread
			one.Input = rule.Takes[0]
		}
		verbs = append(verbs, one)
	}
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

// verbAct is the act of a verb, below the pages of tasks or of recurring tasks.
func verbAct(rule inspect.VerbRule, recurring bool) func(context.Context, *visit) (done, error) {
	return func(ctx context.Context, v *visit) (done, error) { return actOnTask(ctx, v, rule, recurring) }
}

func actOnTask(ctx context.Context, v *visit, rule inspect.VerbRule, recurring bool) (done, error) {
	row, err := v.lockedAsSeen(ctx)
	page := taskPath(row.ID)
	if recurring {
		page = recurringPath(row.ID)
	}
	switch asks := rule.Asks || rule.Danger && row.Cron != nil; {
	case err != nil:
		return done{}, err
	case recurring && row.Cron == nil:
		return done{}, fmt.Errorf("task %s: %w", row.ID, store.ErrNotRecurring)
	case asks && v.form("confirmed") == "" && rule.EffectOnTask(row).Writes():
		return v.askVerb(ctx, rule, row, page)
	}
	action := inspect.Action{Verb: rule.Verb, Note: v.form("note")}
	if rule.Needs("until") {
		if action.Until, err = v.untilOf(); err != nil {
			return done{}, err
		}
	}
	did, err := v.inspector.Do(ctx, v.db, action, inspect.Targets{IDs: []string{row.ID}})
	if err != nil {
		return done{}, err
	}
	text := rule.Told(row.ID, did.Receipts, 0) + "."
	if effect := rule.EffectOnTask(row); row.Cron != nil && effect.Text == rule.Recurring {
		text = row.ID + " " + effect.Text + "."
	}
	switch did.Receipts[0].Outcome {
	case store.Absent, store.Running, store.Finished:
		return done{}, tell(http.StatusConflict, "Nothing was done", text)
	}
	return v.doneTo(text, page), nil
}

// doneTo leads to a page, unless the form says where to.
func (v *visit) doneTo(text, page string) done {
	if v.form("back") != "" {
		page = ""
	}
	return done{text: text, to: page}
}

// askVerb asks before a verb is done to one task.
func (v *visit) askVerb(ctx context.Context, rule inspect.VerbRule, row store.Row, page string) (done, error) {
	asked := confirmation{
		Said:  []remark{{Text: "It " + rule.EffectOnTask(row).Text + "."}},
		Facts: []fact{{row.Status, row.Type, v.exact(row.ScheduledAt)}},
		Path:  page + "/" + rule.Path(), Button: rule.Label, Danger: true, Back: page,
	}
	if row.Cron != nil && rule.Verb == inspect.Cancel {
		task, err := v.inspector.GetRecurring(ctx, v.db, row.ID)
		if err != nil {
			return done{}, err
		}
		if by := textOf(task.DeclaredBy); by != "" {
			asked.Said = append(asked.Said, remark{Tone: "warn", Text: fmt.Sprintf("The code of %s declares it. "+
				"It stays cancelled all the same, also when nodes of %s start.", by, by)})
		}
	}
	asked = asked.with("revision", strconv.FormatInt(row.Revision, 10), "status", string(row.Status),
		"back", v.form("back"))
	return asked.asked(rule.Label + " " + row.ID + "?"), nil
}

// moveTask gives a task another time.
func moveTask(ctx context.Context, v *visit) (done, error) {
	row, err := v.lockedAsSeen(ctx)
	if err != nil {
		return done{}, err
	}
	at, err := v.momentOf("at")
	switch {
	case err != nil:
		return done{}, err
	case at.IsZero():
		return done{}, notValid("At must be given.")
	}
	receipt, err := v.tasks.Reschedule(ctx, v.db, row.ID, at)
	text := row.ID + " has a new time."
	switch {
	case err != nil:
		return done{}, err
	case receipt.Outcome == store.Unchanged, receipt.Outcome == store.Finished:
		text = row.ID + " had this time already."
	case row.Status == store.StatusExecuting:
		text = row.ID + " runs once more at the new time."
	}
	return v.doneTo(text, taskPath(row.ID)), nil
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
		return row, conflict(fmt.Sprintf("%s was %s when you saw it. It is %s now. Nothing was done. Look at it again.",
			row.ID, seen, row.Status))
	}
	return row, nil
}

func hasEnded(seen store.Status) bool {
	switch seen {
	case store.StatusQueued, store.StatusPaused, store.StatusExecuting:
		return false
	}
	return true
}
