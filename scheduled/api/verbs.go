package api

import (
	"context"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"

	notice "github.com/tasktable/tasktable/handlers/notice/contract"
	"github.com/tasktable/tasktable/scheduled/api/keys"
	"github.com/tasktable/tasktable/store"
)

type verbInput struct {
	Conditions
	TaskPath
}

// PauseRequest says how long a task is paused.
type PauseRequest struct {
	Until *time.Time `json:"until,omitempty" doc:"When the pause ends by itself. Default: it does not."`
}

type pauseInput struct {
	Conditions
	TaskPath
	Body *PauseRequest
}

func (a *API) registerVerbs() {
	verb(a, "cancel", "Keep a task from running",
		"If a handler runs, its context ends. Outcomes: cancelled, unchanged, finished.",
		func(ctx context.Context, c call, id string) (store.Receipt, error) {
			return c.tasks.Cancel(ctx, c.db, id)
		})
	verb(a, "resume", "Queue a paused task for the time that it had",
		"It runs at once if that time has passed. Outcomes: queued, unchanged, finished.",
		func(ctx context.Context, c call, id string) (store.Receipt, error) {
			return c.tasks.Resume(ctx, c.db, id)
		})
	verb(a, "run-now", "Run a task at once",
		"Also a task that has ended. For a recurring task it makes one more occurrence. Outcomes: queued, again (it "+
			"runs, and runs once more after this attempt).",
		func(ctx context.Context, c call, id string) (store.Receipt, error) {
			return c.tasks.RunNow(ctx, c.db, id)
		})
	verb(a, "retry", "Run a FAILED or EXPIRED task again",
		"It runs at once, and has all its attempts again. Outcomes: queued, unchanged, finished.",
		func(ctx context.Context, c call, id string) (store.Receipt, error) {
			return c.tasks.Retry(ctx, c.db, id)
		})
	change(a, keys.Schedule, verbOperation("pause", "Keep a task from starting",
		"An attempt that runs goes on. Outcomes: paused, unchanged, finished."),
		func(ctx context.Context, c call, in *pauseInput) (*receiptAnswer, error) {
			return c.verb(ctx, in.ID, in.Conditions, func() (store.Receipt, error) {
				if in.Body != nil && in.Body.Until != nil {
					if err := toCome(*in.Body.Until); err != nil {
						return store.Receipt{}, err
					}
					return c.tasks.PauseUntil(ctx, c.db, in.ID, *in.Body.Until)
				}
				return c.tasks.Pause(ctx, c.db, in.ID)
			})
		})
	change(a, keys.Schedule, huma.Operation{
		OperationID: "deleteTask", Method: http.MethodDelete, Path: "/v1/tasks/{id}", Tags: []string{"tasks"},
		Summary: "Delete a task",
		Description: "Its history stays. A task that a claim holds is not deleted, and the answer is 409. Cancel it " +
			"first.",
		Errors: []int{http.StatusNotFound, http.StatusPreconditionFailed},
	}, func(ctx context.Context, c call, in *verbInput) (*receiptAnswer, error) {
		return c.verb(ctx, in.ID, in.Conditions, func() (store.Receipt, error) {
			receipt, err := c.tasks.Delete(ctx, c.db, in.ID)
			if err == nil && receipt.Outcome == store.Running {
				err = refusal(CodeTaskRunning, "the task is running; cancel it first")
			}
			return receipt, err
		})
	})
}

// toCome refuses the end of a pause that has passed, because the pause would hold nothing back.
func toCome(until time.Time) error {
	if now := time.Now(); !until.After(now) {
		return invalid("until must be a time to come, and it is now " + now.UTC().Format(time.RFC3339))
	}
	return nil
}

func verb(
	a *API, name, summary, description string, do func(context.Context, call, string) (store.Receipt, error),
) {
	change(a, keys.Schedule, verbOperation(name, summary, description),
		func(ctx context.Context, c call, in *verbInput) (*receiptAnswer, error) {
			return c.verb(ctx, in.ID, in.Conditions, func() (store.Receipt, error) { return do(ctx, c, in.ID) })
		})
}

func verbOperation(name, summary, description string) huma.Operation {
	ids := map[string]string{"cancel": "cancelTask", "pause": "pauseTask", "resume": "resumeTask",
		"run-now": "runTaskNow", "retry": "retryTask"}
	return huma.Operation{
		OperationID: ids[name], Method: http.MethodPost, Path: "/v1/tasks/{id}/" + name, Tags: []string{"tasks"},
		Summary: summary, Description: description,
		Errors: []int{http.StatusNotFound, http.StatusPreconditionFailed},
	}
}

// verb calls do if the caller sees the task and its revision is the one of the If-Match.
func (c call) verb(
	ctx context.Context, id string, given Conditions, do func() (store.Receipt, error),
) (*receiptAnswer, error) {
	if notice.Reserved(id, "") {
		return nil, errReserved
	}
	if given.IfNoneMatch != "" {
		return nil, errNoneMatch
	}
	if err := c.unchanged(ctx, id, given); err != nil {
		return nil, err
	}
	receipt, err := do()
	if err != nil {
		return nil, err
	}
	if receipt.Outcome == store.Absent {
		return nil, errNoTask
	}
	return answerOf(receipt), nil
}
