package api

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"github.com/tasktable/tasktable/scheduled/api/keys"
	"github.com/tasktable/tasktable/store"
)

// Receipt is the result of a call for one task.
type Receipt struct {
	ID       string        `json:"id"`
	Revision int64         `json:"revision,omitempty"`
	Outcome  store.Outcome `json:"outcome"`
}

// receiptAnswer answers a call on one task.
type receiptAnswer struct {
	Status int
	ETag   string `header:"ETag"`
	Body   Receipt
}

func answerOf(receipt store.Receipt) *receiptAnswer {
	a := &receiptAnswer{Status: http.StatusOK, Body: Receipt(receipt)}
	if receipt.Outcome == store.Created {
		a.Status = http.StatusCreated
	}
	if receipt.Revision > 0 {
		a.ETag = etag(receipt.Revision)
	}
	return a
}

func etag(revision int64) string { return `"` + strconv.FormatInt(revision, 10) + `"` }

type createInput struct {
	Conditions
	Body struct {
		ID string `json:"id,omitempty" maxLength:"512" doc:"Default: a new id, a UUID of version 7."`
		Content
	}
}

type bulkInput struct {
	Conditions
	Body struct {
		Tasks []BulkTask `json:"tasks" minItems:"1" maxItems:"1000" nullable:"false"`
	}
}

// BulkTask is one of many tasks to schedule.
type BulkTask struct {
	ID string `json:"id,omitempty" maxLength:"512" doc:"Default: a new id, a UUID of version 7."`
	Content
}

type receiptsAnswer struct {
	Body struct {
		Receipts []Receipt `json:"receipts" nullable:"false" doc:"One for each task, in their order."`
	}
}

// TaskPath names a task in the path of a call.
type TaskPath struct {
	ID string `path:"id" maxLength:"512" doc:"The id of the task, percent-encoded."`
}

type putInput struct {
	Conditions
	TaskPath
	Body Content
}

type patchInput struct {
	Conditions
	TaskPath
	Body Patch
}

func (a *API) registerTasks() {
	change(a, keys.Schedule, huma.Operation{
		OperationID: "createTask", Method: http.MethodPost, Path: "/v1/tasks", Tags: []string{"tasks"},
		Summary: "Schedule a task", DefaultStatus: http.StatusCreated,
		Description: "Creates a task. With the id of a task that exists it does what PUT does.",
		Errors:      []int{http.StatusPreconditionFailed},
	}, false, func(ctx context.Context, c call, in *createInput) (*receiptAnswer, error) {
		id := in.Body.ID
		if id == "" {
			var err error
			if id, err = store.NewID(); err != nil {
				return nil, err
			}
		}
		return c.schedule(ctx, id, in.Body.Content, in.IfMatch)
	})
	change(a, keys.Schedule, huma.Operation{
		OperationID: "scheduleTasks", Method: http.MethodPost, Path: "/v1/tasks/bulk", Tags: []string{"tasks"},
		Summary: "Schedule up to 1,000 tasks",
		Description: "Schedules all tasks in one transaction. If one is invalid, none is scheduled. Of two tasks " +
			"with the same id the later one wins.",
	}, false, scheduleMany)
	change(a, keys.Schedule, huma.Operation{
		OperationID: "putTask", Method: http.MethodPut, Path: "/v1/tasks/{id}", Tags: []string{"tasks"},
		Summary: "Schedule the task of an id",
		Description: "Creates the task, or edits the task that has the id. The body says everything that is wanted " +
			"of the task, so a field that is missing gets its default. The answer is 201 if the task is new, and 200 " +
			"with the outcome otherwise. To schedule the same again writes nothing.",
		Errors: []int{http.StatusPreconditionFailed},
	}, false, func(ctx context.Context, c call, in *putInput) (*receiptAnswer, error) {
		return c.schedule(ctx, in.ID, in.Body, in.IfMatch)
	})
	change(a, keys.Schedule, huma.Operation{
		OperationID: "patchTask", Method: http.MethodPatch, Path: "/v1/tasks/{id}", Tags: []string{"tasks"},
		Summary: "Change some fields of a task",
		Description: "Changes the fields in the body and keeps the others (RFC 7396, JSON merge patch). null sets a " +
			"field to its default. The fields of the payload are merged, too.",
		Errors: []int{http.StatusNotFound, http.StatusPreconditionFailed},
	}, true, patchTask)
	paths := a.huma.OpenAPI().Paths
	createsOrEdits(paths["/v1/tasks"].Post)
	createsOrEdits(paths["/v1/tasks/{id}"].Put)
}

func (c call) schedule(ctx context.Context, id string, content Content, ifMatch string) (*receiptAnswer, error) {
	task, err := content.task(id, c.caller)
	if err != nil {
		return nil, err
	}
	if err := c.unchanged(ctx, id, ifMatch); err != nil {
		return nil, err
	}
	receipt, err := c.tasks.Schedule(ctx, c.db, task)
	if err != nil {
		return nil, c.ofOthers(err)
	}
	return answerOf(receipt), nil
}

// ofOthers explains the refusal of the database to a caller with a tenant: the id is that of a task of another tenant,
// because ids are unique over all tenants.
func (c call) ofOthers(err error) error {
	if c.caller.Tenant != "" && isNotAllowed(err) {
		return huma.Error409Conflict("the id is taken; choose another, for example with the tenant's name in it")
	}
	return err
}

// unchanged returns an error if the task has another revision than the If-Match, or does not exist. Without an If-Match
// it returns nil.
func (c call) unchanged(ctx context.Context, id, ifMatch string) error {
	if ifMatch == "" {
		return nil
	}
	row, err := c.locked(ctx, id)
	switch {
	case errors.Is(err, store.ErrNotFound):
		return errChanged
	case err != nil:
		return err
	case !matches(ifMatch, row.Revision):
		return errChanged
	}
	return nil
}

// lockSQL keeps others from changing the task until the transaction ends.
const lockSQL = `SELECT FROM tasktable.scheduled_tasks WHERE id = $1::text FOR UPDATE`

// locked locks a task and reads it, so that it cannot change before the call writes it.
func (c call) locked(ctx context.Context, id string) (store.Row, error) {
	row, err := c.tasks.Get(ctx, c.db, id) // it checks the id
	if err != nil {
		return row, err
	}
	rows, err := c.db.Query(ctx, c.schema.SQL(lockSQL), id)
	if err == nil {
		rows.Close()
		err = rows.Err()
	}
	if err != nil {
		return store.Row{}, fmt.Errorf("lock task %s: %w", id, err)
	}
	return c.tasks.Get(ctx, c.db, id)
}

// matches compares an If-Match with a revision. A proxy may have made the ETag a weak one.
func matches(ifMatch string, revision int64) bool {
	for given := range strings.SplitSeq(ifMatch, ",") {
		if given = strings.TrimPrefix(strings.TrimSpace(given), "W/"); given == "*" || given == etag(revision) {
			return true
		}
	}
	return false
}

func scheduleMany(ctx context.Context, c call, in *bulkInput) (*receiptsAnswer, error) {
	if in.IfMatch != "" {
		return nil, errOneTask
	}
	tasks := make([]store.Task, len(in.Body.Tasks))
	for i, given := range in.Body.Tasks {
		var err error
		if given.ID == "" {
			if given.ID, err = store.NewID(); err != nil {
				return nil, err
			}
		}
		if tasks[i], err = given.task(given.ID, c.caller); err != nil {
			return nil, inBulk(err, i, len(tasks))
		}
	}
	receipts, err := c.tasks.ScheduleMany(ctx, c.db, tasks)
	if err != nil {
		return nil, c.ofOthers(err)
	}
	return receiptsOf(receipts), nil
}

func receiptsOf(receipts []store.Receipt) *receiptsAnswer {
	answer := &receiptsAnswer{}
	answer.Body.Receipts = make([]Receipt, len(receipts))
	for i, receipt := range receipts {
		answer.Body.Receipts[i] = Receipt(receipt)
	}
	return answer
}

// inBulk names the task of a bulk call that an error is about, as the store does.
func inBulk(err error, i, tasks int) error {
	if refused := new(huma.ErrorModel); errors.As(err, &refused) {
		return huma.NewError(refused.Status, fmt.Sprintf("task %d of %d: %s", i+1, tasks, refused.Detail))
	}
	return err
}

func patchTask(ctx context.Context, c call, in *patchInput) (*receiptAnswer, error) {
	row, err := c.locked(ctx, in.ID)
	if err != nil {
		return nil, err
	}
	if in.IfMatch != "" && !matches(in.IfMatch, row.Revision) {
		return nil, errChanged
	}
	payload, err := c.tasks.Payload(ctx, row)
	if err != nil {
		return nil, err
	}
	content, err := in.Body.applied(contentOf(row, payload))
	if err != nil {
		return nil, err
	}
	task, err := content.task(in.ID, c.caller)
	if err != nil {
		return nil, err
	}
	receipt, err := c.tasks.Schedule(ctx, c.db, task)
	if err != nil {
		return nil, err
	}
	return answerOf(receipt), nil
}
