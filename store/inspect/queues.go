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

// DefaultCountMost is how many due, and how many waiting tasks of a lane QueueStates counts unless told otherwise:
// more than anybody cares to tell apart, and so few that counting takes no time.
const DefaultCountMost = 10000

// QueueFilter selects queues, and says how exactly to look at them. The zero value is all of them.
type QueueFilter struct {
	// Queue is the one queue to look at; "": all.
	Queue string
	// Lanes: a line for each lane, which is the tasks of a queue that share type and priority, in place of one for
	// each queue.
	Lanes bool
	// CountMost bounds how many due, and how many waiting tasks are counted of each lane, since Postgres can count
	// only one by one; those of a million tasks take it a good part of a second. -1: all are counted. 0:
	// DefaultCountMost.
	CountMost int
}

// QueueState is what a queue, or a lane of it, has to do, and who is there to do it.
type QueueState struct {
	Queue string `json:"queue"`
	// Type and Priority are of a lane; nil: all of the queue.
	Type     *string `json:"type,omitempty"`
	Priority *int    `json:"priority,omitempty"`
	// Due tasks could run now, Waiting ones later, also those that wait to be retried; Running ones are claimed.
	// Recurring tasks are not among them, as they never run themselves, and neither are paused ones.
	Due     int `json:"due"`
	Waiting int `json:"waiting"`
	Running int `json:"running"`
	// DueMore and WaitingMore: there are more than were counted.
	DueMore     bool `json:"due_more,omitempty"`
	WaitingMore bool `json:"waiting_more,omitempty"`
	// OldestDue is since when the first of those that are due is; NextDue is when the first of those that wait will be.
	OldestDue *time.Time `json:"oldest_due,omitempty"`
	NextDue   *time.Time `json:"next_due,omitempty"`
	// Nodes are those that lead or work and have it, and Slots how many tasks of it these run at once. Shared slots
	// count for each of their queues.
	Nodes int `json:"nodes"`
	Slots int `json:"slots"`
	// Pauses are those that hold now: of everything, of the queue, and of the types that it has tasks of. That single
	// tasks are paused is another matter.
	Pauses []store.Pause `json:"pauses,omitempty"`
}

// lanesCTE lists the lanes by a loose index scan, one probe a lane, as the leader does.
const lanesCTE = `
WITH RECURSIVE lane AS (
    (SELECT t.queue::text AS queue, t.type::text AS type, t.priority::int AS priority,
        t.next_attempt_at::timestamptz AS head
     FROM tasktable.scheduled_tasks AS t
     WHERE t.next_attempt_at IS NOT NULL AND t.cron IS NULL
     ORDER BY t.queue, t.type, t.priority, t.next_attempt_at LIMIT 1)
    UNION ALL
    SELECT next.queue, next.type, next.priority, next.head
    FROM lane CROSS JOIN LATERAL (
        SELECT t.queue::text AS queue, t.type::text AS type, t.priority::int AS priority,
            t.next_attempt_at::timestamptz AS head
        FROM tasktable.scheduled_tasks AS t
        WHERE t.next_attempt_at IS NOT NULL AND t.cron IS NULL
            AND (t.queue, t.type, t.priority) > (lane.queue, lane.type, lane.priority)
        ORDER BY t.queue, t.type, t.priority, t.next_attempt_at LIMIT 1
    ) AS next
)`

const laneCountsSQL = lanesCTE + `
SELECT lane.queue, lane.type, lane.priority, due.count AS due, waiting.count AS waiting, 0 AS running,
    CASE WHEN lane.head <= statement_timestamp() THEN lane.head END AS oldest_due, waiting.head AS next_due
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

// laneCounts is what laneCountsSQL or laneRunningSQL says of a lane.
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

// QueueStates says what each queue, or each lane, has to do, ordered by name, by type, and by priority, the higher
// first. A queue without tasks is listed while a live node works it or while it is paused; lanes are listed while
// they have a task. It reads the indexes of the tasks that wait and of those that run: what it costs grows with their
// number, up to CountMost in each lane, and not with the size of the table.
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
	var most *string // one more than is counted tells that there are more
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
	q := queueStates{filter: filter, byLane: map[laneKey]*QueueState{}, types: map[laneKey][]string{}}
	for _, lane := range append(counts, running...) {
		q.add(lane)
	}
	return q.around(nodes, pauses), nil
}

// queueStates puts together what the statements say.
type queueStates struct {
	filter QueueFilter
	byLane map[laneKey]*QueueState
	types  map[laneKey][]string // that it has tasks of
}

// laneKey is a queue, or a lane of it.
type laneKey struct {
	queue, kind string
	priority    int
}

// key is a lane's, or that of its queue.
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

// earlier is the earlier of two times that may not be there.
func earlier(a, b *time.Time) *time.Time {
	if a == nil || b != nil && b.Before(*a) {
		return b
	}
	return a
}

// around adds the live nodes and the pauses that hold.
func (q *queueStates) around(nodes []Node, pauses []store.Pause) []QueueState {
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
			scope := pause.Of()
			if scope.Has(key.queue, "") || pause.Scope == "type" && slices.Contains(q.types[key], pause.Name) {
				state.Pauses = append(state.Pauses, pause)
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

// mention lists a queue that has no tasks.
func (q *queueStates) mention(queue string) {
	if q.filter.Queue == "" || q.filter.Queue == queue {
		q.state(laneKey{queue: queue})
	}
}
