package api

import (
	"context"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/tasktable/tasktable/store"
)

// LimitRequest has the fields of a limit that a caller sets.
type LimitRequest struct {
	Type         string  `json:"type,omitempty" doc:"The tasks of this type. Default: all tasks."`
	Queue        string  `json:"queue,omitempty" doc:"The tasks of this queue. Not together with type."`
	Per          string  `json:"per,omitempty" enum:"group,tenant" doc:"Each group or tenant counts by itself."`
	InOrder      bool    `json:"in_order,omitempty" doc:"With per: a task starts when the one before has ended."`
	MaxRunning   int     `json:"max_running,omitempty" doc:"How many may run at once. Default: any number."`
	Rate         int     `json:"rate,omitempty" doc:"How many may start in rate_interval. Default: any number."`
	RateInterval Seconds `json:"rate_interval,omitempty" doc:"From 1 second to 24 hours. Default: 1 second."`
	Burst        int     `json:"burst,omitempty" doc:"How many may start at once. Default: a tenth of a second's."`

	Weights map[string]int `json:"weights,omitempty" doc:"With per: how many turns a group or tenant has, 1 to 1000."`
}

// Limit is a limit, and how far it is used.
type Limit struct {
	Name string `json:"name"`
	LimitRequest

	Running     *int       `json:"running,omitempty" doc:"How many run. With per: of the one of which most run."`
	NextStartAt *time.Time `json:"next_start_at,omitempty" doc:"When the rate lets a task start. It may be past."`
	Waiting     int        `json:"waiting,omitempty" doc:"How many due tasks it holds back now, up to a number."`
	WaitingMore bool       `json:"waiting_more,omitempty" doc:"There are perhaps more."`
	OldestDue   *time.Time `json:"oldest_due,omitempty" doc:"Since when the first of them is due."`
	ChangedAt   time.Time  `json:"changed_at"`
	ChangedBy   string     `json:"changed_by"`
	DeclaredBy  string     `json:"declared_by,omitempty" doc:"The service whose code declares it."`
}

// Limits are all limits.
type Limits struct {
	Limits []Limit `json:"limits" nullable:"false" doc:"Sorted by name."`
}

// LimitPath names a limit in the path of a call.
type LimitPath struct {
	Name string `path:"name"`
}

type setLimitInput struct {
	Conditions
	LimitPath
	Body LimitRequest
}

type removeLimitInput struct {
	Conditions
	LimitPath
}

// LimitReceipt is the result of a call for one limit.
type LimitReceipt struct {
	Name    string        `json:"name"`
	Outcome store.Outcome `json:"outcome"`
}

func (a *API) registerLimits() {
	readAll(a, huma.Operation{
		OperationID: "listLimits", Method: http.MethodGet, Path: "/v1/limits", Summary: "List limits",
		Description: "How many tasks may run at once, or start in an interval, and how many do.",
	}, func(ctx context.Context, c call, _ *struct{}) (Limits, error) {
		limits, err := c.tasks.Limits(ctx, c.db)
		return Limits{each(limits, limitOf)}, err
	})
	changeAll(a, huma.Operation{
		OperationID: "setLimit", Method: http.MethodPut, Path: "/v1/limits/{name}",
		Summary: "Create or replace a limit",
		Description: "It counts tasks over all nodes. Tasks that it keeps from starting wait. Tasks that run already " +
			"go on.",
	}, func(ctx context.Context, c call, in *setLimitInput) (LimitReceipt, error) {
		limit, err := in.Body.limit(in.Name)
		if err != nil {
			return LimitReceipt{}, err
		}
		outcome, err := c.tasks.SetLimit(ctx, c.db, limit)
		return LimitReceipt{in.Name, outcome}, err
	})
	changeAll(a, huma.Operation{
		OperationID: "removeLimit", Method: http.MethodDelete, Path: "/v1/limits/{name}", Summary: "Remove a limit",
	}, func(ctx context.Context, c call, in *removeLimitInput) (LimitReceipt, error) {
		outcome, err := c.tasks.RemoveLimit(ctx, c.db, in.Name)
		return LimitReceipt{in.Name, outcome}, err
	})
}

func (r LimitRequest) limit(name string) (store.Limit, error) {
	limit := store.Limit{Name: name, Of: store.Everything(), Per: store.Per(r.Per), InOrder: r.InOrder,
		MaxRunning: r.MaxRunning, Rate: r.Rate, Interval: r.RateInterval.Duration(), Burst: r.Burst,
		Weights: r.Weights}
	switch {
	case r.Type != "" && r.Queue != "":
		return limit, invalid("type and queue must not both be given")
	case r.Type != "":
		limit.Of = store.Type(r.Type)
	case r.Queue != "":
		limit.Of = store.Queue(r.Queue)
	}
	return limit, nil
}

func limitOf(one store.LimitState) Limit {
	made := Limit{Name: one.Name, Running: one.Running, NextStartAt: one.NextStartAt, Waiting: one.Waiting,
		WaitingMore: one.WaitingMore, OldestDue: one.OldestDue, ChangedAt: one.ChangedAt, ChangedBy: one.ChangedBy,
		DeclaredBy: deref(one.DeclaredBy), LimitRequest: LimitRequest{
			Per: string(deref(one.Per)), InOrder: one.InOrder, MaxRunning: deref(one.MaxRunning), Rate: deref(one.Rate),
			RateInterval: deref(secondsOf(one.RateInterval)), Burst: deref(one.Burst), Weights: one.Weights,
		}}
	switch one.Scope {
	case "type":
		made.Type = one.ScopeName
	case "queue":
		made.Queue = one.ScopeName
	}
	return made
}
