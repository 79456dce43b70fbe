package api

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"

	notice "github.com/tasktable/tasktable/handlers/notice/contract"
	"github.com/tasktable/tasktable/scheduled/api/keys"
	"github.com/tasktable/tasktable/scheduled/internal/pg"
	"github.com/tasktable/tasktable/store"
	"github.com/tasktable/tasktable/store/form"
)

// Receipt is the result of a call for one task.
type Receipt struct {
	ID       string        `json:"id"`
	Revision int64         `json:"revision,omitempty"`
	Outcome  store.Outcome `json:"outcome"`
	Warnings []Warning     `json:"warnings,omitempty" nullable:"false" doc:"What is perhaps not meant."`

	NextAttemptAt *time.Time `json:"next_attempt_at,omitempty" doc:"After an edit: when the task is due or fires next."`
}

// receiptAnswer answers a call on one task.
type receiptAnswer struct {
	Status int
	ETag   string `header:"ETag"`
	Body   Receipt
}

func receiptOf(receipt store.Receipt) Receipt {
	return Receipt{ID: receipt.ID, Revision: receipt.Revision, Outcome: receipt.Outcome}
}

func answerOf(receipt store.Receipt) *receiptAnswer {
	a := &receiptAnswer{Status: http.StatusOK, Body: receiptOf(receipt)}
	if receipt.Outcome == store.Created {
		a.Status = http.StatusCreated
	}
	if receipt.Revision > 0 {
		a.ETag = etag(receipt.Revision)
	}
	return a
}

type createInput struct {
	Conditions
	Replacing
	Body TaskRequest
}

func (in *createInput) reads() bool { return in.Body.reads() }

// BulkRequest has many tasks to schedule.
type BulkRequest struct {
	Tasks []TaskRequest `json:"tasks" minItems:"1" maxItems:"1000" nullable:"false"`
}

type bulkInput struct {
	Conditions
	Replacing
	Body BulkRequest
}

// Receipts are the results of a call for many tasks.
type Receipts struct {
	Receipts []Receipt `json:"receipts" nullable:"false" doc:"One for each task, in their order."`
}

// TaskPath names a task in the path of a call.
type TaskPath struct {
	ID string `path:"id" maxLength:"512" doc:"The id of the task, percent-encoded."`
}

type putInput struct {
	Conditions
	Replacing
	TaskPath
	Body TaskRequest
}

func (in *putInput) reads() bool { return in.Body.reads() }

type patchInput struct {
	Conditions
	TaskPath
	Body Patch
}

func (in *patchInput) reads() bool { return true }

// Replacing is for calls that may edit a task by its whole content.
type Replacing struct {
	Replace bool `query:"replace" doc:"Also if it makes a recurring task a plain one, or the other way."`
}

func (a *API) registerTasks() {
	change(a, keys.Schedule, huma.Operation{
		OperationID: "createTask", Method: http.MethodPost, Path: "/v1/tasks",
		Summary: "Schedule a task", DefaultStatus: http.StatusCreated,
		Description: "Creates a task. With the id of a task that exists it does what PUT does.",
		Errors:      []int{http.StatusPreconditionFailed},
	}, func(ctx context.Context, c call, in *createInput) (*receiptAnswer, error) {
		id, err := in.Body.idOrNew()
		if err != nil {
			return nil, err
		}
		return c.schedule(ctx, id, in.Body, in.Conditions, in.Replacing)
	})
	changeMany(a, keys.Schedule, huma.Operation{
		OperationID: "scheduleTasks", Method: http.MethodPost, Path: "/v1/tasks/bulk",
		Summary: "Schedule up to 1,000 tasks",
		Description: "Schedules all tasks in one transaction. If one is invalid, none is scheduled. Of two tasks " +
			"with the same id the later one wins.",
	}, scheduleMany)
	change(a, keys.Schedule, huma.Operation{
		OperationID: "putTask", Method: http.MethodPut, Path: "/v1/tasks/{id}", Summary: "Schedule the task of an id",
		Description: "Creates the task, or edits the task that has the id. The body says everything that is wanted " +
			"of the task, so a field that is missing gets its default. Only scheduled_at is kept. To change some " +
			"fields, use PATCH. The answer is 201 if the task is new, and 200 " +
			"with the outcome otherwise. To schedule the same again writes nothing.",
		Errors: []int{http.StatusPreconditionFailed},
	}, func(ctx context.Context, c call, in *putInput) (*receiptAnswer, error) {
		if id := in.Body.id(); id != "" && id != in.ID {
			return nil, invalid("body.id must be the id of the path, or missing")
		}
		return c.schedule(ctx, in.ID, in.Body, in.Conditions, in.Replacing)
	})
	change(a, keys.Schedule, huma.Operation{
		OperationID: "patchTask", Method: http.MethodPatch, Path: "/v1/tasks/{id}",
		Summary: "Change some fields of a task",
		Description: "Changes the fields in the body and keeps the others (RFC 7396, JSON merge patch). null empties " +
			"a field, or gives it the default that does not depend on the type. The fields of the payload are " +
			"merged, too. A task that has ended is edited only if the body has scheduled_at or if_finished, because " +
			"an edit runs it again. status, alone in the body, calls a verb: PAUSED pauses the task, QUEUED resumes " +
			"it, and CANCELLED cancels it.",
		Errors: []int{http.StatusNotFound, http.StatusPreconditionFailed},
	}, patchTask)
	paths := a.huma.OpenAPI().Paths
	createsOrEdits(paths["/v1/tasks"].Post)
	createsOrEdits(paths["/v1/tasks/{id}"].Put)
}

func (c call) schedule(
	ctx context.Context, id string, content TaskRequest, given Conditions, replacing Replacing,
) (*receiptAnswer, error) {
	task, err := c.task(store.Task{ID: id}, content)
	if err != nil {
		return nil, err
	}
	if err := c.unchanged(ctx, id, given); err != nil {
		return nil, err
	}
	task.Replace = replacing.Replace
	answer, err := c.scheduleTask(ctx, task)
	if err == nil && given.IfNoneMatch != "" && answer.Body.Outcome != store.Created {
		return nil, refusal(CodeChanged, "there is a task of this id, and If-None-Match asks for none")
	}
	return answer, err
}

// task returns the task with the fields of a request. A caller with a tenant schedules for its tenant alone.
func (c call) task(task store.Task, given map[string]json.RawMessage) (store.Task, error) {
	id := task.ID
	if strings.ContainsRune(id, 0) { // the store checks the rest, but unchanged asks for the id before
		return task, invalid("id must be at most 512 bytes of UTF-8 without control characters")
	}
	if err := form.SetJSON(&task, given); err != nil {
		return task, invalid(ruleOf(err))
	}
	task.ID = id // a request with an id of its own was compared before
	switch {
	case notice.Reserved(id, task.Payload.TaskType()):
		return task, errReserved
	case c.caller.Tenant != "" && task.TenantID != "" && task.TenantID != c.caller.Tenant:
		return task, refusal(CodeTenantNotAllowed, "tenant_id must be the tenant of the key, or missing")
	case c.caller.Tenant != "":
		task.TenantID = c.caller.Tenant
	}
	if c.config.CheckPayload == nil {
		return task, nil
	}
	if given["payload"] != nil {
		if err := c.checkOne(task); err != nil {
			return task, err
		}
	}
	if given["if_dead"] != nil {
		for i, one := range task.IfDead {
			if err := c.checkOne(one); err != nil {
				return task, within(err, fmt.Sprintf("if_dead: task %d", i+1))
			}
		}
	}
	return task, nil
}

// checkOne asks the service whether it takes the payload of a task.
func (c call) checkOne(task store.Task) error {
	payload, err := json.Marshal(task.Payload)
	if err == nil {
		err = c.config.CheckPayload(task.Payload.TaskType(), payload)
	}
	if err != nil {
		return invalid(err.Error())
	}
	return nil
}

// ofOthers explains the refusal of the database to a caller with a tenant: the id is that of a task of another tenant,
// because ids are unique over all tenants.
func (c call) ofOthers(err error) error {
	if unbound, _ := keys.Unbound(err); c.caller.Tenant != "" && unbound == "" && pg.IsNotAllowed(err) {
		return refusal(CodeIDTaken, "the id is taken; choose another, for example with the tenant's name in it")
	}
	return err
}

func scheduleMany(ctx context.Context, c call, in *bulkInput) (Receipts, error) {
	tasks := make([]store.Task, len(in.Body.Tasks))
	for i, given := range in.Body.Tasks {
		id, err := given.idOrNew()
		if err != nil {
			return Receipts{}, err
		}
		if tasks[i], err = c.task(store.Task{ID: id}, given); err != nil {
			return Receipts{}, within(err, fmt.Sprintf("task %d of %d", i+1, len(tasks))) // as the store says it
		}
		tasks[i].Replace = in.Replace
	}
	receipts, err := c.tasks.ScheduleMany(ctx, c.db, tasks)
	if err != nil {
		return Receipts{}, c.ofOthers(err)
	}
	answer := Receipts{each(receipts, receiptOf)}
	for i, task := range tasks {
		answer.Receipts[i].Warnings = c.warnings(ctx, task)
	}
	return answer, nil
}

// within says in a refusal which part of the call it is about.
func within(err error, part string) error {
	if refused := new(Problem); errors.As(err, &refused) {
		return refusal(refused.Code, part+": "+refused.Detail)
	}
	return err
}

func patchTask(ctx context.Context, c call, in *patchInput) (*receiptAnswer, error) {
	if in.IfNoneMatch != "" {
		return nil, errNoneMatch
	}
	if notice.Reserved(in.ID, "") {
		return nil, errReserved
	}
	if in.Body["status"] != nil {
		return c.patchStatus(ctx, in)
	}
	row, err := c.locked(ctx, in.ID)
	if err != nil {
		return nil, err
	}
	if err := in.check(&row); err != nil {
		return nil, err
	}
	if row.FinishedAt != nil && in.Body["scheduled_at"] == nil && in.Body["if_finished"] == nil {
		return nil, refusal(CodeTaskFinished, fmt.Sprintf(
			"the task has ended (%s), and an edit would run it again; if you want that, give scheduled_at", row.Status))
	}
	task, err := store.TaskOf(row)
	if err != nil {
		return nil, err
	}
	if patch, found := in.Body["payload"]; found && string(patch) != "null" {
		payload, err := c.tasks.Payload(ctx, row)
		if err != nil {
			return nil, err
		}
		if in.Body["payload"], err = merge(payload, patch); err != nil {
			return nil, err
		}
	}
	if task, err = c.task(task, in.Body); err != nil {
		return nil, err
	}
	task.Replace = true // the patch names cron, or keeps it
	return c.scheduleTask(ctx, task)
}
