package api

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/tasktable/tasktable/store"
	"github.com/tasktable/tasktable/store/inspect"
)

// Warning tells that a call did what it asked, but that this is perhaps not what was meant.
type Warning struct {
	Code   string `json:"code" doc:"no_handler, no_worker, no_fire or doubtful_payload. Others may be added."`
	Detail string `json:"detail"`
}

const (
	crewStale  = 5 * time.Second // so old may be what a warning says about the nodes
	crewWithin = time.Second     // a call waits no longer for it
	crewMost   = 1000            // nodes that are looked at
)

// crew is what the live nodes can run, and the queues that are defaults of types. It is read at most once in crewStale,
// however many calls there are, and outside of their transactions.
type crew struct {
	mu    sync.Mutex
	asked time.Time
	seen  *crewSeen // nil: nothing is known
}

type crewSeen struct {
	types, queues map[string]bool
	defaultQueues map[string]string // by type
}

// look returns what is known, and reads it anew if that is old. A read that fails warns of nothing.
func (c *crew) look(ctx context.Context, a *API) *crewSeen {
	c.mu.Lock()
	if time.Since(c.asked) < crewStale {
		defer c.mu.Unlock()
		return c.seen
	}
	c.asked = time.Now() // the others use what is known
	c.mu.Unlock()
	limited, cancel := context.WithTimeout(ctx, crewWithin)
	defer cancel()
	author := a.author(Caller{})
	nodes, err := author.inspector.Nodes(limited, a.config.Pool, inspect.NodeFilter{Limit: crewMost})
	var defaults []store.Defaults
	if err == nil {
		defaults, err = author.tasks.Defaults(limited, a.config.Pool)
	}
	var seen *crewSeen
	for _, node := range nodes {
		if err != nil || node.State == inspect.NodeSilent || node.State == inspect.NodeEnded {
			continue
		}
		if seen == nil {
			seen = &crewSeen{map[string]bool{}, map[string]bool{}, queuesOf(defaults)}
		}
		for _, name := range node.Types {
			seen.types[name] = true
		}
		for name := range node.Queues {
			seen.queues[name] = true
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.seen = seen
	return seen
}

func queuesOf(defaults []store.Defaults) map[string]string {
	queues := map[string]string{}
	for _, one := range defaults {
		queues[one.Type] = one.Queue
	}
	return queues
}

// queueOf is the queue that a scheduled task has.
func (s *crewSeen) queueOf(task store.Task) string {
	return cmp.Or(task.Queue, s.defaultQueues[task.Payload.TaskType()], s.defaultQueues[store.AllTypes],
		store.DefaultQueue)
}

// warnings are those about a task that was scheduled. Without a live node nothing is known about types and queues.
func (c call) warnings(ctx context.Context, task store.Task) (all []Warning) {
	name := task.Payload.TaskType()
	if c.crew != nil && !c.crew.types[name] {
		all = append(all, Warning{"no_handler",
			fmt.Sprintf("no running node has a handler for type %s, so the task waits", name)})
	}
	if c.crew != nil {
		all = append(all, c.warnOfQueue(c.crew.queueOf(task))...)
	}
	all = append(all, c.warnOfEnd(ctx, task)...)
	if c.config.Doubts == nil {
		return all
	}
	payload, err := json.Marshal(task.Payload)
	if err != nil {
		return all
	}
	for _, doubt := range c.config.Doubts(name, payload) {
		all = append(all, Warning{"doubtful_payload", doubt})
	}
	return all
}

// warnOfEnd warns of a recurring task that has no fire between now and its end. Without a time the task may exist, and
// then @every counts from a time that is not known here.
func (c call) warnOfEnd(ctx context.Context, task store.Task) []Warning {
	r := task.Recurrence
	if r == nil || r.EndsAt.IsZero() {
		return nil
	}
	rule, err := c.tasks.ForTenant(task.TenantID).Rule(ctx, c.db, r.Text(), r.TimeZone)
	if err != nil {
		return nil // the store has refused it, or the answer does without the warning
	}
	now, err := c.tasks.Now(ctx, c.db)
	if err != nil {
		return nil
	}
	next := now
	if !task.At.IsZero() || !strings.HasPrefix(r.Cron, "@every") {
		from := task.At.Add(-time.Nanosecond) // the task may fire at the time at which it begins
		if from.Before(now) {
			from = now
		}
		next = rule.Anchored(task.At).Next(from)
	}
	if !next.IsZero() && !next.After(r.EndsAt) {
		return nil
	}
	return []Warning{{"no_fire", "no fire is left until ends_at, " + r.EndsAt.UTC().Format(time.RFC3339) +
		", so the task ends without running"}}
}

func (c call) warnOfQueue(queue string) []Warning {
	if c.crew == nil || c.crew.queues[queue] {
		return nil
	}
	return []Warning{{"no_worker", fmt.Sprintf("no running node works queue %s, so its tasks wait", queue)}}
}
