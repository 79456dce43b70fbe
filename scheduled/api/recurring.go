package api

import (
	"context"
	"net/http"
	"slices"

	"github.com/danielgtaylor/huma/v2"

	"github.com/tasktable/tasktable/scheduled/internal/pg"
	"github.com/tasktable/tasktable/store"
	"github.com/tasktable/tasktable/store/inspect"
	"github.com/tasktable/tasktable/store/recurrence"
)

// Recurring is a recurring task, which itself never runs.
type Recurring struct {
	inspect.RecurringTask

	Jitter    Seconds  `json:"jitter,omitempty"` // instead of the nanoseconds
	Every     int      `json:"every,omitempty" doc:"The options of cron: each Nth week, day or month."`
	EveryFrom string   `json:"from,omitempty" format:"date" doc:"The day from which every counts."`
	OutOf     []string `json:"out_of,omitempty" nullable:"false" doc:"Not on days of these calendars."`
	KeepTo    []string `json:"keep_to,omitempty" nullable:"false" doc:"Only on days of these calendars."`
	Move      string   `json:"move,omitempty" enum:"next,previous" doc:"Where a fire on another day moves."`
}

// TransformSchema lists the health before the failures, as the document always has.
func (Recurring) TransformSchema(_ huma.Registry, schema *huma.Schema) *huma.Schema {
	slices.Reverse(schema.Required[len(schema.Required)-2:])
	return schema
}

func recurringOf(t inspect.RecurringTask) Recurring {
	_, options, _ := recurrence.Split(t.Cron) // the database has checked it
	from, _ := options.From.MarshalText()
	return Recurring{RecurringTask: t, Jitter: deref(secondsOf(t.Jitter)), Every: options.Every,
		EveryFrom: string(from), OutOf: options.OutOf, KeepTo: options.KeepTo, Move: string(options.Move)}
}

type recurringListInput struct {
	Queue  string `query:"queue"`
	Type   string `query:"type"`
	Status string `query:"status" enum:"QUEUED,PAUSED,CANCELLED,COMPLETED"`
	Entity string `query:"entity"`
	Tenant string `query:"tenant_id"`
	Limit  int    `query:"limit" minimum:"1" maximum:"1000" default:"100"`
	After  string `query:"after" maxLength:"512" doc:"The id of the last task of the page before."`
}

// RecurringTasks is a part of the list of recurring tasks.
type RecurringTasks struct {
	Recurring []Recurring `json:"recurring" nullable:"false" doc:"In the order of their ids."`
}

type recurringInput struct {
	TaskPath
	Fires int `query:"fires" minimum:"0" maximum:"1000" default:"5" doc:"How many of the next fires to compute."`
}

// Forecast is a recurring task with its next fires.
type Forecast struct {
	Recurring

	Fires       []inspect.Fire    `json:"fires" nullable:"false" doc:"The next fires."`
	LeftOut     []inspect.LeftOut `json:"left_out,omitempty" nullable:"false" doc:"Days until then that are out."`
	LeftOutMore bool              `json:"left_out_more,omitempty" doc:"There are more such days."`
	Ended       string            `json:"ended,omitempty" doc:"Why there are no further fires."`
}

func (a *API) registerRecurring() {
	read(a, huma.Operation{
		OperationID: "listRecurring", Method: http.MethodGet, Path: "/v1/recurring",
		Summary: "List recurring tasks", Description: "To make or edit one, schedule a task with cron.",
	}, listRecurring)
	read(a, huma.Operation{
		OperationID: "getRecurring", Method: http.MethodGet, Path: "/v1/recurring/{id}",
		Summary: "Read a recurring task and its next fires", Description: "The verbs are those of a task.",
		Errors: []int{http.StatusNotFound},
	}, getRecurring)
}

func listRecurring(ctx context.Context, c call, in *recurringListInput) (RecurringTasks, error) {
	found, err := c.inspector.ListRecurring(ctx, c.db, inspect.RecurringFilter{
		Type: in.Type, Queue: in.Queue, Status: store.Status(in.Status), Entity: in.Entity, TenantID: in.Tenant,
		After: in.After, Limit: in.Limit,
	})
	return RecurringTasks{each(found, recurringOf)}, err
}

func getRecurring(ctx context.Context, c call, in *recurringInput) (Forecast, error) {
	if in.Fires == 0 {
		task, err := c.inspector.GetRecurring(ctx, c.db, in.ID)
		return Forecast{Recurring: recurringOf(task), Fires: []inspect.Fire{}}, err
	}
	forecast, err := c.inspector.NextFires(ctx, c.db, in.ID, in.Fires)
	return Forecast{
		Recurring: recurringOf(forecast.Task), Fires: pg.OrEmpty(forecast.Fires),
		LeftOut: forecast.LeftOut, LeftOutMore: forecast.LeftOutMore, Ended: forecast.Ended,
	}, err
}
