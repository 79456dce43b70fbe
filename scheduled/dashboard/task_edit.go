package dashboard

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"go.opentelemetry.io/otel/trace"

	"github.com/tasktable/tasktable/store"
	"github.com/tasktable/tasktable/store/form"
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

// Ended reports whether the edit runs the task again.
func (v editView) Ended() bool { return v.Row.FinishedAt != nil }

// editField is an input.
type editField struct {
	form.Field

	Type    string // of the input
	Value   string // what the input shows
	Was     string // what it showed at first, so that a save changes only the fields that the person has changed
	In      string // of a time: the value relative to now
	Problem string // the rule that the value breaks
	Now     string // the value of the task, if somebody has changed it meanwhile, and the person, too
}

func (f editField) InputName() string { return inputName(f.Field) }

// Touched reports whether the person has changed the value.
func (f editField) Touched() bool { return f.In != "" || markOf(f.Name, f.Value) != f.Was }

// editFields are the fields that the page edits. The page of a recurring task edits those of its recurrence.
func editFields(v *visit, row store.Row, shown bool) (fields []form.Field) {
	for _, field := range form.Fields {
		secret := field.Kind == form.Payload || field.Kind == form.Tasks
		if field.Name == "id" || field.Verb || field.Recurs || secret && !shown ||
			field.Name == "tenant_id" && v.person.Tenant != "" {
			continue
		}
		if field.Name == "scheduled_at" && row.Cron != nil {
			field.Label = "Fires from"
		}
		fields = append(fields, field)
	}
	return fields
}

// editTypes are the types of inputs. The others are texts.
var editTypes = map[form.Kind]string{
	form.Time: "datetime-local", form.Number: "number", form.Payload: "textarea", form.Tasks: "textarea",
}

// markOf is the value that a form keeps beside an input, to know whether the person has changed it. A payload is long,
// so its mark is a hash.
func markOf(name, value string) string {
	if name != "payload" && name != "if_dead" {
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
	task, err := store.TaskOf(row)
	if err != nil {
		return view, err
	}
	for _, field := range editFields(v, row, shown) {
		value := field.Text(task, v.look.zone)
		if field.Kind == form.Payload {
			value = payload
		}
		view.Fields = append(view.Fields, editField{
			Field: field, Type: cmp.Or(editTypes[field.Kind], "text"), Value: value, Was: markOf(field.Name, value),
		})
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

func (v editView) Title() string { return "Edit " + v.Row.ID }

// written puts what the person has written into the fields. A field that somebody else has changed, and the person has
// not, keeps its new value.
func (v *editView) written(on *visit) {
	for i := range v.Fields {
		f := &v.Fields[i]
		if _, given := on.request.PostForm[f.InputName()]; !given {
			continue
		}
		value := strings.ReplaceAll(on.form(f.InputName()), "\r\n", "\n") // browsers end lines so
		if f.Type != "textarea" {
			value = strings.TrimSpace(value)
		}
		if f.Type == "datetime-local" && len(value) == len("2006-01-02T15:04") {
			value += ":00" // browsers leave out seconds that are 0
		}
		was := f.Was
		if marks, given := on.request.PostForm["was-"+f.InputName()]; given {
			was = marks[0]
		}
		f.In = strings.TrimSpace(on.form(f.InputName() + "-in"))
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
		if f.Kind == form.Time {
			at, err := on.momentOf(f.InputName())
			var bad problem
			switch {
			case errors.As(err, &bad):
				f.Problem = bad.view.Text
			case at.IsZero():
				f.Problem = "At must be given."
			}
			task.At, moved = at, true
		} else if err := f.Read(&task, f.Value, on.clock(on.look.zone)); err != nil {
			f.Problem = sentence(fmt.Errorf("%s %w", f.Label, err))
		} else if f.Kind == form.Payload {
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
