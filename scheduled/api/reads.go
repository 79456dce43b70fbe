package api

import (
	"context"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/tasktable/tasktable/scheduled/api/keys"
	"github.com/tasktable/tasktable/scheduled/internal/pg"
	"github.com/tasktable/tasktable/store"
	"github.com/tasktable/tasktable/store/inspect"
)

// Paging says which part of a list to read.
type Paging struct {
	Limit  int    `query:"limit" minimum:"1" maximum:"1000" default:"100"`
	Cursor string `query:"cursor" maxLength:"2048" doc:"The next_cursor of the page before."`
	Page   int    `query:"page" minimum:"1" maximum:"100" doc:"The number of the page, if there is no cursor."`
}

type listInput struct {
	Paging
	Order       string `query:"order" enum:"scheduled_at,finished_at,id" default:"scheduled_at"`
	LatestFirst bool   `query:"latest_first"`
}

// TaskPage is a part of a list.
type TaskPage struct {
	// A list ends early at 4 MiB, and a search by payload when it has read as many tasks as it may.
	Tasks      []Task `json:"tasks" nullable:"false" doc:"May be fewer than the limit, also before the last page."`
	NextCursor string `json:"next_cursor,omitempty" doc:"Missing on the last page."`
}

type taskInput struct {
	TaskPath
	Wait string `query:"wait" example:"30s" doc:"Answer when the status is final, or after this time. At most 1m."`

	Include string `query:"include" enum:"executions" doc:"Also answer the latest 20 attempts."`
}

type taskAnswer struct {
	ETag string `header:"ETag"`
	Body Task
}

// Latest says how much of a history to read.
type Latest struct {
	Limit int `query:"limit" minimum:"1" maximum:"1000" default:"100" doc:"How many, counted from the latest."`
}

type historyInput struct {
	TaskPath
	Latest
}

type executionsInput struct {
	TaskPath
	Latest
	Status executionOutcome `query:"status" doc:"Only attempts with this outcome."`
}

// executionOutcome is the outcome of an attempt.
type executionOutcome string

func (executionOutcome) Schema(huma.Registry) *huma.Schema {
	return words(store.AttemptOutcomes())
}

// Executions are the outcomes of the attempts of a task.
type Executions struct {
	Executions []store.Execution `json:"executions" nullable:"false" doc:"The oldest first."`
}

// Changes are the edits of a task.
type Changes struct {
	Changes   []Change `json:"changes" nullable:"false" doc:"The oldest first."`
	Shortened bool     `json:"shortened,omitempty" doc:"Earlier ones are missing, because all are larger than 4 MiB."`
}

// Change is one edit of a task, by a verb or by plain SQL.
type Change = store.Change

// Why tells why a task does or does not run, and its story.
type Why struct {
	ID        string              `json:"id"`
	At        time.Time           `json:"at"`
	Task      *Task               `json:"task,omitempty" doc:"Missing if the task was deleted."`
	Sentence  string              `json:"sentence" doc:"The reason in one sentence."`
	Next      []inspect.Upcoming  `json:"next" nullable:"false" doc:"What happens next."`
	Story     []inspect.StoryLine `json:"story" nullable:"false" doc:"What has happened, the oldest first."`
	Shortened bool                `json:"shortened,omitempty" doc:"Lines are missing after the first one."`
}

func (a *API) registerTaskReads() {
	read(a, huma.Operation{
		OperationID: "listTasks", Method: http.MethodGet, Path: "/v1/tasks", Summary: "List tasks",
		Description: "Tasks of the same time are in the order of their ids. Repeat status for several ones, as in " +
			"status=FAILED&status=EXPIRED.",
		Parameters: filterParameters(inspect.FilterFields()),
	}, func(ctx context.Context, c call, in *listInput) (TaskPage, error) {
		filter, err := queryFilter(ctx, inspect.FilterFields())
		if err != nil {
			return TaskPage{}, err
		}
		filter.Order, filter.LatestFirst = inspect.Order(in.Order), in.LatestFirst
		return c.list(ctx, filter, in.Paging)
	})
	register(a, keys.Read, huma.Operation{
		OperationID: opGetTask, Method: http.MethodGet, Path: "/v1/tasks/{id}",
		Summary: "Read a task", Description: "With wait it answers when the status is final.",
		Errors: []int{http.StatusNotFound},
	}, a.getTask)
	read(a, huma.Operation{
		OperationID: "listExecutions", Method: http.MethodGet, Path: "/v1/tasks/{id}/executions",
		Summary: "Read the outcome of each attempt", Description: "Also of a task that was deleted.",
	}, func(ctx context.Context, c call, in *executionsInput) (Executions, error) {
		executions, err := c.tasks.Executions(ctx, c.db, in.ID, string(in.Status), in.Limit)
		return Executions{pg.OrEmpty(executions)}, err
	})
	read(a, huma.Operation{
		OperationID: "listChanges", Method: http.MethodGet, Path: "/v1/tasks/{id}/changes",
		Summary: "Read who changed a task", Description: "Also of a task that was deleted.",
	}, func(ctx context.Context, c call, in *historyInput) (Changes, error) {
		history, shortened, err := fitting(in.Limit, func(limit int) (store.History, error) {
			return c.tasks.RecentHistory(ctx, c.db, in.ID, limit)
		})
		return Changes{pg.OrEmpty(history.Changes), shortened}, err
	})
	read(a, huma.Operation{
		OperationID: "whyTask", Method: http.MethodGet, Path: "/v1/tasks/{id}/why",
		Summary:     "Tell why a task does or does not run",
		Description: "One sentence, what happens next, and the story of the task.", Errors: []int{http.StatusNotFound},
	}, why)
}

// list reads a page. Without a cursor it goes past the pages before the wanted one.
func (c call) list(ctx context.Context, filter inspect.Filter, paging Paging) (TaskPage, error) {
	skip := (paging.Page - 1) * paging.Limit
	if paging.Cursor != "" {
		after, err := inspect.DecodeCursor(paging.Cursor)
		if err != nil {
			return TaskPage{}, invalid("cursor must be the next_cursor of a page before")
		}
		filter.After, skip = after, 0
	}
	for ; skip > 0; skip -= filter.Limit {
		filter.Limit = min(skip, skipAtOnce)
		after, err := c.inspector.Skip(ctx, c.db, filter)
		if err != nil || after == nil { // the list ends before the wanted page
			return TaskPage{Tasks: []Task{}}, err
		}
		filter.After = after
	}
	if filter.Payload != "" {
		return c.search(ctx, filter, paging.Limit)
	}
	rows, shortened, err := fitting(paging.Limit+1, func(limit int) ([]store.Row, error) {
		filter.Limit = limit // one more task tells that there is a next page
		return c.inspector.List(ctx, c.db, filter)
	})
	if len(rows) > paging.Limit {
		rows, shortened = rows[:paging.Limit], true
	}
	page := TaskPage{Tasks: each(rows, taskOf)}
	if shortened && len(rows) > 0 {
		page.NextCursor = inspect.EncodeCursor(rows[len(rows)-1])
	}
	return page, err
}

// search reads a page that ends early if its search has read as many tasks as one may read.
func (c call) search(ctx context.Context, filter inspect.Filter, limit int) (TaskPage, error) {
	found, _, err := fitting(limit, func(limit int) (inspect.Page, error) {
		filter.Limit = limit
		return c.inspector.Search(ctx, c.db, filter)
	})
	page := TaskPage{Tasks: each(found.Rows, taskOf)}
	if found.After != nil {
		page.NextCursor = inspect.EncodeCursor(*found.After)
	}
	return page, err
}

// skipAtOnce is how many tasks the API goes past in one query.
const skipAtOnce = 10000

func why(ctx context.Context, c call, in *TaskPath) (Why, error) {
	e, err := c.inspector.Why(ctx, c.db, in.ID)
	if err != nil {
		return Why{}, err
	}
	if !e.Known() {
		return Why{}, errNoTask
	}
	answer := Why{
		ID: e.ID, At: e.At, Sentence: e.Sentence, Next: pg.OrEmpty(e.Next),
		Story: pg.OrEmpty(e.Story), Shortened: e.Shortened,
	}
	for _, line := range answer.Story {
		for i, fact := range line.Facts {
			line.Facts[i].Was, line.Facts[i].Value = inSeconds(fact.Was), inSeconds(fact.Value)
		}
	}
	if e.Row != nil {
		answer.Task = new(taskOf(*e.Row))
	}
	return answer, nil
}

// inSeconds turns a duration into its form in JSON. Other values stay.
func inSeconds(value any) any {
	if d, ok := value.(time.Duration); ok {
		return *secondsOf(&d)
	}
	return value
}
