package inspect

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/tasktable/tasktable/store"
	"github.com/tasktable/tasktable/store/internal/check"
	"github.com/tasktable/tasktable/store/internal/query"
)

// NodeState tells whether a node runs, as far as the database knows.
type NodeState string

// The states of a node.
const (
	NodeLeads   NodeState = "leads"   // it runs and leads: its session holds its own lock and the leader's lock
	NodeWorks   NodeState = "works"   // it runs and does not lead: its session holds its lock
	NodeQuiet   NodeState = "quiet"   // it was told to start no new task, and finishes its running tasks
	NodeSilent  NodeState = "silent"  // nobody holds its lock; a leader declares it dead within seconds
	NodeEnded   NodeState = "ended"   // it has stopped, or a leader has declared it dead
	NodeUnknown NodeState = "unknown" // a standby, which sees no locks, knows only that it has not ended
)

// Node is a row of the table nodes. It is an engine that runs or ran. A process that has lost its session goes on as
// a new node with another number.
type Node struct {
	Number  int64     `json:"number"`
	Service string    `json:"service"`
	Version string    `json:"version"`
	Host    string    `json:"host"` // host name and process id, as host/pid
	State   NodeState `json:"state"`
	// Role is worker if the node never leads, leader if it runs no tasks, and both otherwise. It is "" if the node is
	// quiet, because it does neither then.
	Role string `json:"role,omitempty"`
	// Queues has the slots for each queue that the node works.
	Queues map[string]int `json:"queues" db:"-"`
	// SharesSlots tells that idle slots of one queue serve the other queues.
	SharesSlots bool `json:"shares_slots"`
	// StrictQueues are those of its queues whose tasks come first, in this order, whatever their priorities.
	StrictQueues []string `json:"strict_queues,omitempty" db:"-"`
	// TypeSlots has, for each type with a limit, how many of its handlers run at once in all queues of the node.
	TypeSlots map[string]int `json:"type_slots,omitempty" db:"-"`
	// Types are the types for which the node has handlers.
	Types     []string  `json:"types" db:"-"`
	StartedAt time.Time `json:"started_at"`
	// ElectedAt is the time at which the node last became the leader.
	ElectedAt *time.Time `json:"elected_at,omitempty"`
	// LastSeen is the time of the node's last sign of life. A node that leads or works gives a sign of life each
	// second. For such a node LastSeen is nil if the database role may not see the sessions of other roles. A role
	// that is a member of pg_read_all_stats may see them.
	LastSeen *time.Time `json:"last_seen,omitempty"`
	DeadAt   *time.Time `json:"dead_at,omitempty"`
}

// slotsOf returns the number of tasks of a queue that the node can run at once.
func (n Node) slotsOf(queue string) int {
	slots := n.Queues[queue]
	if slots == 0 || !n.SharesSlots {
		return slots
	}
	slots = 0
	for _, each := range n.Queues {
		slots += each
	}
	return slots
}

// SlotsText names the queues of the node with their slots, and the types with limits, such as
// "default 10, mail 2 (shared), first default, then mail, at most 3 of LOG".
func (n Node) SlotsText() string {
	var parts []string
	for _, queue := range slices.Sorted(maps.Keys(n.Queues)) {
		parts = append(parts, queue+" "+strconv.Itoa(n.Queues[queue]))
	}
	text := strings.Join(parts, ", ")
	if n.SharesSlots && text != "" {
		text += " (shared)"
	}
	if len(n.StrictQueues) > 0 {
		text += ", first " + strings.Join(n.StrictQueues, ", then ")
	}
	for _, kind := range slices.Sorted(maps.Keys(n.TypeSlots)) {
		text += fmt.Sprintf(", at most %d of %s", n.TypeSlots[kind], kind)
	}
	return text
}

// isLive reports whether the node can run tasks.
func (n Node) isLive() bool { return n.State != NodeSilent && n.State != NodeEnded }

// NodeFilter selects nodes. The zero value selects the nodes that have not ended.
type NodeFilter struct {
	Service string
	// Ended also selects nodes that have ended. Those that ended last come first. Retention removes them after a
	// month at the earliest.
	Ended bool
	// Limit is the maximum number of nodes, from 1 to 10000. 0 means 1000.
	Limit int
}

// nodesSQL joins each node with its session, which holds the node's lock. pg_stat_activity tells when the session
// last executed a query, which is the node's last sign of life.
const nodesSQL = `
SELECT n.number, n.service, n.version, n.host, n.queues::text AS queues_text,
    to_json(array_remove(n.types, NULL))::text AS types_text, n.shares_slots, 
    coalesce(nullif(n.type_slots, '{}')::text, 'null') AS limits_text, coalesce(n.role, '') AS role,
    coalesce(to_json(nullif(array_remove(n.strict_queues, NULL), '{}'))::text, 'null') AS strict_text, n.state,
    n.started_at, n.elected_at, n.dead_at,
    CASE WHEN n.state IN ('leads', 'works', 'quiet') THEN session.heard_at ELSE coalesce(n.last_seen_at,
        n.dead_at) END AS last_seen
FROM tasktable.node_states AS n
LEFT JOIN (
    SELECT l.objid::bigint AS number, greatest(a.query_start, a.state_change) AS heard_at
    FROM pg_locks AS l JOIN pg_stat_activity AS a ON a.pid = l.pid
    WHERE l.locktype = 'advisory' AND l.classid::bigint = (SELECT tasktable.lock_class('node')) AND l.objsubid = 2
        AND l.granted
        AND l.database = (SELECT d.oid FROM pg_database AS d WHERE d.datname = current_database())
) AS session ON session.number = n.number
WHERE (n.dead_at IS NULL OR $1::text::boolean) AND ($2::text = '' OR n.service = $2::text)
ORDER BY n.dead_at DESC NULLS FIRST, n.number LIMIT $3::text::int`

// nodeRow is a Node with JSON columns as text, because not every driver can scan JSON.
type nodeRow struct {
	Node
	QueuesText string
	TypesText  string
	LimitsText string
	StrictText string
}

// Nodes lists nodes by their numbers, and after them the nodes that have ended if the filter asks for these. It reads
// neither tasks nor history.
func (i *Inspector) Nodes(ctx context.Context, db store.DB, filter NodeFilter) ([]Node, error) {
	limit, err := pageSize(filter.Limit, 1000, maxLimit)
	if err == nil {
		err = check.Text("service", filter.Service)
	}
	if err != nil {
		return nil, fmt.Errorf("list nodes: %w", err)
	}
	rows, err := query.Collect[nodeRow](ctx, i.source, db, "list nodes", nodesSQL,
		strconv.FormatBool(filter.Ended), filter.Service, strconv.Itoa(limit))
	nodes := make([]Node, len(rows))
	for i, row := range rows {
		nodes[i] = row.Node
		// if somebody has spoiled the row, it becomes a node without queues
		_ = json.Unmarshal([]byte(row.QueuesText), &nodes[i].Queues)
		_ = json.Unmarshal([]byte(row.TypesText), &nodes[i].Types)
		_ = json.Unmarshal([]byte(row.LimitsText), &nodes[i].TypeSlots)
		_ = json.Unmarshal([]byte(row.StrictText), &nodes[i].StrictQueues)
	}
	return nodes, err
}
