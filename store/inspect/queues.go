package inspect

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/tasktable/tasktable/store"
	"github.com/tasktable/tasktable/store/internal/check"
	"github.com/tasktable/tasktable/store/internal/query"
)

// DefaultCountMost is used if QueueFilter.CountMost is 0. It is more than people need to tell apart, and small enough
// that counting takes almost no time.
const DefaultCountMost = 10000

// QueueFilter selects queues, and how QueueStates shows them. The zero value selects all queues.
type QueueFilter struct {
	// Queue is the name of the only queue to show. "" means all queues.
	Queue string
	// Lanes asks for one QueueState for each lane instead of one for each queue. A lane is the tasks of a queue that
	// have the same type and priority.
	Lanes bool
	// CountMost is the maximum number of due tasks, and of waiting tasks, that QueueStates counts in each lane.
	// Postgres can only count tasks one by one, and a million tasks take it a large part of a second. 0 means
	// DefaultCountMost. -1 means that all tasks are counted.
	CountMost int
}

// QueueState tells how much work a queue, or a lane of it, has, and which nodes can do it.
type QueueState struct {
	Queue string `json:"queue"`
	// Type and Priority are those of the lane. They are nil if the state is of a whole queue.
	Type     *string `json:"type,omitempty"`
	Priority *int    `json:"priority,omitempty"`
	// Due is the number of tasks that could run now. Waiting is the number that could run later, including those that
	// wait for a retry. Running is the number that are claimed. Recurring tasks do not count, because they never run
	// themselves. Paused tasks do not count either.
	Due     int `json:"due"`
	Waiting int `json:"waiting"`
	Running int `json:"running"`
	// DueMore and WaitingMore tell that there are more tasks than were counted.
	DueMore     bool `json:"due_more,omitempty"`
	WaitingMore bool `json:"waiting_more,omitempty"`
	// OldestDue is the time since which the first due task is due. NextDue is the time at which the first waiting
	// task becomes due.
	OldestDue *time.Time `json:"oldest_due,omitempty"`
	NextDue   *time.Time `json:"next_due,omitempty"`
	// Nodes is the number of live nodes that work the queue, and the lane's type. Slots is the number of tasks of the
	// queue that these nodes can run at once. A slot that a node shares among its queues counts for each of them.
	Nodes int `json:"nodes"`
	Slots int `json:"slots"`
	// Pauses are the pauses that hold now for everything, for the queue, or for a type of which the queue has tasks.
	// They do not include the pauses of single tasks.
	Pauses []store.Pause `json:"pauses,omitempty"`
	// Limits are the names of the limits that hold back due tasks of it now.
	Limits []string `json:"limits,omitempty"`
}

// dueSQL is when a waiting task was due. Its next attempt is later if it was scheduled for the past, was put behind the
// others of its lane, or waits for something that is out of order. The leader's metrics and the view late_tasks count
// from there, too.
const dueSQL = `least(t.waiting_since, t.due_at, t.next_attempt_at)::timestamptz`

// lanesCTE lists the lanes by a loose index scan, with one probe of the index for each lane, as the leader does. head
// is when the first task of the lane can be claimed, and due is when that task was due.
const lanesCTE = `
WITH RECURSIVE lane AS (
    (SELECT t.queue::text AS queue, t.type::text AS type, t.priority::int AS priority,
        t.next_attempt_at::timestamptz AS head, ` + dueSQL + ` AS due
     FROM tasktable.scheduled_tasks AS t
     WHERE t.next_attempt_at IS NOT NULL AND t.cron IS NULL
     ORDER BY t.queue, t.type, t.priority, t.next_attempt_at LIMIT 1)
    UNION ALL
    SELECT next.*
    FROM lane CROSS JOIN LATERAL (
        SELECT t.queue::text AS queue, t.type::text AS type, t.priority::int AS priority,
            t.next_attempt_at::timestamptz AS head, ` + dueSQL + ` AS due
        FROM tasktable.scheduled_tasks AS t
        WHERE t.next_attempt_at IS NOT NULL AND t.cron IS NULL
            AND (t.queue, t.type, t.priority) > (lane.queue, lane.type, lane.priority)
        ORDER BY t.queue, t.type, t.priority, t.next_attempt_at LIMIT 1
    ) AS next
)`

const laneCountsSQL = lanesCTE + `
SELECT lane.queue, lane.type, lane.priority, due.count AS due, waiting.count AS waiting, 0 AS running,
    CASE WHEN lane.head <= statement_timestamp() THEN lane.due END AS oldest_due, waiting.head AS next_due
FROM lane
CROSS JOIN LATERAL (
    SELECT count(*) AS count FROM (
        SELECT 1 FROM tasktable.scheduled_tasks AS t
        WHERE t.queue = lane.queue AND t.type = lane.type AND t.priority = lane.priority AND t.cron IS NULL
            AND t.next_attempt_at <= statement_timestamp()
        LIMIT $2::text::bigint
    ) AS one
) AS due
CROSS JOIN LATERAL (
    SELECT count(*) AS count, min(one.at) AS head FROM (
        SELECT t.next_attempt_at::timestamptz AS at FROM tasktable.scheduled_tasks AS t
        WHERE t.queue = lane.queue AND t.type = lane.type AND t.priority = lane.priority AND t.cron IS NULL
            AND t.next_attempt_at > statement_timestamp()
        ORDER BY t.next_attempt_at LIMIT $2::text::bigint
    ) AS one
) AS waiting
WHERE $1::text = '' OR lane.queue = $1::text`

const laneRunningSQL = `
SELECT t.queue::text AS queue, t.type::text AS type, t.priority::int AS priority, 0 AS due, 0 AS waiting,
    count(*) AS running,
    NULL::timestamptz AS oldest_due, NULL::timestamptz AS next_due
FROM tasktable.scheduled_tasks AS t
WHERE t.lease_expires_at IS NOT NULL AND ($1::text = '' OR t.queue = $1::text)
GROUP BY t.queue, t.type, t.priority`

// laneCounts is a row of laneCountsSQL or laneRunningSQL.
type laneCounts struct {
	Queue     string
	Type      string
	Priority  int
	Due       int
	Waiting   int
	Running   int
	OldestDue *time.Time
	NextDue   *time.Time
}

// QueueStates returns the state of each queue or, if filter.Lanes is set, of each lane. They are sorted by queue, by
// type, and by priority, with the highest priority first. A queue without tasks is listed only while a live node
// works it, or while it is paused. A lane without tasks is not listed.
//
// QueueStates reads the indexes of the waiting and the running tasks. Its cost grows with their number, up to
// CountMost in each lane, and not with the size of the table.
func (i *Inspector) QueueStates(ctx context.Context, db store.DB, filter QueueFilter) ([]QueueState, error) {
	if filter.CountMost == 0 {
		filter.CountMost = DefaultCountMost
	}
	if filter.CountMost < -1 {
		return nil, fmt.Errorf("list queues: %w", check.Invalid("count_most", "must not be less than -1",
			filter.CountMost))
	}
	if err := check.Text("queue", filter.Queue); err != nil {
		return nil, fmt.Errorf("list queues: %w", err)
	}
	var most *string // one task more than CountMost tells that there are more
	if filter.CountMost > 0 {
		most = check.OrNil(strconv.Itoa(filter.CountMost + 1))
	}
	counts, err := query.Collect[laneCounts](ctx, i.source, db, "count due and waiting tasks", laneCountsSQL,
		filter.Queue, most)
	if err != nil {
		return nil, err
	}
	running, err := query.Collect[laneCounts](ctx, i.source, db, "count running tasks", laneRunningSQL, filter.Queue)
	if err != nil {
		return nil, err
	}
	nodes, err := i.Nodes(ctx, db, NodeFilter{Limit: 10000})
	if err != nil {
		return nil, err
	}
	pauses, err := i.tasks.Pauses(ctx, db)
	if err != nil {
		return nil, err
	}
	limits, err := i.tasks.Limits(ctx, db)
	if err != nil {
		return nil, err
	}
	q := queueStates{filter: filter, byLane: map[laneKey]*QueueState{}, types: map[laneKey][]string{}}
	for _, lane := range append(counts, running...) {
		q.add(lane)
	}
	return q.around(nodes, pauses, limits), nil
}

// queueStates combines the results of the statements.
type queueStates struct {
	filter QueueFilter
	byLane map[laneKey]*QueueState
	types  map[laneKey][]string // the types of which the queue or the lane has tasks
}

// laneKey is a queue or a lane of it.
type laneKey struct {
	queue, kind string
	priority    int
}

// key returns the key of the lane, or the key of its queue.
func (q *queueStates) key(lane laneCounts) laneKey {
	if !q.filter.Lanes {
		return laneKey{queue: lane.Queue}
	}
	return laneKey{lane.Queue, lane.Type, lane.Priority}
}

func (q *queueStates) state(key laneKey) *QueueState {
	found := q.byLane[key]
	if found == nil {
		found = &QueueState{Queue: key.queue}
		if q.filter.Lanes {
			found.Type, found.Priority = &key.kind, &key.priority
		}
		q.byLane[key] = found
	}
	return found
}

func (q *queueStates) add(lane laneCounts) {
	key := q.key(lane)
	state := q.state(key)
	q.types[key] = append(q.types[key], lane.Type)
	if most := q.filter.CountMost; most > 0 {
		state.DueMore, state.WaitingMore = state.DueMore || lane.Due > most, state.WaitingMore || lane.Waiting > most
		lane.Due, lane.Waiting = min(lane.Due, most), min(lane.Waiting, most)
	}
	state.Due, state.Waiting, state.Running = state.Due+lane.Due, state.Waiting+lane.Waiting, state.Running+lane.Running
	state.OldestDue, state.NextDue = earlier(state.OldestDue, lane.OldestDue), earlier(state.NextDue, lane.NextDue)
}

// earlier returns the earlier of two times, each of which may be nil.
func earlier(a, b *time.Time) *time.Time {
	if a == nil || b != nil && b.Before(*a) {
		return b
	}
	return a
}

// around adds the live nodes, the pauses that hold now, and the limits that hold back tasks.
func (q *queueStates) around(nodes []Node, pauses []store.Pause, limits []store.LimitState) []QueueState {
	nodes = slices.DeleteFunc(nodes, func(n Node) bool { return !n.isLive() })
	if !q.filter.Lanes {
		for _, node := range nodes {
			for queue := range node.Queues {
				q.mention(queue)
			}
		}
		for _, pause := range pauses {
			if pause.Scope == "queue" {
				q.mention(pause.Name)
			}
		}
	}
	states := make([]QueueState, 0, len(q.byLane))
	for key, state := range q.byLane {
		for _, node := range nodes {
			if slots := node.slotsOf(key.queue); slots > 0 &&
				(state.Type == nil || slices.Contains(node.Types, key.kind)) {
				state.Nodes, state.Slots = state.Nodes+1, state.Slots+slots
			}
		}
		for _, pause := range pauses {
			if q.has(key, pause.Of()) {
				state.Pauses = append(state.Pauses, pause)
			}
		}
		for _, limit := range limits {
			if limit.Waiting > 0 && state.Due > 0 && q.has(key, limit.Of()) {
				state.Limits = append(state.Limits, limit.Name)
			}
		}
		states = append(states, *state)
	}
	slices.SortFunc(states, func(a, b QueueState) int {
		if a.Type == nil || b.Type == nil {
			return cmp.Compare(a.Queue, b.Queue)
		}
		return cmp.Or(cmp.Compare(a.Queue, b.Queue), cmp.Compare(*a.Type, *b.Type),
			cmp.Compare(*b.Priority, *a.Priority))
	})
	return states
}

// has reports whether a scope is about tasks of the queue or the lane.
func (q *queueStates) has(key laneKey, scope store.Scope) bool {
	return scope.Has(key.queue, "") || slices.ContainsFunc(q.types[key], func(kind string) bool {
		return scope == store.Type(kind)
	})
}

// mention makes sure that a queue without tasks is listed.
func (q *queueStates) mention(queue string) {
	if q.filter.Queue == "" || q.filter.Queue == queue {
		q.state(laneKey{queue: queue})
	}
}
