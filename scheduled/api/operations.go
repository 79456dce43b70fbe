package api

import (
	"context"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/tasktable/tasktable/scheduled/internal/pg"
	"github.com/tasktable/tasktable/store"
	"github.com/tasktable/tasktable/store/inspect"
)

type queuesInput struct {
	Lanes bool `query:"lanes" doc:"One entry for each queue, type and priority, instead of one for each queue."`
}

// Queues are the queues that have tasks or nodes.
type Queues struct {
	Queues []inspect.QueueState `json:"queues" nullable:"false"`
}

type nodesInput struct {
	Service string `query:"service" maxLength:"512"`
	Ended   bool   `query:"ended" doc:"Also nodes that have ended."`
	Limit   int    `query:"limit" minimum:"1" maximum:"10000" default:"1000"`
}

// Nodes are the processes that run tasks.
type Nodes struct {
	Nodes []inspect.Node `json:"nodes" nullable:"false"`
}

type statsInput struct {
	Type   string  `query:"type" maxLength:"127"`
	Window Seconds `query:"window" minimum:"1" maximum:"604800" default:"3600" doc:"Seconds before now."`
}

// Stats are the numbers of tasks, and of the attempts of some time.
type Stats struct {
	Counts    []inspect.TaskCount `json:"counts" nullable:"false" doc:"Sorted by type and status."`
	Estimated bool                `json:"estimated" doc:"The table is large, and only a part was counted."`
	Since     time.Time           `json:"since"`
	Until     time.Time           `json:"until"`
	Bounded   bool                `json:"bounded,omitempty" doc:"Only the newest attempts of the time were read."`
	Types     []TypeStats         `json:"types" nullable:"false" doc:"The types that have attempts."`
}

// TypeStats are the attempts of one type. Delays are from the due time to the start, durations from the start to the
// end, both in seconds.
type TypeStats struct {
	inspect.TypeStats

	DelayP50 *Seconds `json:"delay_p50,omitempty"`
	DelayP95 *Seconds `json:"delay_p95,omitempty"`
	DelayP99 *Seconds `json:"delay_p99,omitempty"`
	TookP50  *Seconds `json:"took_p50,omitempty"`
	TookP95  *Seconds `json:"took_p95,omitempty"`
	TookP99  *Seconds `json:"took_p99,omitempty"`
}

// QueuePath names a queue in the path of a call.
type QueuePath struct {
	Queue string `path:"queue"`
}

// PauseQueueRequest says how long and why a queue is paused.
type PauseQueueRequest struct {
	Until  time.Time `json:"until,omitzero" doc:"When the pause ends by itself. Default: it does not."`
	Reason string    `json:"reason,omitempty" maxLength:"512"`
}

type pauseQueueInput struct {
	Conditions
	QueuePath
	Body *PauseQueueRequest
}

type resumeQueueInput struct {
	Conditions
	QueuePath
}

// QueueReceipt is the result of a call for one queue.
type QueueReceipt struct {
	Queue   string        `json:"queue"`
	Outcome store.Outcome `json:"outcome"`

	Warnings []Warning `json:"warnings,omitempty" nullable:"false" doc:"What is perhaps not meant."`
}

func (a *API) registerOperations() {
	readAll(a, huma.Operation{
		OperationID: "listQueues", Method: http.MethodGet, Path: "/v1/queues",
		Summary: "List queues", Description: "What is due, what waits, what runs, and who works it.",
	}, func(ctx context.Context, c call, in *queuesInput) (Queues, error) {
		queues, err := c.inspector.QueueStates(ctx, c.db, inspect.QueueFilter{Lanes: in.Lanes})
		return Queues{pg.OrEmpty(queues)}, err
	})
	readAll(a, huma.Operation{
		OperationID: "listNodes", Method: http.MethodGet, Path: "/v1/nodes",
		Summary: "List nodes", Description: "The processes that run tasks.",
	}, func(ctx context.Context, c call, in *nodesInput) (Nodes, error) {
		filter := inspect.NodeFilter{Service: in.Service, Ended: in.Ended, Limit: in.Limit}
		nodes, err := c.inspector.Nodes(ctx, c.db, filter)
		return Nodes{pg.OrEmpty(nodes)}, err
	})
	readAll(a, huma.Operation{
		OperationID: "readStats", Method: http.MethodGet, Path: "/v1/stats",
		Summary: "Count tasks and attempts", Description: "By type and status, and how long attempts waited and took.",
	}, readStats)
	a.registerQueuePauses()
	a.registerLimits()
	a.registerDefaults()
	a.registerCalendars()
}

func (a *API) registerQueuePauses() {
	changeAll(a, huma.Operation{
		OperationID: "pauseQueue", Method: http.MethodPost, Path: "/v1/queues/{queue}/pause", Summary: "Pause a queue",
		Description: "None of its tasks starts until it is resumed.",
	}, func(ctx context.Context, c call, in *pauseQueueInput) (QueueReceipt, error) {
		given := deref(in.Body)
		if !given.Until.IsZero() {
			if err := c.toCome(ctx, given.Until); err != nil {
				return QueueReceipt{}, err
			}
		}
		outcome, err := c.tasks.PauseScope(ctx, c.db, store.Queue(in.Queue), given.Until, given.Reason)
		return QueueReceipt{in.Queue, outcome, c.warnOfQueue(in.Queue)}, err
	})
	changeAll(a, huma.Operation{
		OperationID: "resumeQueue", Method: http.MethodPost, Path: "/v1/queues/{queue}/resume",
		Summary: "Resume a queue",
	}, func(ctx context.Context, c call, in *resumeQueueInput) (QueueReceipt, error) {
		outcome, err := c.tasks.ResumeScope(ctx, c.db, store.Queue(in.Queue))
		return QueueReceipt{in.Queue, outcome, c.warnOfQueue(in.Queue)}, err
	})
}

func readStats(ctx context.Context, c call, in *statsInput) (Stats, error) {
	counts, err := c.inspector.TaskCounts(ctx, c.db, in.Type, false)
	if err != nil {
		return Stats{}, err
	}
	throughput, err := c.inspector.Throughput(ctx, c.db, inspect.StatsFilter{
		Type: in.Type, Window: in.Window.Duration(),
	})
	return Stats{
		Counts: pg.OrEmpty(counts.Counts), Estimated: counts.Estimated,
		Since: throughput.Since, Until: throughput.Until, Bounded: throughput.Bounded,
		Types: each(throughput.Types, typeStatsOf),
	}, err
}

func typeStatsOf(one inspect.TypeStats) TypeStats {
	return TypeStats{
		TypeStats: one,
		DelayP50:  secondsOf(one.DelayP50), DelayP95: secondsOf(one.DelayP95), DelayP99: secondsOf(one.DelayP99),
		TookP50: secondsOf(one.TookP50), TookP95: secondsOf(one.TookP95), TookP99: secondsOf(one.TookP99),
	}
}
