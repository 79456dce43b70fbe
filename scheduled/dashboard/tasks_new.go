package dashboard

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tasktable/tasktable/scheduled/api/keys"
	"github.com/tasktable/tasktable/store"
	"github.com/tasktable/tasktable/store/when"
)

// newTaskView is the form that schedules a task.
type newTaskView struct {
	Task    []input // what it is
	When    []input
	Rules   []input
	Recurs  []input
	Payload input
	Errors  formErrors
	Types   []string // suggestions
	Queues  []string
	Begins  []chip // forms that are filled in for a ready-made type
	Exists  string // the id of the task that is there already
	// Prepared is the id of a task without an id of the person's. A form that is sent twice so schedules one task.
	Prepared string
}

// newTaskForm fills in the form. get returns a field.
func newTaskForm(get func(string) string, wrong formErrors, tenant string) newTaskView {
	made := func(name, label, hint, list string) input {
		return input{Name: name, Label: label, Value: get(name), Error: wrong[name], Hint: hint, List: list}
	}
	view := newTaskView{
		Task: []input{
			made("type", "Type", "Needed unless the payload has a field type.", "types"),
			made("id", "Id", "Default: a new one. A task that recurs needs one.", ""),
			made("entity", "Entity", "The thing that it is about, such as event:42.", ""),
		},
		When: []input{
			made("at", "At", "Default: now. Such as 2026-11-21 18:00, or +10m.", "moments"),
			made("expiration", "Expiration", "How long after its time it may still start. Default: for ever.", ""),
		},
		Rules: []input{
			made("queue", "Queue", "Default: default.", "queues"),
			made("priority", "Priority", "From -100 to 100. The higher runs first. Default: 0.", ""),
			made("expected_execution_time", "Expected execution time", "How long an attempt may take. Default: 5m.",
				""),
			made("max_attempts", "Attempts", "After so many have failed it is FAILED. Default: 10.", ""),
		},
		Recurs: []input{
			made("cron", "Cron expression", "5 fields, 6 with seconds first, @daily and its like, or @every 90s.", ""),
			made("cron_time_zone", "Zone of the expression", "Such as Europe/Berlin. Default: UTC.", ""),
		},
		Payload: made("payload", "Payload", "", ""), Errors: wrong, Prepared: get("prepared"),
	}
	if tenant == "" {
		view.Task = append(view.Task, made("tenant", "Tenant", "The owner.", ""))
	}
	return view
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
	if view.Types, view.Queues, err = v.typesAndQueues(ctx); err != nil {
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
	case unbound == "" && hasCode(err, "42501"): // insufficient_privilege: a trigger of the database has refused it
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
	text := func(name string) string { return strings.TrimSpace(v.form(name)) }
	task := store.Task{
		ID: v.form("id"), Queue: text("queue"), Entity: v.form("entity"), TenantID: v.form("tenant"),
	}
	if task.ID == "" {
		task.ID = v.form("prepared")
	}
	if v.person.Tenant != "" {
		task.TenantID = v.person.Tenant
	}
	task.Payload = payloadOf(text("payload"), text("type"), wrong)
	var err error
	task.At, err = when.Time(text("at"), v.now, v.look.zone)
	wrong.note("at", err)
	for name, into := range map[string]*int{"priority": &task.Priority, "max_attempts": &task.MaxAttempts} {
		if given := text(name); given != "" {
			wrong.note(name, wholeNumber(given, into))
		}
	}
	for name, into := range map[string]*time.Duration{
		"expiration": &task.Expiration, "expected_execution_time": &task.ExpectedExecutionTime,
	} {
		if given := text(name); given != "" {
			*into, err = when.Length(given)
			wrong.note(name, err)
		}
	}
	switch {
	case text("cron") != "":
		task.Recurrence = &store.Recurrence{Cron: text("cron"), TimeZone: text("cron_time_zone")}
		if v.form("id") == "" {
			wrong.note("id", errors.New("must be given for a task that recurs"))
		}
	case text("cron_time_zone") != "":
		wrong.note("cron_time_zone", errors.New("must be empty unless there is a cron expression"))
	}
	return task, wrong
}

// typedPayload is a payload that was typed as JSON, and its type.
type typedPayload struct {
	name string
	body json.RawMessage
}

func (t typedPayload) TaskType() string             { return t.name }
func (t typedPayload) MarshalJSON() ([]byte, error) { return t.body, nil }

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

// payloadOf reads the payload. Its errors never quote it, because it may be secret.
func payloadOf(body, name string, wrong formErrors) store.Payload {
	if body == "" {
		body = "{}"
	}
	wrong.note("payload", checkObject(body))
	if name == "" {
		name = store.JSON(body).TaskType()
	}
	if name == "" {
		wrong.note("type", errors.New("must be given, because the payload has no field type that says it"))
	}
	return typedPayload{name, json.RawMessage(body)}
}

// formNames are the fields of the form whose names differ from those in the errors of package store.
var formNames = map[string]string{"scheduled_at": "at", "tenant_id": "tenant", "time_zone": "cron_time_zone"}

// noteInvalid notes an error of package store at the field that it names: "…: invalid: field must be …".
func noteInvalid(wrong formErrors, err error) {
	name, rule := invalidField(err)
	_, rest, _ := strings.Cut(rule, " ")
	if other, known := formNames[name]; known {
		name = other
	}
	switch name {
	case "id", "type", "payload", "entity", "tenant", "at", "queue", "priority", "expiration",
		"expected_execution_time", "max_attempts", "cron", "cron_time_zone":
		if strings.HasPrefix(rest, "must") {
			wrong.note(name, errors.New(rest))
			return
		}
		wrong[name] = sentence(errors.New(rest))
	default:
		wrong["form"] = sentence(errors.New(rule))
	}
}
