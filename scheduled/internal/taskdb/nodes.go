package taskdb

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/tasktable/tasktable/scheduled/internal/pg"
)

// LiveNode is a node that is not dead, as the leader knows it.
type LiveNode struct {
	Number        int64
	Queues        map[string]int `db:"-"` // the slots of each queue; shared slots count for each queue
	Shares        bool           // its slots serve all its queues
	Strict        []string       // those of its queues that come first, in this order
	Types         []string
	Transactional []string                 // the types whose handlers take a transaction
	Places        int                      // how many of these handlers it runs at once
	TypeSlots     map[string]int           `db:"-"` // how many handlers of a type it runs, of the types with a limit
	Averages      map[string]time.Duration `db:"-"` // how long its handlers run, by type
	Held          bool                     // its lock is held, so its session lives
	Hears         bool                     // it has an OnDead or OnLost hook
	Led           bool                     // of the nodes not known to be dead, it is the last that began to lead
	Silent        time.Duration            // how long ago its last sign of life was; negative if nobody has noted that
}

// Works reports whether the node takes tasks of a queue and type.
func (n LiveNode) Works(queue, kind string) bool {
	return n.Queues[queue] > 0 && slices.Contains(n.Types, kind)
}

// NodesSQL lists the nodes that are not known to be dead. Held says whether a node's lock is taken. $1 is the
// class of the lock.
const NodesSQL = `
WITH held AS MATERIALIZED (
    SELECT l.objid::bigint AS number FROM pg_locks AS l
    WHERE l.locktype = 'advisory' AND l.classid::bigint = $1::bigint AND l.objsubid = 2 AND l.granted
        AND l.database = (SELECT d.oid FROM pg_database AS d WHERE d.datname = current_database())
)
SELECT n.number, n.queues::text AS queues_text, array_remove(n.types, NULL) AS types, n.shares_slots AS shares,
    array_remove(n.strict_queues, NULL) AS strict,
    n.receives_failures AS hears,
    array_remove(n.transactional, NULL) AS transactional, n.places, n.type_slots::text AS type_slots_text,
    n.averages::text AS averages_text, n.number IN (SELECT held.number FROM held) AS held,
    coalesce(n.elected_at = max(n.elected_at) OVER (), false) AS led,
    coalesce(statement_timestamp() - n.last_seen_at, interval '-1 ms') AS silent
FROM tasktable.nodes AS n WHERE n.dead_at IS NULL ORDER BY n.number`

// NodeRow is a row of NodesSQL. The columns that somebody may have spoiled are read as text.
type NodeRow struct {
	LiveNode

	QueuesText    string
	TypeSlotsText string
	AveragesText  string
}

// Node converts a row. A row that somebody has spoiled becomes a node without queues, limits or averages.
func (r NodeRow) Node() LiveNode {
	node := r.LiveNode
	node.Averages = DecodeAverages(r.AveragesText)
	_ = json.Unmarshal([]byte(r.QueuesText), &node.Queues)
	_ = json.Unmarshal([]byte(r.TypeSlotsText), &node.TypeSlots)
	if r.Shares {
		ShareSlots(node.Queues)
	}
	return node
}

// ShareSlots gives each queue the slots of all queues, because any queue may get them.
func ShareSlots(queues map[string]int) {
	total := 0
	for _, slots := range queues {
		total += slots
	}
	for queue := range queues {
		queues[queue] = total
	}
}

// DecodeAverages reads the averages that a node has published. A text that cannot be read has none.
func DecodeAverages(text string) map[string]time.Duration {
	var micros map[string]int64
	if json.Unmarshal([]byte(text), &micros) != nil {
		return nil // somebody has damaged the column
	}
	averages := make(map[string]time.Duration, len(micros))
	for kind, took := range micros {
		averages[kind] = time.Duration(min(max(took, 0), time.Hour.Microseconds()*24*365)) * time.Microsecond
	}
	return averages
}

// FarewellSQL marks a node as ended.
const FarewellSQL = `UPDATE tasktable.nodes SET dead_at = clock_timestamp() WHERE number = $1`

// HandlerName is the application_name of the transactions of a node's handlers. Two schemas of one database may have
// nodes with the same number, so the name also has the schema's key. It does not have the schema's name, which may be
// too long: Postgres cuts application_name at 63 bytes.
func HandlerName(schema string, node int64) string {
	return fmt.Sprintf("tasktable handler of node %d (%08x)", node, uint32(pg.LockClass(schema, "node")))
}

// clientPrefix and a node's number make its River client's id.
const clientPrefix = "tasktable-"

// ClientID returns the id of a node's River client.
func ClientID(number int64) string { return clientPrefix + strconv.FormatInt(number, 10) }

// NodeOf returns the number of the node of a River client, or 0 if it is not one of ours.
func NodeOf(client string) int64 {
	number, is := strings.CutPrefix(client, clientPrefix)
	node, err := strconv.ParseInt(number, 10, 64)
	if !is || err != nil {
		return 0
	}
	return node
}
