package metrics

import (
	"cmp"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/tasktable/tasktable/scheduled/internal/taskdb"
)

// maxLaneSeries is how many lanes have series of their own. The other lanes share one series.
const maxLaneSeries = 500

// SightValid is how long the metrics show the leader's last sight. The leader looks each second.
const SightValid = 30 * time.Second

// Sight is the result of a leader's tick. It does not change after that.
type Sight struct {
	At    time.Time
	lanes taskdb.ListedLanes
	nodes []taskdb.LiveNode
}

// Sees stores the result of a tick.
func (m *Metrics) Sees(lanes taskdb.ListedLanes, nodes []taskdb.LiveNode) {
	if m != nil {
		m.Seen.Store(&Sight{time.Now(), lanes, nodes})
	}
}

// NodeState is the state of a node that has a session.
type NodeState struct {
	Number    int64
	Leads     bool
	AnswerAge time.Duration    // since the node sent the last question that the session answered
	Slots     map[string]Usage // by queue
	TypeSlots map[string]Usage // of the types with a limit
	Places    Usage            // of transactional handlers
	InHand    int              // claimed tasks on this node
	Hung      map[string]int   // by type: handlers that have not returned although their claims are over
	Pools     map[string]*pgxpool.Pool
}

// Usage is how many slots or places there are, and how many are in use.
type Usage struct{ Size, Used int }

// gauges describes the figures that are read when a scrape asks for them.
type gauges struct {
	info, up, number, leader, answerAge        *prometheus.Desc
	slots, slotsUsed, typeSlots, typeSlotsUsed *prometheus.Desc
	places, placesUsed, inHand, hung           *prometheus.Desc
	conns, connsUsed, connsWait                *prometheus.Desc
	// Only the leader shows these.
	nodes, lanes, pauses, depth, depthLimit, age, laneNodes, lanePaused, dead, jobs *prometheus.Desc
	recurring, lastSuccess, failuresInARow, missed, waiting                         *prometheus.Desc

	all []*prometheus.Desc
}

func newGauges(config Config) (g gauges) {
	describe := func(name, help string, labels ...string) *prometheus.Desc {
		made := prometheus.NewDesc(prometheus.BuildFQName("tasktable", "", name), help, labels, nil)
		g.all = append(g.all, made)
		return made
	}
	g.info = prometheus.NewDesc("tasktable_node_info", "What this node is; always 1.", nil,
		prometheus.Labels{"service": valid(config.Service), "version": valid(config.Version), "schema": config.Schema})
	g.all = append(g.all, g.info)
	g.up = describe("node_up", "1 while this node has its session with the database; 0: it runs nothing.")
	g.number = describe("node_number",
		"This node's number in the table nodes and in the log; each session has a new one.")
	g.leader = describe("leader", "1 on the node that leads, 0 on the others.")
	g.answerAge = describe("session_answer_age_seconds",
		"Time since the node sent the question that the session answered last. At 3 s the node stops its handlers.")
	g.slots = describe("slots", "Slots of this node: how many handlers may run at once.", "queue")
	g.slotsUsed = describe("slots_used", "Slots in use. With shared slots a queue may use more than its own.", "queue")
	g.typeSlots = describe("type_slots", "How many handlers of a type with a limit may run at once.", "type")
	g.typeSlotsUsed = describe("type_slots_used", "How many of these slots are in use.", "type")
	g.places = describe("transactions", "How many transactional handlers may run at once.")
	g.placesUsed = describe("transactions_used", "How many of these places are in use.")
	g.inHand = describe("tasks_in_hand", "Claimed tasks on this node: running, or waiting for their time or a slot.")
	g.hung = describe("hung_handlers",
		"Handlers that have not returned for half a minute after the end of their claims. Each keeps a slot.", "type")
	g.conns = describe("pool_connections",
		"The most connections that a pool may have: engine (without River's listener) or handlers.", "pool")
	g.connsUsed = describe("pool_connections_used", "Connections of a pool in use.", "pool")
	g.connsWait = describe("pool_wait_seconds_total",
		"Time that callers have waited for a connection because the pool had none free.", "pool")
	g.nodes = describe("nodes", "Nodes that live, as the leader sees them.")
	g.lanes = describe("lanes", "Lanes with tasks that wait, also for a later time.")
	g.pauses = describe("pauses", "Pauses that hold now.", "scope")
	lane := []string{"queue", "type", "priority"}
	g.depth = describe("lane_depth",
		"Due tasks that are not claimed. The priority is fires for recurring tasks whose fire is due.", lane...)
	g.depthLimit = describe("lane_depth_limit",
		"How far each lane is counted. A lane_depth that equals this may be more.")
	g.age = describe("lane_oldest_due_age_seconds",
		"How long the oldest task that is not claimed has been due. Waits for something that is out of order count. "+
			"0 means that none is due.", lane...)
	g.waiting = describe("lane_waiting",
		"Tasks that wait for something that is out of order, such as a host whose circuit is open.", lane...)
	g.laneNodes = describe("lane_nodes", "Live nodes that have both the queue and the type.", lane...)
	g.lanePaused = describe("lane_paused", "1 while the queue, the type or everything is paused.", lane...)
	g.dead = describe("dead_letters",
		"Tasks that FAILED or EXPIRED and nobody has archived or retried.", "type", "status")
	g.recurring = describe("recurring_tasks",
		"Recurring tasks that are not paused as single tasks. Of these, 500 have series of their own.")
	g.lastSuccess = describe("recurring_last_success_timestamp_seconds",
		"When the newest occurrence that COMPLETED ended. None: it is not known to have succeeded.", "id")
	g.failuresInARow = describe("recurring_failures_in_a_row",
		"Occurrences that FAILED or EXPIRED since the last success.", "id")
	g.missed = describe("recurring_intervals_without_success",
		"Intervals that have passed since the last success, up to 10. None while it is paused.", "id")
	g.jobs = describe("river_jobs", "River's jobs, each of which carries one task or more.", "state")
	return g
}

// valid makes a label of a text. A label that is not valid UTF-8 would spoil the whole scrape.
func valid(text string) string { return strings.ToValidUTF8(text, "?") }

// Describe implements prometheus.Collector.
func (m *Metrics) Describe(into chan<- *prometheus.Desc) {
	for _, part := range m.parts {
		part.Describe(into)
	}
	for _, one := range m.gauges.all {
		into <- one
	}
}

// Collect implements prometheus.Collector. It does not ask the database.
func (m *Metrics) Collect(into chan<- prometheus.Metric) {
	for _, part := range m.parts {
		part.Collect(into)
	}
	show := func(what *prometheus.Desc, value float64, labels ...string) {
		into <- prometheus.MustNewConstMetric(what, prometheus.GaugeValue, value, labels...)
	}
	show(m.gauges.info, 1)
	state := m.node.Load()
	if state == nil {
		show(m.gauges.up, 0)
		show(m.gauges.leader, 0)
		return
	}
	show(m.gauges.up, 1)
	node := (*state)()
	m.collectNode(node, show)
	for name, pool := range node.Pools {
		stat := pool.Stat()
		show(m.gauges.conns, float64(stat.MaxConns()), name)
		show(m.gauges.connsUsed, float64(stat.AcquiredConns()), name)
		waited := stat.EmptyAcquireWaitTime().Seconds()
		into <- prometheus.MustNewConstMetric(m.gauges.connsWait, prometheus.CounterValue, waited, name)
	}
	show(m.gauges.leader, truth(node.Leads))
	if seen := m.Seen.Load(); node.Leads && seen != nil && time.Since(seen.At) < SightValid {
		m.collectLeader(seen, m.found.Load(), show)
	}
}

type shower func(what *prometheus.Desc, value float64, labels ...string)

func truth(is bool) float64 {
	if is {
		return 1
	}
	return 0
}

func (m *Metrics) collectNode(node NodeState, show shower) {
	show(m.gauges.number, float64(node.Number))
	show(m.gauges.answerAge, node.AnswerAge.Seconds())
	for queue, slots := range node.Slots {
		show(m.gauges.slots, float64(slots.Size), queue)
		show(m.gauges.slotsUsed, float64(slots.Used), queue)
	}
	for kind, slots := range node.TypeSlots {
		show(m.gauges.typeSlots, float64(slots.Size), valid(kind))
		show(m.gauges.typeSlotsUsed, float64(slots.Used), valid(kind))
	}
	show(m.gauges.places, float64(node.Places.Size))
	show(m.gauges.placesUsed, float64(node.Places.Used))
	show(m.gauges.inHand, float64(node.InHand))
	for kind, n := range node.Hung {
		show(m.gauges.hung, float64(n), valid(kind))
	}
}

// collectLeader shows the figures that only the leader knows.
func (m *Metrics) collectLeader(seen *Sight, found *tableCounts, show shower) {
	if found == nil {
		found = &tableCounts{}
	}
	seen = &Sight{At: seen.At, lanes: seen.lanes.With(found.lanes), nodes: seen.nodes}
	nodes := slices.DeleteFunc(slices.Clone(seen.nodes), func(n taskdb.LiveNode) bool { return !n.Held })
	show(m.gauges.nodes, float64(len(nodes)))
	show(m.gauges.lanes, float64(len(seen.lanes.Tasks)+len(seen.lanes.Recurring)))
	pauses := map[string]int{"all": 0, "queue": 0, "type": 0}
	for _, p := range seen.lanes.Paused {
		pauses[valid(p.Scope)]++
	}
	for scope, n := range pauses {
		show(m.gauges.pauses, float64(n), scope)
	}
	if found.depth != nil {
		show(m.gauges.depthLimit, float64(found.limit))
	}
	for labels, one := range lanesShown(seen, nodes, found) {
		if one.counted {
			show(m.gauges.depth, float64(one.depth), labels.queue, labels.kind, labels.priority)
		}
		show(m.gauges.age, max(-one.dueIn, 0).Seconds(), labels.queue, labels.kind, labels.priority)
		if found.waits != nil {
			show(m.gauges.waiting, float64(one.waiting), labels.queue, labels.kind, labels.priority)
		}
		show(m.gauges.laneNodes, float64(one.nodes), labels.queue, labels.kind, labels.priority)
		show(m.gauges.lanePaused, truth(one.paused), labels.queue, labels.kind, labels.priority)
	}
	for of, n := range found.dead {
		show(m.gauges.dead, float64(n), of.kind, of.status)
	}
	m.collectRecurring(found.recurring, show)
	for state, n := range found.jobs {
		show(m.gauges.jobs, float64(n), state)
	}
}

// laneShown is a lane as the metrics show it.
type laneShown struct {
	depth   int
	counted bool
	dueIn   time.Duration
	waiting int
	nodes   int
	paused  bool
}

// lanesShown joins the leader's sight of each lane with the table statistics' count. If there are more than
// maxLaneSeries lanes, the rest is shown as one lane. That lane has the depth of all these lanes, the age of the
// oldest task in those that are not paused, and the nodes of the lane with the fewest.
func lanesShown(seen *Sight, nodes []taskdb.LiveNode, found *tableCounts) map[laneLabels]laneShown {
	all := map[laneLabels]laneShown{}
	of := func(l laneLabels) laneShown {
		one := laneShown{}
		for _, node := range nodes {
			if node.Queues[l.queue] > 0 && slices.Contains(node.Types, l.kind) {
				one.nodes++
			}
		}
		one.paused = taskdb.IsPaused(seen.lanes.Paused, l.queue, l.kind)
		return one
	}
	for l, n := range found.depth {
		one := of(l)
		one.depth, one.counted = n, true
		all[l] = one
	}
	for _, l := range slices.Concat(seen.lanes.Tasks, seen.lanes.Recurring) {
		one, known := all[labelsOf(l)]
		if !known {
			one = of(labelsOf(l))
		}
		if one.dueIn = l.DueIn; l.DueIn <= 0 {
			one.dueIn = min(l.DueIn, -l.Late) // it was due before it could be claimed
		}
		all[labelsOf(l)] = one
	}
	for l, waits := range found.waits { // while a claim tries one of them, its lane may have no other
		one, known := all[l]
		if !known {
			one = of(l)
		}
		one.waiting, one.dueIn = waits.Tasks, min(one.dueIn, -time.Duration(waits.Age*float64(time.Second)))
		all[l] = one
	}
	order := make([]laneLabels, 0, len(all))
	for l := range all {
		order = append(order, l)
	}
	slices.SortFunc(order, func(a, b laneLabels) int {
		return cmp.Or(cmp.Compare(a.queue, b.queue), cmp.Compare(a.kind, b.kind), cmp.Compare(a.priority, b.priority))
	})
	shown := map[laneLabels]laneShown{}
	for _, l := range order {
		if len(shown) < maxLaneSeries && utf8.ValidString(l.queue+l.kind) {
			shown[l] = all[l]
			continue
		}
		other := laneLabels{otherLabel, otherLabel, otherLabel}
		rest, already := shown[other]
		shown[other] = rest.with(all[l], !already)
	}
	return shown
}

// with adds a lane to the lane that stands for several.
func (s laneShown) with(one laneShown, first bool) laneShown {
	if s.depth += one.depth; first {
		s.nodes = one.nodes
	}
	s.counted = s.counted || one.counted
	s.waiting += one.waiting
	s.nodes = min(s.nodes, one.nodes)
	if !one.paused {
		s.dueIn = min(s.dueIn, one.dueIn)
	}
	return s
}
