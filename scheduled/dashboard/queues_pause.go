package dashboard

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/tasktable/tasktable/scheduled/dashboard/internal/words"
	"github.com/tasktable/tasktable/store"
	"github.com/tasktable/tasktable/store/inspect"
)

// pauseForm is the form that pauses a scope.
type pauseForm struct {
	suggestions

	Kind, Name string // as chosen by a link
}

// pauseFormOf fills the form with the scope of the parameter pause, such as type:SEND_EMAIL.
func pauseFormOf(ctx context.Context, v *visit) (form pauseForm, err error) {
	if !v.may(Operate) {
		return form, nil
	}
	form.Kind, form.Name, _ = strings.Cut(v.query("pause"), ":")
	form.suggestions, err = v.suggestions(ctx)
	return form, err
}

func pauseScope(ctx context.Context, v *visit) (done, error) {
	scope, err := scopeOf(v)
	if err != nil {
		return done{}, err
	}
	until, err := v.untilOf()
	if err != nil {
		return done{}, err
	}
	present, err := presentPause(ctx, v, scope)
	if err != nil {
		return done{}, err
	}
	// A confirmation counts only for the pause that it was about.
	confirmed := "nothing"
	if present != nil {
		confirmed = pauseKey(*present)
	}
	if (scope == store.Everything() || present != nil) && v.form("confirmed") != confirmed {
		asked, err := askToPause(ctx, v, scope, until, present)
		asked.Confirmed = confirmed
		name := scopeName(scope)
		return asked.asked("Pause " + strings.ToLower(name[:1]) + name[1:] + "?"), err
	}
	outcome, err := v.tasks.PauseScope(ctx, v.db, scope, until, v.form("reason"))
	if err != nil {
		return done{}, err
	}
	if outcome == store.Unchanged {
		return done{text: scopeName(scope) + " was paused in just this way before."}, nil
	}
	unknown, err := unknownScope(ctx, v, scope)
	return done{text: strings.TrimSpace(scopeName(scope) + " is paused. " + unknown)}, err
}

// askToPause asks before everything is paused, and before a pause replaces another one.
func askToPause(
	ctx context.Context, v *visit, scope store.Scope, until time.Time, present *store.Pause,
) (confirmation, error) {
	name, untilField, ends := scopeName(scope), "", " until somebody resumes it."
	if !until.IsZero() { // +1h must not mean a later time when it is confirmed
		untilField, ends = until.UTC().Format(time.RFC3339), " until "+v.exact(until)+"."
	}
	asked := confirmation{
		Said: []remark{{Tone: "warn", Text: "This pauses " + name + ends}},
		Path: "/queues/pause", Button: "Pause " + name, Danger: true, Back: v.form("back"),
	}.with("kind", v.form("kind"), "name", v.form("name"), "until", untilField, "reason", v.form("reason"),
		"back", v.form("back"))
	if scope == store.Everything() {
		asked.Said[0] = remark{Tone: "bad", Text: "This pauses all tasks of all services" + ends}
	}
	if present != nil {
		text := "It replaces the pause by " + present.PausedBy + ", which holds since " + v.exact(present.PausedAt)
		if present.EndsAt != nil {
			text += " until " + v.exact(*present.EndsAt)
		}
		if reason := textOf(present.Reason); reason != "" {
			text += ": " + reason
		}
		asked.Said = append(asked.Said, remark{Text: text})
	}
	if reason := v.form("reason"); reason != "" {
		asked.Said = append(asked.Said, remark{Text: "Reason: " + reason})
	}
	kind, queue, _ := strings.Cut(scope.String(), ":")
	if kind == "type" { // nothing counts the tasks of a type
		return asked, nil
	}
	states, err := v.inspector.QueueStates(ctx, v.db, inspect.QueueFilter{Queue: queue})
	var all inspect.QueueState
	for _, state := range states {
		all.Due, all.DueMore = all.Due+state.Due, all.DueMore || state.DueMore
		all.Waiting, all.WaitingMore = all.Waiting+state.Waiting, all.WaitingMore || state.WaitingMore
		all.Running += state.Running
	}
	asked.Facts = []fact{
		{Name: "Due now", Text: words.Count(all.Due, all.DueMore) + ": they do not start"},
		{Name: "Waiting", Text: words.Count(all.Waiting, all.WaitingMore) + ": they do not start when they are due"},
		{Name: "Claimed", Text: words.Count(all.Running, false) + ": those that run finish"},
	}
	return asked, err
}

func resumeScope(ctx context.Context, v *visit) (done, error) {
	scope, err := store.ParseScope(v.form("scope"))
	if err != nil {
		return done{}, err
	}
	present, err := presentPause(ctx, v, scope)
	if err != nil {
		return done{}, err
	}
	if present != nil && pauseKey(*present) != v.form("paused_at") {
		return done{}, conflict(present.PausedBy +
			" has paused this anew since you saw it. Nothing was done. Look at it again.")
	}
	outcome, err := v.tasks.ResumeScope(ctx, v.db, scope)
	switch {
	case err != nil:
		return done{}, err
	case outcome == store.Unchanged:
		return done{text: scopeName(scope) + " was not paused any more."}, nil
	}
	return done{text: scopeName(scope) + " is resumed. Its due tasks start unless another pause holds them."}, nil
}

// scopeOf reads the fields kind and name. Of everything there is no name.
func scopeOf(v *visit) (store.Scope, error) {
	switch kind, name := v.form("kind"), strings.TrimSpace(v.form("name")); kind {
	case "all":
		return store.Everything(), nil
	case "queue":
		return store.Queue(name), store.CheckQueue(name)
	case "type":
		return store.Type(name), store.CheckType(name)
	}
	return store.Scope{}, notValid("kind must be all, queue or type.")
}

// presentPause returns the pause that holds for just this scope, or nil.
func presentPause(ctx context.Context, v *visit, scope store.Scope) (*store.Pause, error) {
	pauses, err := v.tasks.Pauses(ctx, v.db)
	for i := range pauses {
		if pauses[i].Of() == scope {
			return &pauses[i], err
		}
	}
	return nil, err
}

// unknownScope tells that nothing has the name of the scope. It may be a mistake, or be meant for later.
func unknownScope(ctx context.Context, v *visit, scope store.Scope) (string, error) {
	used, err := v.suggestions(ctx)
	switch kind, name, _ := strings.Cut(scope.String(), ":"); {
	case err != nil:
		return "", err
	case kind == "queue" && !slices.Contains(used.Queues, name):
		return "No node works this queue, and no task waits in it.", nil
	case kind == "type" && !slices.Contains(used.Types, name):
		return "No node has this type, and no task of it waits.", nil
	}
	return "", nil
}
