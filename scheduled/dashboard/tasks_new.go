package dashboard

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/tasktable/tasktable/scheduled/api/keys"
	"github.com/tasktable/tasktable/scheduled/internal/pg"
	"github.com/tasktable/tasktable/store"
	"github.com/tasktable/tasktable/store/form"
)

// newTaskView is the form that schedules a task.
type newTaskView struct {
	suggestions

	Task   []input // what it is
	When   []input
	Rules  []input
	Recurs []input
	Errors formErrors
	Begins []chip // forms that are filled in for a ready-made type
	Exists string // the id of the task that is there already
	// Prepared is the id of a task without an id of the person's. A form that is sent twice so schedules one task.
	Prepared string
}

// newTaskForm fills in the form. get returns a field.
func newTaskForm(get func(string) string, wrong formErrors, tenant string) newTaskView {
	view := newTaskView{Errors: wrong, Prepared: get("prepared")}
	add := func(to *[]input, field form.Field) {
		name := inputName(field)
		made := inputOf(field, get(name), wrong[name])
		made.List = map[string]string{"type": "types", "queue": "queues", "at": "moments"}[name]
		*to = append(*to, made)
	}
	add(&view.Task, form.Type)
	for _, field := range newTaskFields(tenant) {
		switch {
		case field.Recurs:
			add(&view.Recurs, field)
		case slices.Contains([]string{"id", "payload", "entity", "tenant_id", "group_key"}, field.Name):
			add(&view.Task, field)
		case slices.Contains([]string{"scheduled_at", "expiration", "jitter"}, field.Name):
			add(&view.When, field)
		default:
			add(&view.Rules, field)
		}
	}
	return view
}

// newTaskFields are the fields of a new task. A person with a tenant schedules for its tenant.
func newTaskFields(tenant string) (fields []form.Field) {
	for _, field := range form.Fields {
		if !field.Verb && (tenant == "" || field.Name != "tenant_id") {
			fields = append(fields, field)
		}
	}
	return fields
}

// readyMade are the types for which the form has a payload to begin with, if a node that runs has the type.
var readyMade = []struct{ name, label, payload string }{
	{"HTTP_REQUEST", "HTTP request", `{
  "method": "POST",
  "url": "https://example.org/path",
  "body": {}
}`},
	{"EXEC", "Command", `{
  "command": "name-of-a-command",
  "args": []
}`},
	{"RUN_SQL", "SQL statement", `{
  "statement": "name-of-a-statement",
  "params": {}
}`},
	{"SEND_EMAIL", "E-mail", `{
  "email": "ann@example.org",
  "subject": "Hello",
  "body": "…"
}`},
}

// newTaskPage is the page of the form. Parameters of the address fill in its fields.
func newTaskPage(ctx context.Context, v *visit) (any, error) {
	view := newTaskForm(v.query, formErrors{}, v.person.Tenant)
	return view, v.complete(ctx, &view)
}

// complete adds the suggestions and the prepared id to the form.
func (v *visit) complete(ctx context.Context, view *newTaskView) (err error) {
	if view.suggestions, err = v.suggestions(ctx); err != nil {
		return err
	}
	for _, one := range readyMade {
		if v.person.Tenant != "" || slices.Contains(view.Types, one.name) { // a tenant may not read the types of nodes
			href := v.board.link("/schedule", "type", one.name, "payload", one.payload)
			view.Begins = append(view.Begins, chip{Label: one.label, Href: href, Current: v.query("type") == one.name})
		}
	}
	if view.Prepared != "" {
		return nil
	}
	view.Prepared, err = store.NewID()
	return err
}

var errTaskExists = errors.New("there is a task with this id")

// scheduleTask schedules the task of the form. It leaves a task alone that has the id already. People edit that task
// on its own page, because a form there tells if the task was changed after the page was drawn.
func scheduleTask(ctx context.Context, v *visit) (done, error) {
	task, wrong := typedTask(v)
	if len(wrong) == 0 {
		if err := v.checkPayload(task.Payload); err != nil {
			wrong["payload"] = sentence(err)
		}
	}
	if len(wrong) > 0 {
		return v.showNewTask(ctx, wrong, "")
	}
	if err := reserved(v.person, task.ID, task.Payload.TaskType()); err != nil {
		return done{}, err
	}
	var receipt store.Receipt
	tx, _ := v.db.(pgx.Tx)
	// The savepoint undoes what a refused task has done, so that the form can be read and shown again.
	err := pgx.BeginFunc(ctx, tx, func(savepoint pgx.Tx) (err error) {
		receipt, err = v.tasks.Schedule(ctx, savepoint, task)
		if err == nil && receipt.Outcome != store.Created {
			err = errTaskExists
		}
		return err
	})
	unbound, _ := keys.Unbound(err)
	switch {
	case errors.Is(err, errTaskExists), errors.Is(err, store.ErrKindDiffers):
		wrong.note("id", errors.New("must be a new one: there is a task with this id"))
		return v.showNewTask(ctx, wrong, task.ID)
	case errors.Is(err, store.ErrInvalid):
		noteInvalid(wrong, err)
		return v.showNewTask(ctx, wrong, "")
	case unbound == "" && pg.IsNotAllowed(err): // a trigger of the database has refused it
		wrong.note("id", errors.New("must not be that of the engine or of another tenant"))
		return v.showNewTask(ctx, wrong, "")
	case err != nil:
		return done{}, err
	}
	return done{text: "Scheduled the task.", to: taskPath(receipt.ID)}, nil
}

// showNewTask shows the form with its errors.
func (v *visit) showNewTask(ctx context.Context, wrong formErrors, exists string) (done, error) {
	view := newTaskForm(v.form, wrong, v.person.Tenant)
	view.Exists = exists
	asked := done{show: "tasks-new", status: http.StatusUnprocessableEntity, title: "Schedule a task"}
	if exists != "" {
		asked.status = http.StatusConflict
	}
	err := v.complete(ctx, &view)
	asked.view = view
	return asked, err
}

// typedTask reads the task of the form.
func typedTask(v *visit) (store.Task, formErrors) {
	wrong := formErrors{}
	task := store.Task{TenantID: v.person.Tenant}
	var err error
	task.Payload, err = store.Typed(v.typedText(form.Type), []byte(strings.TrimSpace(v.form("payload"))))
	if err != nil {
		noteInvalid(wrong, err)
	}
	for _, field := range newTaskFields(v.person.Tenant) {
		if field.Kind != form.Payload {
			wrong.note(inputName(field), field.Read(&task, v.typedText(field), v.clock(v.look.zone)))
		}
	}
	if err := form.Check(&task); err != nil {
		noteInvalid(wrong, err)
	}
	if task.Recurrence != nil && task.ID == "" {
		wrong.note("id", errors.New("must be given for a task that recurs"))
	}
	if task.ID == "" {
		task.ID = v.form("prepared")
	}
	return task, wrong
}

// checkPayload returns the error of the Config's CheckPayload about a payload.
func (v *visit) checkPayload(payload store.Payload) error {
	if v.board.config.CheckPayload == nil {
		return nil
	}
	text, err := json.Marshal(payload)
	if err != nil {
		return fmt.Errorf("encode the payload: %w", err)
	}
	return v.board.config.CheckPayload(payload.TaskType(), text)
}
