package dashboard

import (
	"fmt"
	"strings"
	"time"

	"github.com/tasktable/tasktable/scheduled/dashboard/internal/words"
	"github.com/tasktable/tasktable/store"
	"github.com/tasktable/tasktable/store/inspect"
)

// lateFrom is how long a task must have been due before a queue with free slots is worth a look.
const lateFrom = 10 * time.Second

// saturation is about a queue or a lane.
type saturation struct {
	inspect.QueueState
	Led     bool                  // a node leads
	Longest *inspect.RunningTasks // the task that has run for longest
	Now     time.Time
	Zone    *time.Location
}

// sentence says in words what holds a queue up, and how bad that is: good, busy, warn or bad.
func (s saturation) sentence() (text, tone string) {
	of := "queue"
	if s.Type != nil {
		of = "lane"
	}
	oldest := ""
	if s.OldestDue != nil {
		oldest = " The oldest due task has waited for " + words.Short(s.Now.Sub(*s.OldestDue)) + "."
	}
	scope, byType := s.pauses()
	switch {
	case scope != "":
		return scope + oldest, "warn"
	case s.Slots == 0 && s.Due > 0:
		return "No node works this " + of + "." + oldest, "bad"
	case s.Slots == 0 && s.Waiting > 0:
		return "No node works this " + of + ". Its first task is due in " + words.Short(s.NextDue.Sub(s.Now)) + ".",
			"warn"
	case s.Slots == 0:
		return "No node works this " + of + ".", "warn"
	case s.Due > 0 && !s.Led:
		return "No node leads, so nobody claims its due tasks." + oldest, "bad"
	case s.Due > 0 && s.Running >= s.Slots:
		return s.full() + oldest, "warn"
	case byType != "":
		return byType + oldest, "warn"
	case len(s.Limits) > 0:
		return "Held back by limit " + strings.Join(s.Limits, " and limit ") + "." + oldest, "warn"
	case s.Due > 0 && s.Now.Sub(*s.OldestDue) >= lateFrom:
		return "Slots are free, and yet tasks wait." + oldest, "warn"
	case s.Due > 0 || s.Running > 0:
		return "Its tasks start as they become due.", "busy"
	case s.Waiting > 0:
		return "Nothing is due. The next task is due in " + words.Short(s.NextDue.Sub(s.Now)) + ".", "good"
	}
	return "Nothing is due, and nothing waits.", "good"
}

func (s saturation) full() string {
	text := fmt.Sprintf("All %d slots are busy.", s.Slots)
	if s.Slots == 1 {
		text = "The only slot is busy."
	}
	if s.Longest != nil {
		text += " One task has run for " + words.Short(s.Now.Sub(s.Longest.Since)) + "."
	}
	return text
}

// pauses tells of the pauses of everything and of the queue, and of those of types. A pause of the lane's own type
// counts as the former, because it holds back all of the lane.
func (s saturation) pauses() (scope, byType string) {
	var scopes, types []string
	for _, pause := range s.Pauses {
		told := s.told(pause)
		if pause.Scope == "type" && s.Type == nil {
			types = append(types, told)
		} else {
			scopes = append(scopes, told)
		}
	}
	return strings.Join(scopes, " "), strings.Join(types, " ")
}

// told is a pause as a sentence, such as: Type MAIL is paused by ann until 2026-01-02 12:00:00 UTC: it moves.
func (s saturation) told(pause store.Pause) string {
	text := scopeName(pause.Of()) + " is paused by " + pause.PausedBy
	if pause.EndsAt != nil {
		text += " until " + pause.EndsAt.In(s.Zone).Format(exactLayout)
	}
	if pause.Reason != nil {
		text += ": " + strings.TrimRight(*pause.Reason, ". ")
	}
	return text + "."
}

// scopeName names a scope for people.
func scopeName(scope store.Scope) string {
	kind, name, _ := strings.Cut(scope.String(), ":")
	switch kind {
	case "queue":
		return "Queue " + name
	case "type":
		return "Type " + name
	}
	return "Everything"
}
