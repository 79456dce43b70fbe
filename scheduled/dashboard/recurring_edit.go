package dashboard

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tasktable/tasktable/store"
	"github.com/tasktable/tasktable/store/inspect"
	"github.com/tasktable/tasktable/store/when"
)

const firesPreviewed = 5

// recurringForm has the fields of the form as texts, so that a wrong one comes back as it was given.
type recurringForm struct {
	Cron, TimeZone, Overlap, CatchUp, CatchUpPaused, CatchUpLimit, Jitter, EndsAt, MaxOccurrences string
}

// recurringEditView is the form for when a recurring task fires. After a preview it also has the fires now and then.
type recurringEditView struct {
	ID         string
	Revision   int64
	DeclaredBy string
	Ended      bool
	Form       recurringForm
	Preview    *recurringPreview
	Error      string
	Field      string // the field that is wrong, as package store names it
}

// Title tells which task is edited.
func (view recurringEditView) Title() string { return "Edit " + view.ID }

// Overlaps and CatchUps are the choices of the form.
func (recurringEditView) Overlaps() []store.Overlap {
	return []store.Overlap{store.OverlapSkip, store.OverlapAllow, store.OverlapCancelRunning}
}

// CatchUps are the choices for missed fires.
func (recurringEditView) CatchUps() []store.CatchUp {
	return []store.CatchUp{store.CatchUpLatest, store.CatchUpAll, store.CatchUpNone}
}

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
	return recurringEditView{
		ID: row.ID, Revision: row.Revision, DeclaredBy: textOf(task.DeclaredBy), Ended: row.FinishedAt != nil,
		Form: recurringFormOf(v, row),
	}, err
}

func recurringFormOf(v *visit, row store.Row) recurringForm {
	form := recurringForm{
		Cron: textOf(row.Cron), TimeZone: textOf(row.TimeZone), Overlap: textOf(row.Overlap),
		CatchUp: textOf(row.CatchUp), CatchUpPaused: textOf(row.CatchUpPaused),
		EndsAt: frame{visit: v}.Input(row.EndsAt),
	}
	if row.CatchUpLimit != nil {
		form.CatchUpLimit = strconv.Itoa(*row.CatchUpLimit)
	}
	if row.Jitter != nil {
		form.Jitter = when.LengthText(*row.Jitter)
	}
	if row.MaxOccurrences != nil {
		form.MaxOccurrences = strconv.Itoa(*row.MaxOccurrences)
	}
	return form
}

// changed lists the fields that differ from those of another form.
func (f recurringForm) changed(to recurringForm) []fieldView {
	var fields []fieldView
	for _, field := range []fieldView{
		{"cron", f.Cron, to.Cron}, {"time_zone", f.TimeZone, to.TimeZone}, {"overlap", f.Overlap, to.Overlap},
		{"catch_up", f.CatchUp, to.CatchUp}, {"catch_up_paused", f.CatchUpPaused, to.CatchUpPaused},
		{"catch_up_limit", f.CatchUpLimit, to.CatchUpLimit}, {"jitter", f.Jitter, to.Jitter},
		{"ends_at", f.EndsAt, to.EndsAt}, {"max_occurrences", f.MaxOccurrences, to.MaxOccurrences},
	} {
		if field.Old != field.New {
			fields = append(fields, field)
		}
	}
	return fields
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
	view.Form = recurringForm{
		strings.TrimSpace(v.form("cron")), strings.TrimSpace(v.form("time_zone")), v.form("overlap"),
		v.form("catch_up"),
		v.form("catch_up_paused"), v.form("catch_up_limit"), strings.TrimSpace(v.form("jitter")), v.form("ends_at"),
		v.form("max_occurrences"),
	}
	task, err := view.Form.task(v, row)
	if err == nil {
		err = task.Check()
	}
	if err != nil {
		return view.refuse(err)
	}
	view.Form.EndsAt = frame{visit: v}.Input(task.Recurrence.EndsAt) // in the zone of the page that follows
	if v.form("confirmed") != "" {
		receipt, err := v.tasks.Schedule(ctx, v.db, task)
		text := "Saved. The next fires are planned anew."
		if receipt.Outcome == store.Unchanged {
			text = "Nothing was changed, because it is so already."
		}
		if err != nil {
			return view.refuse(err)
		}
		return done{text: text, to: recurringPath(row.ID)}, nil
	}
	if view.Preview, err = previewOf(ctx, v, row, task); err != nil {
		return view.refuse(err)
	}
	return done{show: "recurring-edit", title: view.Title(), view: view}, nil
}

// refuse shows the form again, with the field and the rule. Other errors are not about the form.
func (view recurringEditView) refuse(err error) (done, error) {
	var own problem
	switch {
	case errors.As(err, &own):
		view.Error = own.view.Text
	case errors.Is(err, store.ErrInvalid):
		field, text := invalidField(err)
		view.Field, view.Error = field, upper(text)+"."
	default:
		return done{}, err
	}
	if view.Field == "" {
		view.Field, _, _ = strings.Cut(strings.ToLower(view.Error), " ")
	}
	return done{
		show: "recurring-edit", status: http.StatusUnprocessableEntity, title: view.Title(), view: view,
	}, nil
}

// task is the whole task as the form wants it. The fields that the form does not have stay as they are. A task that has
// ended starts again now.
func (f recurringForm) task(v *visit, row store.Row) (store.Task, error) {
	task, err := store.TaskOf(row)
	if err != nil {
		return task, err
	}
	if row.FinishedAt != nil {
		task.At, task.IfFinished = time.Time{}, store.Rearm
	}
	task.Jitter = 0
	recurs := task.Recurrence
	recurs.Cron, recurs.TimeZone, recurs.Overlap = f.Cron, f.TimeZone, store.Overlap(f.Overlap)
	recurs.CatchUp, recurs.CatchUpPaused = store.CatchUp(f.CatchUp), store.CatchUp(f.CatchUpPaused)
	if recurs.CatchUpLimit, err = numberOr(f.CatchUpLimit, "catch_up_limit", store.MaxCatchUpLimit); err != nil {
		return task, err
	}
	if recurs.MaxOccurrences, err = numberOr(f.MaxOccurrences, "max_occurrences", maxMaxOccurrences); err != nil {
		return task, err
	}
	if f.Jitter != "" {
		if task.Jitter, err = when.Length(f.Jitter); err != nil {
			return task, notValid("jitter " + err.Error())
		}
	}
	if row.EndsAt != nil && f.EndsAt == (frame{visit: v}).Input(row.EndsAt) {
		return task, nil // the input has no fractions of a second
	}
	recurs.EndsAt, err = v.momentOf("ends_at")
	return task, err
}

const maxMaxOccurrences = 1000000

// numberOr reads a number from 1. An empty text is 0, which stands for the default.
func numberOr(text, name string, most int) (int, error) {
	if text == "" {
		return 0, nil
	}
	number, err := strconv.Atoi(text)
	if err != nil || number < 1 || number > most {
		return 0, notValid(fmt.Sprintf("%s must be a number from 1 to %d, or empty", name, most))
	}
	return number, nil
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
	savepoint, err := tx.Begin(ctx)
	if err != nil {
		return nil, fmt.Errorf("begin the preview: %w", err)
	}
	receipt, errSchedule := v.tasks.Schedule(ctx, savepoint, task)
	var after inspect.RecurringTask
	var edited store.Row
	if errSchedule == nil {
		edited, err = v.tasks.Get(ctx, savepoint, task.ID)
	}
	if errSchedule == nil && err == nil {
		after, err = v.inspector.GetRecurring(ctx, savepoint, task.ID)
	}
	if errUndo := savepoint.Rollback(ctx); errUndo != nil {
		return nil, fmt.Errorf("undo the preview: %w", errUndo)
	}
	if err = errors.Join(errSchedule, err); err != nil {
		return nil, err
	}
	preview := &recurringPreview{Saves: receipt.Outcome != store.Unchanged}
	preview.Changes = recurringFormOf(v, row).changed(recurringFormOf(v, edited))
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
