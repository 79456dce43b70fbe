package api

import (
	"context"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"github.com/tasktable/tasktable/scheduled/internal/pg"
	"github.com/tasktable/tasktable/store/inspect"
)

type deadListInput struct {
	Paging
	Archived    bool `query:"archived" doc:"The archived dead letters, and not the others."`
	LatestFirst bool `query:"latest_first"`
}

type deadGroupsInput struct {
	By    string `query:"by" enum:"entity,tenant" doc:"A field that the groups are made by, too."`
	Limit int    `query:"limit" minimum:"1" maximum:"1000" default:"100" doc:"How many groups, the largest first."`
}

// deadGroupsAnswerBody has the name that generated clients know its schema by.
type deadGroupsAnswerBody struct {
	Groups    []inspect.Group `json:"groups" nullable:"false"`
	More      bool            `json:"more,omitempty" doc:"There are more groups than the limit."`
	Shortened bool            `json:"shortened,omitempty" doc:"Only the 20,000 that ended last are counted."`
}

func (a *API) registerDeadLetters() {
	read(a, huma.Operation{
		OperationID: "listDeadLetters", Method: http.MethodGet, Path: "/v1/dead-letters", Summary: "List dead letters",
		Description: "Tasks that are FAILED or EXPIRED and that nobody has archived, the one that ended first first.",
		Parameters:  filterParameters(inspect.DeadLetterFields()),
	}, func(ctx context.Context, c call, in *deadListInput) (TaskPage, error) {
		filter, err := queryFilter(ctx, inspect.DeadLetterFields())
		if err != nil {
			return TaskPage{}, err
		}
		filter = deadFilter(filter)
		filter.Archived, filter.LatestFirst = &in.Archived, in.LatestFirst
		return c.list(ctx, filter, in.Paging)
	})
	read(a, huma.Operation{
		OperationID: "groupDeadLetters", Method: http.MethodGet, Path: "/v1/dead-letters/groups",
		Summary: "Count dead letters by what went wrong",
		Description: "Dead letters of the same type and status, whose messages differ only in quoted texts and in " +
			"words with a digit or an @, are one group. Its pattern has a * for these parts. It is a filter, too. " +
			"The largest group comes first. Each has the id of one of its tasks as an example.",
		Parameters: filterParameters(inspect.DeadLetterFields()),
	}, groupDeadLetters)
}

func groupDeadLetters(ctx context.Context, c call, in *deadGroupsInput) (deadGroupsAnswerBody, error) {
	filter, err := queryFilter(ctx, inspect.DeadLetterFields())
	if err != nil {
		return deadGroupsAnswerBody{}, err
	}
	filter = deadFilter(filter)
	filter.Limit = in.Limit + 1 // one more group tells that there are more
	groups, err := c.inspector.Groups(ctx, c.db, filter, inspect.Grouping(in.By))
	return deadGroupsAnswerBody{
		Groups: pg.OrEmpty(groups[:min(len(groups), in.Limit)]), More: len(groups) > in.Limit,
		Shortened: len(groups) > 0 && groups[0].More,
	}, err
}
