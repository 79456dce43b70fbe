package api

import (
	"cmp"
	"context"
	"net/http"
	"slices"

	"github.com/danielgtaylor/huma/v2"

	"github.com/tasktable/tasktable/scheduled/api/keys"
	"github.com/tasktable/tasktable/store"
	"github.com/tasktable/tasktable/store/inspect"
)

type deadListInput struct {
	TaskFilter
	Paging
	LatestFirst bool `query:"latest_first"`
}

type deadGroupsInput struct {
	TaskFilter

	By    string `query:"by" enum:"entity,tenant" doc:"A field that the groups are made by, too."`
	Limit int    `query:"limit" minimum:"1" maximum:"1000" default:"100" doc:"How many groups, the largest first."`
}

type deadGroupsAnswer struct {
	Body struct {
		Groups []inspect.Group `json:"groups" nullable:"false"`
		More   bool            `json:"more,omitempty" doc:"There are more groups than the limit."`
	}
}

type retryInput struct {
	Conditions
	Body RetryRequest
}

// ArchiveRequest selects dead letters, and says what was done about them.
type ArchiveRequest struct {
	ChosenDead
	Note string `json:"note,omitempty" maxLength:"4096" doc:"What was done about them."`
}

type archiveInput struct {
	Conditions
	Body ArchiveRequest
}

// defaultDeadLetters is not a default of the schema, because generators would then require the field.
const defaultDeadLetters = 1000

// RetryRequest selects dead letters, and says when they run.
type RetryRequest struct {
	ChosenDead
	Over Seconds `json:"over,omitempty" maximum:"86400" doc:"They become due one after the other, over this time."`
}

// ChosenDead selects dead letters, by their ids or by a filter.
type ChosenDead struct {
	IDs    []string    `json:"ids,omitempty" maxItems:"1000" nullable:"false" doc:"Others are unchanged."`
	Filter *TaskFilter `json:"filter,omitempty" doc:"Dead letters by their fields; {} selects all."`
	Limit  int         `json:"limit,omitempty" minimum:"1" maximum:"1000" doc:"How many at most. Default: 1000."`
}

func (a *API) registerDeadLetters() {
	read(a, huma.Operation{
		OperationID: "listDeadLetters", Method: http.MethodGet, Path: "/v1/dead-letters",
		Tags: []string{"dead letters"}, Summary: "List dead letters",
		Description: "Tasks that are FAILED or EXPIRED and that nobody has archived, the one that ended first first.",
		Errors:      []int{http.StatusUnprocessableEntity},
	}, func(ctx context.Context, c call, in *deadListInput) (*listAnswer, error) {
		filter, err := deadFilter(in.TaskFilter, "status")
		if err != nil {
			return nil, err
		}
		filter.LatestFirst = in.LatestFirst
		return c.list(ctx, filter, in.Paging)
	})
	read(a, huma.Operation{
		OperationID: "groupDeadLetters", Method: http.MethodGet, Path: "/v1/dead-letters/groups",
		Tags: []string{"dead letters"}, Summary: "Count dead letters by what went wrong",
		Description: "Dead letters of the same type and status, whose messages differ only in quoted texts and in " +
			"words with a digit or an @, are one group. Its pattern has a * for these parts. It is a filter, too. " +
			"The largest group comes first. Each has the id of one of its tasks as an example.",
		Errors: []int{http.StatusUnprocessableEntity},
	}, groupDeadLetters)
	change(a, keys.Operate, huma.Operation{
		OperationID: "retryDeadLetters", Method: http.MethodPost, Path: "/v1/dead-letters/retry",
		Tags: []string{"dead letters"}, Summary: "Retry dead letters",
		Description: "They run at once, or spread evenly over a time, with all their attempts. Call again until no " +
			"receipt comes, to retry all.",
	}, func(ctx context.Context, c call, in *retryInput) (*receiptsAnswer, error) {
		action := inspect.Action{Verb: inspect.Retry, Over: in.Body.Over.Duration()}
		return c.applyToDead(ctx, in.Conditions, action, in.Body.ChosenDead)
	})
	change(a, keys.Operate, huma.Operation{
		OperationID: "archiveDeadLetters", Method: http.MethodPost, Path: "/v1/dead-letters/archive",
		Tags: []string{"dead letters"}, Summary: "Mark dead letters as dealt with",
		Description: "They are no dead letters any more, and stay in the table.",
	}, func(ctx context.Context, c call, in *archiveInput) (*receiptsAnswer, error) {
		action := inspect.Action{Verb: inspect.Archive, Note: in.Body.Note}
		return c.applyToDead(ctx, in.Conditions, action, in.Body.ChosenDead)
	})
}

func groupDeadLetters(ctx context.Context, c call, in *deadGroupsInput) (*deadGroupsAnswer, error) {
	filter, err := deadFilter(in.TaskFilter, "status")
	if err != nil {
		return nil, err
	}
	filter.Limit = in.Limit + 1 // one more group tells that there are more
	groups, err := c.inspector.Groups(ctx, c.db, filter, inspect.Grouping(in.By))
	answer := &deadGroupsAnswer{}
	answer.Body.Groups = append([]inspect.Group{}, groups[:min(len(groups), in.Limit)]...)
	answer.Body.More = len(groups) > in.Limit
	return answer, err
}

// deadFilter selects dead letters. A status selects among the two that a dead letter has. field names the status in
// an error.
func deadFilter(given TaskFilter, field string) (inspect.Filter, error) {
	for _, status := range given.Status {
		if status != store.StatusFailed && status != store.StatusExpired {
			return inspect.Filter{}, invalid(field + " must be FAILED or EXPIRED")
		}
	}
	filter, dead := given.filter(), inspect.DeadLetters()
	filter.Archived, filter.Order = dead.Archived, dead.Order
	if len(filter.Statuses) == 0 {
		filter.Statuses = dead.Statuses
	}
	return filter, nil
}

func (c call) applyToDead(
	ctx context.Context, given Conditions, action inspect.Action, on ChosenDead,
) (*receiptsAnswer, error) {
	if err := given.refused(); err != nil {
		return nil, err
	}
	if (len(on.IDs) > 0) == (on.Filter != nil) {
		return nil, invalid("body must have either ids or filter; an empty filter selects all")
	}
	filter, err := deadFilter(deref(on.Filter), "filter.status")
	if err != nil {
		return nil, err
	}
	filter.Limit = cmp.Or(on.Limit, defaultDeadLetters)
	var receipts []store.Receipt
	if len(on.IDs) > 0 {
		receipts, err = c.inspector.Apply(ctx, c.db, action, on.IDs, filter)
		receipts = withUnchanged(receipts, on.IDs)
	} else {
		receipts, err = c.inspector.ApplyAll(ctx, c.db, action, filter)
	}
	return receiptsOf(receipts), err
}

// withUnchanged adds a receipt for each id that is not that of a dead letter.
func withUnchanged(receipts []store.Receipt, ids []string) []store.Receipt {
	for _, id := range ids {
		if !slices.ContainsFunc(receipts, func(r store.Receipt) bool { return r.ID == id }) {
			receipts = append(receipts, store.Receipt{ID: id, Outcome: store.Unchanged})
		}
	}
	return receipts
}
