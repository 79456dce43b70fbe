package dashboard

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/tasktable/tasktable/store"
	"github.com/tasktable/tasktable/store/inspect"
)

// The greatest numbers of attempts and of follow-ups that are shown at once. The rest folds away.
const (
	maxAttempts  = 100
	attemptsOpen = 20
)

// taskView is the page of one task.
type taskView struct {
	ID        string
	Row       *store.Row // nil if the task no longer exists, or never did
	Known     bool
	Nearest   []string // similar ids, if the id was never scheduled
	Why       whyView
	Verbs     []verbView
	Story     storyView
	Attempts  []attemptView // the newest first
	Older     []attemptView // which fold away
	Fields    []pairView
	Logs      []pairView
	Payload   blockView
	Hidden    bool   // the person may not see the payload and the result
	Unread    string // why the payload cannot be decoded
	Result    blockView
	Message   blockView
	FollowUps []inspect.FollowUp
	Beside    inspect.Beside
	Recurring string // the path of the page of the recurring task
}

func (v taskView) Title() string { return v.ID }

func taskPage(ctx context.Context, v *visit) (any, error) {
	id := v.path("id")
	e, err := v.inspector.Why(ctx, v.db, id)
	if err != nil {
		return nil, err
	}
	view := taskView{ID: id, Row: e.Row, Known: e.Known(), Nearest: e.Nearest, Why: whyOf(e)}
	if !view.Known {
		v.answer.status = http.StatusNotFound
		return view, nil
	}
	executions, err := v.tasks.Executions(ctx, v.db, id, "", maxAttempts)
	if err != nil {
		return nil, err
	}
	if e.Row != nil {
		if err := view.readRow(ctx, v, e.Reason.Detail); err != nil {
			return nil, err
		}
	}
	view.Attempts = attemptsOf(e.Row, executions)
	open := min(len(view.Attempts), attemptsOpen)
	view.Attempts, view.Older = view.Attempts[:open], view.Attempts[open:]
	view.Story = storyOf(e, executions, view.FollowUps, v.may(v.board.config.PayloadScope))
	return view, nil
}

// readRow reads the parts of the page for which the task must exist. detail is what the reason tells already.
func (v *taskView) readRow(ctx context.Context, on *visit, detail string) (err error) {
	row := *v.Row
	v.Fields, v.Logs = fieldsOfRow(row), logFields(row)
	v.Verbs = on.verbsOf(row)
	if v.FollowUps, err = on.inspector.FollowUps(ctx, on.db, row.ID); err != nil {
		return err
	}
	if v.Beside, err = on.inspector.Beside(ctx, on.db, row); err != nil {
		return err
	}
	switch {
	case row.Cron != nil:
		v.Recurring = recurringPath(row.ID)
	case row.ParentID != nil:
		v.Recurring = recurringPath(*row.ParentID)
	}
	if row.Message != nil && strings.TrimSpace(*row.Message) != strings.TrimSpace(detail) {
		v.Message = blockOf(*row.Message, maxBlockLines)
	}
	payload, shown, err := on.payload(ctx, row)
	switch {
	case !shown:
		v.Hidden = true
		return nil
	case err != nil: // it is encoded by a codec that the dashboard does not have
		v.Unread, err = sentence(err), nil
	}
	v.Payload = blockOf(payload, maxBlockLines)
	var result bytes.Buffer
	if len(row.Result) > 0 && json.Indent(&result, row.Result, "", "  ") == nil {
		v.Result = blockOf(result.String(), maxBlockLines)
	}
	return err
}

// attemptView is a row of the table of attempts. Their numbers begin anew with a retry, which draws a revision.
type attemptView struct {
	store.Execution

	Delay *time.Duration
	Took  *time.Duration
	Error string
	Long  bool // the error has more than the table shows
}

// attemptsOf lists the attempts, the newest first. The history has no line of the attempt that goes on.
func attemptsOf(row *store.Row, executions []store.Execution) (attempts []attemptView) {
	for _, x := range slices.Backward(executions) {
		one := attemptView{Execution: x}
		if x.StartedAt != nil {
			one.Took = new(x.FinishedAt.Sub(*x.StartedAt))
			if x.DueAt != nil {
				one.Delay = new(x.StartedAt.Sub(*x.DueAt))
			}
		}
		if x.Error != nil {
			one.Error = strings.TrimSpace(*x.Error)
			one.Long = len(one.Error) > maxDetail || strings.Contains(one.Error, "\n")
		}
		attempts = append(attempts, one)
	}
	if row != nil && row.Fence != nil && row.Status == store.StatusExecuting {
		now := attemptView{Execution: store.Execution{Fence: *row.Fence, Attempt: row.Attempt, Revision: row.Revision,
			Outcome: store.AttemptOutcome(row.Status)}}
		if row.StartedFence != nil && *row.StartedFence == *row.Fence { // else they are of an earlier attempt
			now.StartedAt, now.Node = row.StartedAt, row.Node
		}
		attempts = append([]attemptView{now}, attempts...)
	}
	return attempts
}
