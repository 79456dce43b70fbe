package dashboard

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"

	"go.opentelemetry.io/otel/trace"

	"github.com/tasktable/tasktable/store"
	"github.com/tasktable/tasktable/store/when"
)

// editView is the page on which a person edits a task.
type editView struct {
	Row      store.Row
	Fields   []editField
	Hidden   bool         // the person may not see the payload, which stays as it is
	Problem  string       // why the edit was not saved
	Changes  []changeView // that somebody else has made meanwhile
	Conflict bool         // the task has changed since the person began
}

// Revision is the revision that the person sees.
func (v editView) Revision() string { return strconv.FormatInt(v.Row.Revision, 10) }

// Ended reports whether the edit runs the task again.
func (v editView) Ended() bool { return v.Row.FinishedAt != nil }

// RecurringPath is the path of the page of the recurring task.
func (v editView) RecurringPath() string { return recurringPath(v.Row.ID) }

// Recurs reports whether the task recurs.
func (v editView) Recurs() bool { return v.Row.Cron != nil }

// editField is an input.
type editField struct {
	editKind

	Value   string // what the input shows
	Was     string // what it showed at first, so that a save changes only the fields that the person has changed
	In      string // of a time: the value relative to now
	Problem string // the rule that the value breaks
	Now     string // the value of the task, if somebody has changed it meanwhile, and the person, too
}

// Touched reports whether the person has changed the value.
func (f editField) Touched() bool { return f.In != "" || markOf(f.Name, f.Value) != f.Was }

// editKind is a field of a task that can be edited.
type editKind struct {
	Name, Label, Hint string
	Type              string // of the input: textarea, datetime-local, number or text
	text              func(v *visit, row store.Row, payload string) string
	set               func(task *store.Task, text string) error
}

var editKinds = []editKind{
	{Name: "at", Label: "Time", Type: "datetime-local",
		text: func(v *visit, row store.Row, _ string) string { return frame{visit: v}.Input(row.ScheduledAt) }},
	{Name: "priority", Label: "Priority", Hint: "−100 to 100; higher runs first", Type: "number",
		text: func(_ *visit, row store.Row, _ string) string { return strconv.Itoa(row.Priority) },
		set:  func(task *store.Task, text string) error { return wholeNumber(text, &task.Priority) }},
	{Name: "queue", Label: "Queue", Type: "text",
		text: func(_ *visit, row store.Row, _ string) string { return row.Queue },
		set:  func(task *store.Task, text string) error { task.Queue = text; return nil }},
	{Name: "entity", Label: "Entity", Hint: "what the task is about, such as event:42", Type: "text",
		text: func(_ *visit, row store.Row, _ string) string { return textOf(row.Entity) },
		set:  func(task *store.Task, text string) error { task.Entity = text; return nil }},
	{Name: "expiration", Label: "Expiration", Type: "text",
		Hint: "how long after its time it may still start, such as 1h; empty: for ever",
		text: func(_ *visit, row store.Row, _ string) string {
			if row.Expiration == nil {
				return ""
			}
			return when.LengthText(*row.Expiration)
		},
		set: func(task *store.Task, text string) (err error) {
			task.Expiration = 0
			if text != "" {
				task.Expiration, err = when.Length(text)
			}
			return err
		}},
	{Name: "max_attempts", Label: "Attempts at most", Hint: "1 to 1000", Type: "number",
		text: func(_ *visit, row store.Row, _ string) string { return strconv.Itoa(row.MaxAttempts) },
		set: func(task *store.Task, text string) error {
			if err := wholeNumber(text, &task.MaxAttempts); err != nil || task.MaxAttempts > 0 {
				return err
			}
			return errors.New("must be 1 to 1000")
		}},
	{Name: "expected_execution_time", Label: "Expected execution time",
		Hint: "after that an attempt counts as lost, such as 5m", Type: "text",
		text: func(_ *visit, row store.Row, _ string) string { return when.LengthText(row.ExpectedExecutionTime) },
		set: func(task *store.Task, text string) (err error) {
			task.ExpectedExecutionTime, err = when.Length(text)
			return err
		}},
	{Name: "payload", Label: "Payload", Hint: "a JSON object with the field type", Type: "textarea",
		text: func(_ *visit, _ store.Row, payload string) string { return payload },
		set:  setPayload},
}

func setPayload(task *store.Task, text string) error {
	if err := checkObject(text); err != nil {
		return err
	}
	task.Payload = store.JSON(text)
	return nil
}

// markOf is the value that a form keeps beside an input, to know whether the person has changed it. A payload is long,
// so its mark is a hash.
func markOf(name, value string) string {
	if name != "payload" {
		return value
	}
	sum := sha256.Sum256([]byte(value))
	return hex.EncodeToString(sum[:8])
}

// editOf returns the page of an edit that nobody has begun.
func editOf(ctx context.Context, v *visit, row store.Row) (editView, error) {
	view := editView{Row: row}
	payload, shown, err := v.payload(ctx, row)
	if errors.Is(err, store.ErrUnknownCodec) {
		shown, err = false, nil
	}
	if err != nil {
		return view, err
	}
	view.Hidden = !shown
	for _, kind := range editKinds {
		if kind.Name == "payload" && !shown {
			continue
		}
		if kind.Name == "at" && row.Cron != nil {
			kind.Label = "Fires from"
		}
		value := kind.text(v, row, payload)
		view.Fields = append(view.Fields, editField{editKind: kind, Value: value, Was: markOf(kind.Name, value)})
	}
	return view, nil
}

func taskEditPage(ctx context.Context, v *visit) (any, error) {
	row, err := v.tasks.Get(ctx, v.db, v.path("id"))
	if err != nil {
		return nil, err
	}
	return editOf(ctx, v, row)
}

// Title is the title of the page.
func (v editView) Title() string { return "Edit " + v.Row.ID }

// written puts what the person has written into the fields. A field that somebody else has changed, and the person has
// not, keeps its new value.
func (v *editView) written(on *visit) {
	for i := range v.Fields {
		f := &v.Fields[i]
		if _, given := on.request.PostForm[f.Name]; !given {
			continue
		}
		value := strings.ReplaceAll(on.form(f.Name), "\r\n", "\n") // browsers end lines so
		if f.Type != "textarea" {
			value = strings.TrimSpace(value)
		}
		if f.Type == "datetime-local" && len(value) == len("2006-01-02T15:04") {
			value += ":00" // browsers leave out seconds that are 0
		}
		was := f.Was
		if marks, given := on.request.PostForm["was-"+f.Name]; given {
			was = marks[0]
		}
		f.In = strings.TrimSpace(on.form(f.Name + "-in"))
		if markOf(f.Name, value) == was && f.In == "" {
			continue
		}
		if was != f.Was {
			f.Now = f.Value
		}
		f.Value = value
	}
}

// again shows the form once more, with what the person has written.
func (v editView) again(status int, problem string) (done, error) {
	v.Problem = problem
	return done{show: "task-edit", status: status, title: v.Title(), view: v}, nil
}

func saveEdit(ctx context.Context, v *visit) (done, error) {
	if zone, err := zoneOf(v.form("zone")); err == nil && v.form("zone") != "" {
		v.look.zone = zone // that of the times in the form
	}
	row, err := v.lockedAsSeen(ctx)
	var stale problem
	changed := errors.As(err, &stale) && stale.status == http.StatusConflict
	if err != nil && !changed {
		return done{}, err
	}
	view, err := editOf(ctx, v, row)
	if err != nil {
		return done{}, err
	}
	view.written(v)
	if changed {
		view.Changes, view.Conflict = stale.view.Changes, true
		text := "Somebody else has changed " + row.ID + " since you began. Nothing was saved."
		if len(view.Changes) == 0 { // it has ended
			text = stale.view.Text
		}
		return view.again(http.StatusConflict, text)
	}
	task, wrong, err := view.task(v)
	switch {
	case err != nil:
		return done{}, err
	case wrong != "":
		return view.again(http.StatusUnprocessableEntity, "Nothing was saved. "+wrong)
	}
	if err := reserved(v.person, task.ID, task.Payload.TaskType()); err != nil {
		return done{}, err
	}
	// The span in which the task was scheduled stays: an edit has none of its own.
	receipt, err := v.tasks.Schedule(trace.ContextWithSpanContext(ctx, store.SpanOf(textOf(row.Trace))), v.db, task)
	switch {
	case errors.Is(err, store.ErrInvalid):
		_, rule := invalidField(err)
		return view.again(http.StatusUnprocessableEntity, "Nothing was saved: "+rule+".")
	case err != nil:
		return done{}, err
	}
	text := row.ID + " is changed."
	switch receipt.Outcome {
	case store.Unchanged, store.Finished:
		text = "Nothing was different, so nothing was changed."
	case store.Rearmed:
		text = row.ID + " is changed, and runs again."
	}
	return done{text: text, to: taskPath(row.ID)}, nil
}

// task returns the task as the person wants it, or the error of a field.
func (v *editView) task(on *visit) (task store.Task, wrong string, err error) {
	if task, err = store.TaskOf(v.Row); err != nil {
		return task, "", err
	}
	moved := v.Row.Status == store.StatusCancelled
	for i := range v.Fields {
		f := &v.Fields[i]
		if !f.Touched() {
			continue
		}
		if f.Name == "at" {
			at, err := on.momentOf("at")
			var bad problem
			switch {
			case errors.As(err, &bad):
				f.Problem = bad.view.Text
			case at.IsZero():
				f.Problem = "At must be given."
			}
			task.At, moved = at, true
		} else if err := f.set(&task, f.Value); err != nil {
			f.Problem = upper(f.Name) + " " + err.Error() + "."
		} else if f.Name == "payload" {
			if err := on.checkPayload(task.Payload); err != nil {
				f.Problem = sentence(err)
			}
		}
		if f.Problem != "" {
			wrong = "Look at the fields."
		}
	}
	if wrong == "" && v.Row.FinishedAt != nil && !moved {
		wrong = fmt.Sprintf("The task has ended (%s), and an edit runs it again. So time must be another one, such as "+
			"now.", v.Row.Status)
	}
	return task, wrong, nil
}
