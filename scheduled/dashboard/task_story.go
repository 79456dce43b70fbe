package dashboard

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/tasktable/tasktable/scheduled/dashboard/internal/words"
	"github.com/tasktable/tasktable/store"
	"github.com/tasktable/tasktable/store/inspect"
)

// storyView is what has happened to a task, oldest first. The middle of a long story folds away.
type storyView struct {
	First, Folded, Last []storyLine
	// Shortened tells that even the folded lines are not all, because Why reads only the last changes and attempts.
	Shortened bool
}

const (
	storyBegins = 5
	storyEnds   = 50
)

// storyLine is one event.
type storyLine struct {
	Key                 string // it stays when the page is read again
	At                  time.Time
	Tone                string
	Before, Task, After string // the text; Task is the id in it that links to a task, or ""
	Facts               []factView
	Edits               []factView
	Error               string // in full, if the fact has only its beginning
}

// factView is a detail of an event. Of an edit it has the value before, too.
type factView struct {
	Name       string
	Was, Value valueView
}

// valueView is a text or a time. If it has neither, there is no value.
type valueView struct {
	Text string
	At   *time.Time
}

// None reports whether there is no value.
func (v valueView) None() bool { return v.Text == "" && v.At == nil }

// storyOf shows a story. payload tells whether the person may see payloads.
func storyOf(
	e inspect.Explanation, executions []store.Execution, followUps []inspect.FollowUp, payload bool,
) storyView {
	ended := map[int64]store.Execution{} // by the time at which they ended
	for _, x := range executions {
		ended[x.FinishedAt.UnixMicro()] = x
	}
	lines := make([]storyLine, len(e.Story))
	for i, told := range e.Story {
		line := storyLine{Key: strconv.FormatInt(told.At.UnixMicro(), 36) + told.Kind, At: told.At, Before: told.Text}
		if i > 0 && lines[i-1].Key == line.Key {
			line.Key += "+" + strconv.Itoa(i)
		}
		for _, fact := range told.Facts {
			line.add(fact, told.Kind, payload)
		}
		if x, is := ended[told.At.UnixMicro()]; told.Kind == "execution" && is {
			line.ends(x)
		}
		line.tone(told)
		line.linkTo(told.Kind, followUps)
		lines[i] = line
	}
	s := storyView{First: lines, Shortened: e.Shortened}
	if len(lines) > storyBegins+storyEnds+storyBegins { // a fold of a few lines would save nothing
		cut := len(lines) - storyEnds
		s.First, s.Folded, s.Last = lines[:storyBegins], lines[storyBegins:cut], lines[cut:]
	}
	return s
}

// add adds a fact. Of a payload that the person may not see, or that is encoded, it tells only that it was edited.
func (l *storyLine) add(fact inspect.Fact, kind string, payload bool) {
	one := factView{fact.Name, valueOf(fact.Was), valueOf(fact.Value)}
	if strings.HasPrefix(fact.Name, "payload.") && (!payload || strings.HasPrefix(fact.Name, "payload.$")) {
		one = factView{Name: "payload", Value: valueView{Text: "edited"}}
		for _, edit := range append(l.Edits, l.Facts...) {
			if edit.Name == one.Name {
				return
			}
		}
	}
	edited := kind == "change" && !strings.HasPrefix(l.Before, "scheduled by") &&
		!strings.HasPrefix(l.Before, "deleted") && !strings.HasPrefix(l.Before, "made,")
	switch {
	case one.Was.None() && one.Value.None():
	case edited:
		l.Edits = append(l.Edits, one)
	default:
		l.Facts = append(l.Facts, one)
	}
}

var attemptTones = map[store.AttemptOutcome]string{
	store.AttemptCompleted: "good",
	store.AttemptFailed:    "bad", store.AttemptLost: "bad", store.AttemptExpired: "bad",
	store.AttemptRetried: "warn", store.AttemptSnoozed: "warn", store.AttemptInterrupted: "warn",
}

// ends adds the whole error of an attempt that has ended.
func (l *storyLine) ends(x store.Execution) {
	l.Tone = attemptTones[x.Outcome]
	if x.Error == nil {
		return
	}
	whole := strings.TrimSpace(*x.Error)
	told := strings.Contains(l.Before, whole)
	for _, fact := range l.Facts {
		told = told || fact.Value.Text == whole
	}
	// Of these two outcomes the text tells all.
	if !told && x.Outcome != store.AttemptExpired && x.Outcome != store.AttemptCancelled {
		l.Error = whole
	}
}

// tone sets the tone of a line that is not the end of an attempt.
func (l *storyLine) tone(told inspect.StoryLine) {
	switch {
	case l.Tone != "":
	case told.Kind == "execution" && strings.Contains(told.Text, " began"):
		l.Tone = "busy"
	case told.Kind == "pause", told.Kind == "node", told.Kind == "due":
		l.Tone = "warn"
	}
}

// linkTo finds the task that the line of an occurrence or of a follow-up is about.
func (l *storyLine) linkTo(kind string, followUps []inspect.FollowUp) {
	switch kind {
	case "occurrence": // occurrence {id} is {status}, or occurrence {id} was left out
		rest := strings.TrimPrefix(l.Before, "occurrence ")
		at := max(strings.LastIndex(rest, " is "), strings.LastIndex(rest, " was "))
		if at > 0 {
			l.Before, l.Task, l.After = "occurrence ", rest[:at], rest[at:]
		}
	case "follow-up":
		for _, one := range followUps {
			before, after, found := strings.Cut(l.Before, " "+one.ID+" ("+one.Type+") ")
			if found && one.CreatedAt.Equal(l.At) {
				l.Before, l.Task, l.After = before+" ", one.ID, " ("+one.Type+") "+after
				return
			}
		}
	}
}

func valueOf(value any) valueView {
	switch value := value.(type) {
	case nil:
		return valueView{}
	case time.Time:
		return valueView{At: &value}
	case time.Duration:
		return valueView{Text: words.Took(value)}
	}
	return valueView{Text: fmt.Sprint(value)}
}
