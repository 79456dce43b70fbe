package dashboard

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tasktable/tasktable/store"
	"github.com/tasktable/tasktable/store/form"
	"github.com/tasktable/tasktable/store/inspect"
)

const firesPreviewed = 5

// recurringFields are the fields that say when a recurring task fires.
var recurringFields = slices.DeleteFunc(slices.Clone(form.Fields), func(field form.Field) bool {
	return !field.Recurs && field.Name != "jitter"
})

// recurringEditView is the form for when a recurring task fires. After a preview it also has the fires now and then.
type recurringEditView struct {
	ID         string
	Revision   int64
	DeclaredBy string
	Ended      bool
	Inputs     []input
	Preview    *recurringPreview
	Error      string
}

func (view recurringEditView) Title() string { return "Edit " + view.ID }

// recurringPreview compares the task with the edited one.
type recurringPreview struct {
	Saves   bool // there is something to save
	Changes []fieldView
	Now     inspect.Forecast
	Then    inspect.Forecast
	Rows    []previewRow
}

// previewRow has the fires of one place, each by the wall clock of its task's zone. nil means that there is none.
type previewRow struct{ Now, Then *fireView }

func recurringEditPage(ctx context.Context, v *visit) (any, error) {
	row, err := v.tasks.Get(ctx, v.db, v.path("id"))
	if err != nil {
		return nil, err
	}
	if row.Cron == nil {
		return nil, fmt.Errorf("task %s: %w", row.ID, store.ErrNotRecurring)
	}
	return editViewOf(ctx, v, row)
}

func editViewOf(ctx context.Context, v *visit, row store.Row) (recurringEditView, error) {
	task, err := v.inspector.GetRecurring(ctx, v.db, row.ID)
	view := recurringEditView{
		ID: row.ID, Revision: row.Revision, DeclaredBy: textOf(task.DeclaredBy), Ended: row.FinishedAt != nil,
	}
	if err != nil {
		return view, err
	}
	of, err := store.TaskOf(row)
	view.show(func(field form.Field) string { return field.Text(of, v.look.zone) }, nil)
	return view, err
}

// show makes the inputs. text returns the text of a field.
func (view *recurringEditView) show(text func(form.Field) string, wrong formErrors) {
	view.Inputs = nil
	for _, field := range recurringFields {
		made := inputOf(field, text(field), wrong[inputName(field)])
		if field.Kind == form.Time {
			made.Type = "datetime-local"
		}
		view.Inputs = append(view.Inputs, made)
	}
}

// changedFields lists the fields that differ between two states of a recurring task.
func changedFields(was, is store.Row, zone *time.Location) ([]fieldView, error) {
	before, err := store.TaskOf(was)
	if err != nil {
		return nil, err
	}
	after, err := store.TaskOf(is)
	var fields []fieldView
	for _, field := range recurringFields {
		if old, now := field.Text(before, zone), field.Text(after, zone); old != now {
			fields = append(fields, fieldView{field.Name, old, now})
		}
	}
	return fields, err
}

// editRecurring shows the fires before and after the change. It saves the change when somebody confirms it.
func editRecurring(ctx context.Context, v *visit) (done, error) {
	row, err := lockedRecurring(ctx, v)
	if err != nil {
		return done{}, err
	}
	view, err := editViewOf(ctx, v, row)
	if err != nil {
		return done{}, err
	}
	wrong := formErrors{}
	task, err := recurringTask(v, row, wrong)
	if err != nil {
		return view.refuse(v, wrong, err)
	}
	// The form that was sent may be in another zone.
	view.show(func(field form.Field) string { return field.Text(task, v.look.zone) }, nil)
	if v.form("confirmed") != "" {
		receipt, err := v.tasks.Schedule(ctx, v.db, task)
		text := "Saved. The next fires are planned anew."
		if receipt.Outcome == store.Unchanged {
			text = "Nothing was changed, because it is so already."
		}
		if err != nil {
			return view.refuse(v, wrong, err)
		}
		return done{text: text, to: recurringPath(row.ID)}, nil
	}
	if view.Preview, err = previewOf(ctx, v, row, task); err != nil {
		return view.refuse(v, wrong, err)
	}
	return done{show: "recurring-edit", title: view.Title(), view: view}, nil
}

// refuse shows the form again as it was sent, with the rules that it breaks. Other errors are not about the form.
func (view recurringEditView) refuse(v *visit, wrong formErrors, err error) (done, error) {
	var own problem
	switch {
	case errors.As(err, &own):
		view.Error = own.view.Text
	case errors.Is(err, store.ErrInvalid):
		if len(wrong) == 0 {
			noteInvalid(wrong, err)
		}
		view.Error = cmp.Or(wrong["form"], "Nothing was saved. The fields tell why.")
	default:
		return done{}, err
	}
	view.show(v.typedText, wrong)
	return refused("recurring-edit", view.Title(), view), nil
}

// recurringTask is the whole task as the form wants it. The fields that the form does not have stay as they are. A task
// that has ended starts again now.
func recurringTask(v *visit, row store.Row, wrong formErrors) (store.Task, error) {
	zone, err := v.formZone()
	if err != nil {
		return store.Task{}, err
	}
	task, err := v.edited(row, recurringFields, zone, wrong)
	if err != nil {
		return task, err
	}
	if row.FinishedAt != nil {
		task.At, task.IfFinished = time.Time{}, store.Rearm
	}
	if len(wrong) > 0 {
		return task, fmt.Errorf("%w: the fields tell why", store.ErrInvalid)
	}
	return task, task.Check()
}

// previewOf makes the change in a savepoint, reads the fires, and undoes it. So the fires are those that the database
// would have, and the database itself refuses what it would refuse.
func previewOf(ctx context.Context, v *visit, row store.Row, task store.Task) (*recurringPreview, error) {
	tx, _ := v.db.(pgx.Tx)
	before, err := v.inspector.GetRecurring(ctx, tx, task.ID)
	if err != nil {
		return nil, err
	}
	pauses, err := v.tasks.Pauses(ctx, tx)
	if err != nil {
		return nil, err
	}
	var receipt store.Receipt
	var edited store.Row
	var after inspect.RecurringTask
	err = pgx.BeginFunc(ctx, tx, func(savepoint pgx.Tx) (err error) {
		if receipt, err = v.tasks.Schedule(ctx, savepoint, task); err != nil {
			return err
		}
		if edited, err = v.tasks.Get(ctx, savepoint, task.ID); err != nil {
			return err
		}
		if after, err = v.inspector.GetRecurring(ctx, savepoint, task.ID); err != nil {
			return err
		}
		return errAsks // it undoes the change
	})
	if !errors.Is(err, errAsks) {
		return nil, err
	}
	preview := &recurringPreview{Saves: receipt.Outcome != store.Unchanged}
	if preview.Changes, err = changedFields(row, edited, v.look.zone); err != nil {
		return nil, err
	}
	preview.Now, _ = before.Forecast(v.now, pauses, firesPreviewed) // an expression that cannot be read has no fires
	if preview.Then, err = after.Forecast(v.now, pauses, firesPreviewed); err != nil {
		return nil, err
	}
	preview.pair()
	return preview, nil
}

// pair puts the fires of both side by side.
func (p *recurringPreview) pair() {
	was, then := firesOf(p.Now), firesOf(p.Then)
	for i := range max(len(was), len(then)) {
		var row previewRow
		if i < len(was) {
			row.Now = &was[i]
		}
		if i < len(then) {
			row.Then = &then[i]
		}
		p.Rows = append(p.Rows, row)
	}
}
