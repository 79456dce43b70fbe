package metrics

import (
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/tasktable/tasktable/scheduled/internal/taskdb"
)

// maxLaneSeries is how many lanes have series of their own. The other lanes share one series.
const maxLaneSeries = 500

// sightValid is how long the metrics show the leader's last sight. The leader looks each second.
const sightValid = 30 * time.Second

// sight is the result of a leader's tick. It does not change after that.
type sight struct {
	at    time.Time
	lanes taskdb.ListedLanes
	nodes []taskdb.LiveNode
}

// Sees stores the result of a tick.
func (m *Metrics) Sees(lanes taskdb.ListedLanes, nodes []taskdb.LiveNode) {
	m.seen.Store(&sight{time.Now(), lanes, nodes})
}

// sees returns the result of the last tick. It returns nil if there was none for long.
func (m *Metrics) sees() *sight {
	if seen := m.seen.Load(); seen != nil && time.Since(seen.at) < sightValid {
		return seen
	}
	return nil
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

// gauges are the figures that are read when a scrape asks for them. Those from nodes on are shown by the leader alone.
var gauges = []struct {
	name, help string
	labels     []string
}{
	{"node_info", "What this node is; always 1.", []string{"service", "version", "schema"}},
	{"node_up", "1 while this node has its session with the database; 0: it runs nothing.", nil},
	{"node_number", "This node's number in the table nodes and in the log; each session has a new one.", nil},
	{"leader", "1 on the node that leads, 0 on the others.", nil},
	{"session_answer_age_seconds", "Time since the node sent the question that the session answered last.", nil},
	{"slots", "Slots of this node: how many handlers may run at once.", []string{"queue"}},
	{"slots_used", "Slots in use. With shared slots a queue may use more than its own.", []string{"queue"}},
	{"type_slots", "How many handlers of a type with a limit may run at once.", []string{"type"}},
	{"type_slots_used", "How many of these slots are in use.", []string{"type"}},
	{"transactions", "How many transactional handlers may run at once.", nil},
	{"transactions_used", "How many of these places are in use.", nil},
	{"tasks_in_hand", "Claimed tasks on this node: running, or waiting for their time or a slot.", nil},
	{"hung_handlers", "Handlers that have not returned although their claims are over.", []string{"type"}},
	{"pool_connections", "The most connections that a pool may have.", []string{"pool"}},
	{"pool_connections_used", "Connections of a pool in use.", []string{"pool"}},
	{"nodes", "Nodes that live, as the leader sees them.", nil},
	{"lanes", "Lanes with tasks that wait, also for a later time.", nil},
	{"pauses", "Pauses that hold now.", []string{"scope"}},
	{"limit_max_running", "How many tasks of a limit may run at once.", []string{"limit"}},
	{"limit_running", "How many of them run, or are about to.", []string{"limit"}},
	{"limit_tokens", "How many tasks of a limit with a rate may start now.", []string{"limit"}},
	{"limit_waiting", "Due tasks that the limit holds back, of the first 10,000 or more.", []string{"limit"}},
	{"limit_oldest_due_age_seconds", "How long the oldest of them has been due. 0: none is.", []string{"limit"}},
	{"lane_depth", "Due tasks that are not claimed. Recurring tasks whose fire is due have priority fires.", ofLane},
	{"lane_depth_limit", "How far each lane is counted. A lane_depth that equals this may be more.", nil},
	{"lane_oldest_due_age_seconds", "How long the oldest task that is not claimed has been due. 0: none is.", ofLane},
	{"lane_waiting", "Tasks that wait for something that is out of order, such as a host.", ofLane},
	{"lane_nodes", "Live nodes that have both the queue and the type.", ofLane},
	{"lane_paused", "1 while the queue, the type or everything is paused.", ofLane},
	{"dead_letters", "Tasks that FAILED or EXPIRED and nobody has archived or retried.", []string{"type", "status"}},
	{"recurring_last_success_timestamp_seconds", "When the newest occurrence that COMPLETED ended.", []string{"id"}},
	{"recurring_failures_in_a_row", "Occurrences that FAILED or EXPIRED since the last success.", []string{"id"}},
	{"recurring_intervals_without_success", "Intervals that have passed since the last success.", []string{"id"}},
	{"river_jobs", "River's jobs, each of which carries one task or more.", []string{"state"}},
}

var ofLane = []string{"queue", "type", "priority"}

func (m *Metrics) makeGauges() {
	m.gauges = map[string]*prometheus.Desc{}
	for _, one := range gauges {
		m.gauges[one.name] = prometheus.NewDesc("tasktable_"+one.name, one.help, one.labels, nil)
	}
	m.all.MustRegister(m)
}

// Describe describes the gauges.
func (m *Metrics) Describe(into chan<- *prometheus.Desc) {
	for _, one := range m.gauges {
		into <- one
	}
}

// show shows the value of one of the gauges.
type show func(name string, value float64, labels ...string)

// Collect shows the gauges. It does not ask the database.
func (m *Metrics) Collect(into chan<- prometheus.Metric) {
	show := func(name string, value float64, labels ...string) {
		for i := range labels { // one that is not valid UTF-8 would spoil the whole scrape
			labels[i] = strings.ToValidUTF8(labels[i], "?")
		}
		into <- prometheus.MustNewConstMetric(m.gauges[name], prometheus.GaugeValue, value, labels...)
	}
	show("node_info", 1, m.config.Service, m.config.Version, m.config.Schema)
	state := m.node.Load()
	show("node_up", truth(state != nil))
	if state == nil {
		show("leader", 0)
		return
	}
	node := (*state)()
	show("leader", truth(node.Leads))
	node.collect(show)
	seen, found := m.sees(), m.found.Load()
	if node.Leads && seen != nil && found != nil {
		found.collect(seen, show)
	}
}

func truth(is bool) float64 {
	if is {
		return 1
	}
	return 0
}

func (node NodeState) collect(show show) {
	show("node_number", float64(node.Number))
	show("session_answer_age_seconds", node.AnswerAge.Seconds())
	for queue, slots := range node.Slots {
		show("slots", float64(slots.Size), queue)
		show("slots_used", float64(slots.Used), queue)
	}
	for kind, slots := range node.TypeSlots {
		show("type_slots", float64(slots.Size), kind)
		show("type_slots_used", float64(slots.Used), kind)
	}
	show("transactions", float64(node.Places.Size))
	show("transactions_used", float64(node.Places.Used))
	show("tasks_in_hand", float64(node.InHand))
	for kind, n := range node.Hung {
		show("hung_handlers", float64(n), kind)
	}
	for name, pool := range node.Pools {
		show("pool_connections", float64(pool.Stat().MaxConns()), name)
		show("pool_connections_used", float64(pool.Stat().AcquiredConns()), name)
	}
}

// collect shows the figures that only the leader knows.
func (found *tableCounts) collect(seen *sight, show show) {
	lanes := seen.lanes.With(found.lanes)
	nodes := slices.DeleteFunc(slices.Clone(seen.nodes), func(n taskdb.LiveNode) bool { return !n.Held })
	show("nodes", float64(len(nodes)))
	show("lanes", float64(len(lanes.Tasks)+len(lanes.Recurring)))
	pauses := map[string]int{"all": 0, "queue": 0, "type": 0}
	for _, p := range lanes.Paused {
		pauses[p.Scope]++
	}
	for scope, n := range pauses {
		show("pauses", float64(n), scope)
	}
	found.collectLimits(lanes.Limits, show)
	if found.limit > 0 {
		show("lane_depth_limit", float64(found.limit))
	}
	for l, one := range found.shown(lanes, nodes) {
		if found.limit > 0 {
			show("lane_depth", float64(one.depth), l.queue, l.kind, l.priority)
		}
		show("lane_oldest_due_age_seconds", one.age.Seconds(), l.queue, l.kind, l.priority)
		show("lane_nodes", float64(one.nodes), l.queue, l.kind, l.priority)
		show("lane_paused", truth(one.paused), l.queue, l.kind, l.priority)
		show("lane_waiting", float64(one.waiting), l.queue, l.kind, l.priority)
	}
	for of, n := range found.dead {
		show("dead_letters", float64(n), of.kind, of.status)
	}
	for _, row := range found.jobs {
		show("river_jobs", float64(row.Jobs), row.State)
	}
	found.collectRecurring(lanes.Paused, show)
}

// laneShown is a lane as the metrics show it.
type laneShown struct {
	depth, waiting, nodes int
	age                   time.Duration
	paused                bool
}

// shown joins the leader's sight of each lane with the last count. If there are more than maxLaneSeries lanes, the rest
// is shown as one lane. That lane has the depth of all these lanes, the age of the oldest task in those that are not
// paused, and the nodes of the lane with the fewest.
func (found *tableCounts) shown(lanes taskdb.ListedLanes, nodes []taskdb.LiveNode) map[laneLabels]laneShown {
	all := map[laneLabels]*laneShown{}
	of := func(l laneLabels) *laneShown {
		if all[l] == nil {
			all[l] = &laneShown{paused: taskdb.IsPaused(lanes.Paused, l.queue, l.kind)}
			for _, node := range nodes {
				if node.Works(l.queue, l.kind) {
					all[l].nodes++
				}
			}
		}
		return all[l]
	}
	for l, n := range found.depth {
		of(l).depth = n
	}
	for _, l := range slices.Concat(lanes.Tasks, lanes.Recurring) {
		of(labelsOf(l)).age = l.Late
	}
	for l, waits := range found.waits { // while a claim tries one of them, its lane may have no other
		of(l).waiting, of(l).age = waits.Tasks, max(of(l).age, time.Duration(waits.Age*float64(time.Second)))
	}
	shown := map[laneLabels]laneShown{}
	for i, l := range slices.SortedFunc(maps.Keys(all), laneLabels.compare) {
		one := *all[l]
		if i >= maxLaneSeries {
			l = laneLabels{otherLabel, otherLabel, otherLabel}
			if one.paused {
				one.paused, one.age = false, 0
			}
			if rest, already := shown[l]; already {
				one = laneShown{depth: rest.depth + one.depth, waiting: rest.waiting + one.waiting,
					nodes: min(rest.nodes, one.nodes), age: max(rest.age, one.age)}
			}
		}
		shown[l] = one
	}
	return shown
}
