package api

import (
	"context"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/tasktable/tasktable/scheduled/api/keys"
	"github.com/tasktable/tasktable/store"
	"github.com/tasktable/tasktable/store/inspect"
)

// TaskFilter selects tasks by their fields. A field that is missing selects all.
type TaskFilter struct {
	Type      string         `query:"type" minLength:"1" maxLength:"127" json:"type,omitempty"`
	Status    []store.Status `query:"status,explode" minItems:"1" json:"status,omitempty" nullable:"false"`
	Queue     string         `query:"queue" minLength:"1" maxLength:"127" json:"queue,omitempty"`
	Entity    string         `query:"entity" minLength:"1" maxLength:"512" json:"entity,omitempty"`
	TenantID  string         `query:"tenant_id" minLength:"1" maxLength:"512" json:"tenant_id,omitempty"`
	IDPrefix  string         `query:"id_prefix" minLength:"1" maxLength:"512" json:"id_prefix,omitempty"`
	SpawnedBy string         `query:"spawned_by" minLength:"1" maxLength:"512" json:"spawned_by,omitempty"`

	Message string `query:"message" minLength:"1" maxLength:"512" json:"message,omitempty" doc:"A part of it."`
	Pattern string `query:"pattern" minLength:"1" maxLength:"512" json:"pattern,omitempty" doc:"That of a group."`

	ScheduledFrom time.Time `query:"scheduled_from" json:"scheduled_from,omitzero"`
	ScheduledTo   time.Time `query:"scheduled_to" json:"scheduled_to,omitzero" doc:"This time is not included."`
	FinishedFrom  time.Time `query:"finished_from" json:"finished_from,omitzero"`
	FinishedTo    time.Time `query:"finished_to" json:"finished_to,omitzero" doc:"This time is not included."`
}

// splitStatuses reads status=A,B as status=A&status=B, because the command line writes several statuses with commas.
// The document tells the second form alone, which generated clients use.
func splitStatuses(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		query, err := url.ParseQuery(r.URL.RawQuery) // checkQuery refuses one that cannot be read
		if given := strings.Join(query["status"], ","); err == nil && strings.Contains(given, ",") {
			query["status"] = strings.Split(given, ",")
			r = r.Clone(r.Context())
			r.URL.RawQuery = query.Encode()
		}
		next.ServeHTTP(w, r)
	})
}

func (f TaskFilter) filter() inspect.Filter {
	return inspect.Filter{
		Type: f.Type, Statuses: f.Status, Queue: f.Queue, Entity: f.Entity, TenantID: f.TenantID, IDPrefix: f.IDPrefix,
		SpawnedBy: f.SpawnedBy, Message: f.Message, Pattern: f.Pattern, ScheduledFrom: f.ScheduledFrom,
		ScheduledTo: f.ScheduledTo, FinishedFrom: f.FinishedFrom, FinishedTo: f.FinishedTo,
	}
}

// Paging says which part of a list to read.
type Paging struct {
	Limit  int    `query:"limit" minimum:"1" maximum:"1000" default:"100"`
	Cursor string `query:"cursor" maxLength:"2048" doc:"The next_cursor of the page before."`
	Page   int    `query:"page" minimum:"1" maximum:"100" doc:"The number of the page, if there is no cursor."`
}

type listInput struct {
	TaskFilter
	Paging
	Archived    string `query:"archived" enum:"true,false" doc:"Only archived dead letters, or no archived ones."`
	Waiting     bool   `query:"waiting" doc:"Only tasks that wait because something, such as a host, is out of order."`
	Order       string `query:"order" enum:"scheduled_at,finished_at,id" default:"scheduled_at"`
	LatestFirst bool   `query:"latest_first"`
}

// TaskPage is a part of a list.
type TaskPage struct {
	Tasks      []Task `json:"tasks" nullable:"false" doc:"Fewer than the limit if they are larger than 4 MiB together."`
	NextCursor string `json:"next_cursor,omitempty" doc:"Missing on the last page."`
}

type listAnswer struct{ Body TaskPage }

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

type executionsAnswer struct{ Body Executions }

// Changes are the edits of a task.
type Changes struct {
	Changes   []Change `json:"changes" nullable:"false" doc:"The oldest first."`
	Shortened bool     `json:"shortened,omitempty" doc:"Earlier ones are missing, because all are larger than 4 MiB."`
}

type changesAnswer struct{ Body Changes }

// Change is one edit of a task, by a verb or by plain SQL.
type Change struct {
	Revision  int64     `json:"revision"`
	TaskID    string    `json:"task_id"`
	Verb      string    `json:"verb"`
	Outcome   string    `json:"outcome"`
	ChangedAt time.Time `json:"changed_at"`
	ChangedBy string    `json:"changed_by"`
	Old       Value     `json:"old,omitempty" doc:"The columns before, as Postgres writes them."`
	New       Value     `json:"new,omitempty" doc:"The columns after, as Postgres writes them."`
}

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

type whyAnswer struct{ Body Why }

func (a *API) registerTaskReads() {
	read(a, huma.Operation{
		OperationID: "listTasks", Method: http.MethodGet, Path: "/v1/tasks", Tags: []string{"tasks"},
		Summary: "List tasks",
		Description: "Tasks of the same time are in the order of their ids. Repeat status for several ones, as in " +
			"status=FAILED&status=EXPIRED.",
		Errors: []int{http.StatusUnprocessableEntity},
	}, func(ctx context.Context, c call, in *listInput) (*listAnswer, error) {
		filter := in.filter()
		filter.Order, filter.LatestFirst, filter.Waiting = inspect.Order(in.Order), in.LatestFirst, in.Waiting
		if in.Archived != "" {
			filter.Archived = new(in.Archived == "true")
		}
		return c.list(ctx, filter, in.Paging)
	})
	register(a, keys.Read, huma.Operation{
		OperationID: opGetTask, Method: http.MethodGet, Path: "/v1/tasks/{id}", Tags: []string{"tasks"},
		Summary: "Read a task", Description: "With wait it answers when the status is final.",
		Errors: []int{http.StatusNotFound, http.StatusUnprocessableEntity},
	}, a.getTask)
	read(a, huma.Operation{
		OperationID: "listExecutions", Method: http.MethodGet, Path: "/v1/tasks/{id}/executions",
		Tags: []string{"tasks"}, Summary: "Read the outcome of each attempt",
		Description: "Also of a task that was deleted.", Errors: []int{http.StatusUnprocessableEntity},
	}, func(ctx context.Context, c call, in *executionsInput) (*executionsAnswer, error) {
		executions, err := c.tasks.Executions(ctx, c.db, in.ID, string(in.Status), in.Limit)
		answer := &executionsAnswer{}
		answer.Body.Executions = append([]store.Execution{}, executions...)
		return answer, err
	})
	read(a, huma.Operation{
		OperationID: "listChanges", Method: http.MethodGet, Path: "/v1/tasks/{id}/changes", Tags: []string{"tasks"},
		Summary: "Read who changed a task", Description: "Also of a task that was deleted.",
		Errors: []int{http.StatusUnprocessableEntity},
	}, func(ctx context.Context, c call, in *historyInput) (*changesAnswer, error) {
		history, shortened, err := fitting(in.Limit, func(limit int) (store.History, error) {
			return c.tasks.RecentHistory(ctx, c.db, in.ID, limit)
		})
		answer := &changesAnswer{}
		answer.Body.Shortened = shortened
		answer.Body.Changes = make([]Change, len(history.Changes))
		for i, one := range history.Changes {
			answer.Body.Changes[i] = Change{
				Revision: one.Revision, TaskID: one.TaskID, Verb: one.Verb, Outcome: one.Outcome,
				ChangedAt: one.ChangedAt, ChangedBy: one.ChangedBy, Old: Value(one.Old), New: Value(one.New),
			}
		}
		return answer, err
	})
	read(a, huma.Operation{
		OperationID: "whyTask", Method: http.MethodGet, Path: "/v1/tasks/{id}/why", Tags: []string{"tasks"},
		Summary:     "Tell why a task does or does not run",
		Description: "One sentence, what happens next, and the story of the task.",
		Errors:      []int{http.StatusNotFound, http.StatusUnprocessableEntity},
	}, why)
}

// list reads a page. Without a cursor it goes past the pages before the wanted one.
func (c call) list(ctx context.Context, filter inspect.Filter, paging Paging) (*listAnswer, error) {
	answer := &listAnswer{Body: TaskPage{Tasks: []Task{}}}
	skip := (paging.Page - 1) * paging.Limit
	if paging.Cursor != "" {
		after, err := inspect.DecodeCursor(paging.Cursor)
		if err != nil {
			return nil, invalid("cursor must be the next_cursor of a page before")
		}
		filter.After, skip = after, 0
	}
	for ; skip > 0; skip -= filter.Limit {
		filter.Limit = min(skip, skipAtOnce)
		after, err := c.inspector.Skip(ctx, c.db, filter)
		if err != nil || after == nil { // the list ends before the wanted page
			return answer, err
		}
		filter.After = after
	}
	rows, shortened, err := fitting(paging.Limit+1, func(limit int) ([]store.Row, error) {
		filter.Limit = limit // one more task tells that there is a next page
		return c.inspector.List(ctx, c.db, filter)
	})
	if err != nil {
		return nil, err
	}
	if len(rows) > paging.Limit {
		rows, shortened = rows[:paging.Limit], true
	}
	answer.Body.Tasks = tasksOf(rows)
	if shortened && len(rows) > 0 {
		answer.Body.NextCursor = inspect.EncodeCursor(rows[len(rows)-1])
	}
	return answer, nil
}

// skipAtOnce is how many tasks the API goes past in one query.
const skipAtOnce = 10000

func why(ctx context.Context, c call, in *TaskPath) (*whyAnswer, error) {
	e, err := c.inspector.Why(ctx, c.db, in.ID)
	if err != nil {
		return nil, err
	}
	if !e.Known() {
		return nil, errNoTask
	}
	answer := &whyAnswer{Body: Why{
		ID: e.ID, At: e.At, Sentence: e.Sentence, Next: append([]inspect.Upcoming{}, e.Next...),
		Story:     append([]inspect.StoryLine{}, e.Story...),
		Shortened: e.Shortened,
	}}
	for _, line := range answer.Body.Story {
		for i, fact := range line.Facts {
			line.Facts[i].Was, line.Facts[i].Value = inSeconds(fact.Was), inSeconds(fact.Value)
		}
	}
	if e.Row != nil {
		answer.Body.Task = new(taskOf(*e.Row))
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
