package inspect

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"time"

	"github.com/tasktable/tasktable/store"
	"github.com/tasktable/tasktable/store/internal/check"
	"github.com/tasktable/tasktable/store/internal/query"
)

// NodeState is whether a node runs, as far as the database can tell.
type NodeState string

// The states of a node.
const (
	NodeLeads   NodeState = "leads"   // its session holds its lock, and the leader's
	NodeWorks   NodeState = "works"   // its session holds its lock
	NodeQuiet   NodeState = "quiet"   // it works no queue and no type, as it was told, and finishes its running tasks
	NodeSilent  NodeState = "silent"  // its lock is free: a leader takes it for dead within seconds
	NodeEnded   NodeState = "ended"   // it has stopped, or a leader has found it dead
	NodeUnknown NodeState = "unknown" // it has not ended as far as a standby can tell, which sees no locks
)

// Node is a line of the table nodes: an engine that runs, or ran. A process that has lost its session goes on as
// another node, with a number of its own.
type Node struct {
	Number  int64     `json:"number"`
	Service string    `json:"service"`
	Version string    `json:"version"`
	Host    string    `json:"host"` // and its process id: host/pid
	State   NodeState `json:"state"`
	// Queues are the queues it works, with the slots for each.
	Queues map[string]int `json:"queues" db:"-"`
	// SharesSlots: idle slots of one queue serve the others.
	SharesSlots bool `json:"shares_slots"`
	// Types are those it has handlers for.
	Types     []string  `json:"types" db:"-"`
	StartedAt time.Time `json:"started_at"`
	// ElectedAt is when it last began to lead.
	ElectedAt *time.Time `json:"elected_at,omitempty"`
	// LastSeen is its last sign of life. One that leads or works gives one each second; of such a one it is nil where
	// the database role may not see other roles' sessions: pg_read_all_stats may.
	LastSeen *time.Time `json:"last_seen,omitempty"`
	DeadAt   *time.Time `json:"dead_at,omitempty"`
}

// slotsOf is how many tasks of a queue it runs at once.
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

// isLive says whether it can run tasks.
func (n Node) isLive() bool { return n.State != NodeSilent && n.State != NodeEnded }

// NodeFilter selects nodes. The zero value selects those that have not ended.
type NodeFilter struct {
	Service string
	// Ended: also those that have, the last first. Retention removes them after a month at the earliest.
	Ended bool
	// Limit bounds how many are listed, 1 to 10000; 0: 1000.
	Limit int
}

// A node's lock is held by its session, whose backend says when it was last asked for something.
const nodesSQL = `
SELECT n.number, n.service, n.version, n.host, n.queues::text AS queues_text,
    to_json(array_remove(n.types, NULL))::text AS types_text, n.shares_slots, n.state, n.started_at, n.elected_at,
        n.dead_at,
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

// nodeRow is a Node with what not every driver can scan as text.
type nodeRow struct {
	Node
	QueuesText string
	TypesText  string
}

// Nodes lists the nodes by their numbers, and then those that have ended if they are asked for. It reads neither
// tasks nor history.
func (i *Inspector) Nodes(ctx context.Context, db store.DB, filter NodeFilter) ([]Node, error) {
	if filter.Limit == 0 {
		filter.Limit = 1000
	}
	if filter.Limit < 1 || filter.Limit > 10000 {
		return nil, fmt.Errorf("list nodes: %w", check.Invalid("limit", "must be between 1 and 10000", filter.Limit))
	}
	if err := check.Text("service", filter.Service); err != nil {
		return nil, fmt.Errorf("list nodes: %w", err)
	}
	rows, err := query.Collect[nodeRow](ctx, i.source, db, "list nodes", nodesSQL,
		strconv.FormatBool(filter.Ended), filter.Service, strconv.Itoa(filter.Limit))
	nodes := make([]Node, len(rows))
	for i, row := range rows {
		nodes[i] = row.Node
		// a row that somebody spoiled is a node without queues
		_ = json.Unmarshal([]byte(row.QueuesText), &nodes[i].Queues)
		_ = json.Unmarshal([]byte(row.TypesText), &nodes[i].Types)
	}
	return nodes, err
}
