// Package metrics has a node's counters and gauges, and the counts that the leader makes for them. The counters are in
// metrics.go, and those of each type in oftype.go. gauges.go shows a scrape the figures that the node has in memory,
// and tablestats.go counts on the leader the figures that only the tables know.
package metrics

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/rivertype"

	"github.com/tasktable/tasktable/scheduled/internal/taskdb"
	"github.com/tasktable/tasktable/store"
)

// Metrics are a node's counters for scheduled.Config.Metrics. If that is nil, the *Metrics is nil, and its methods do
// nothing. It is a single collector, so that it is registered and unregistered as a whole. It outlives the node's
// sessions.
type Metrics struct {
	config Config
	node   atomic.Pointer[func() NodeState] // nil: the node has no session
	seen   atomic.Pointer[sight]            // the last look of the leader
	found  atomic.Pointer[tableCounts]      // the last count of the leader; nil while this node does not lead

	started, executions, dead, waits, claimed, lookFailures, riverFetched *prometheus.CounterVec
	delay, duration                                                       *prometheus.HistogramVec
	lives, settleFailures, censusFailures, riverInserted                  prometheus.Counter

	gateTook, settleTasks, settleTook, passTook    prometheus.Observer
	riverFetchTook, riverInsertTook, riverJobTasks prometheus.Observer

	parts  []prometheus.Collector
	gauges map[string]*prometheus.Desc

	mu    sync.Mutex
	types map[string]*OfType
}

// Buckets, in seconds except batchBuckets. The buckets for waiting and running tasks go up to half an hour. The
// buckets for statements end at the time limit of a statement.
var (
	waitBuckets      = []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 300, 1800}
	statementBuckets = []float64{.0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5}
	batchBuckets     = []float64{1, 2, 5, 10, 20, 50, 100, 200, 500, 1000}
)

// WaitBuckets returns the bounds of the histograms of start delays and durations, in seconds.
func WaitBuckets() []float64 { return slices.Clone(waitBuckets) }

// Config names the registerer, and the node that the metrics are of.
type Config struct {
	Registerer               prometheus.Registerer // nil: there are no metrics
	Service, Version, Schema string                // of the node
	Queues, Types            []string              // that the node works
}

// New makes the metrics of a node. Each of the node's types has its series at zero from the beginning, so that
// the first rate is right.
func New(config Config) *Metrics {
	if config.Registerer == nil {
		return nil
	}
	m := &Metrics{config: config, types: map[string]*OfType{}, gauges: map[string]*prometheus.Desc{}}
	for _, one := range gauges {
		m.gauges[one.name] = prometheus.NewDesc("tasktable_"+one.name, one.help, one.labels, nil)
	}
	m.lives = m.counter("node_lives_total", "Sessions with the database that this node has begun.")
	m.started = m.counters("tasks_started_total", "Attempts whose handler was called on this node.", "type")
	m.executions = m.counters("executions_total", "Lines that this node has written to the history.", "type", "outcome")
	m.dead = m.counters("tasks_dead_total", "Tasks that became dead letters, FAILED or EXPIRED.", "type", "status")
	m.waits = m.counters("tasks_waited_total",
		"Attempts that put their task off because something is out of order, such as a host.", "type")
	m.claimed = m.counters("tasks_claimed_total", "Tasks that the leader has claimed and handed to River.", "type")
	m.delay = m.histograms("start_delay_seconds",
		"Time from when an attempt was due until the gate let it through.", waitBuckets, "type")
	m.duration = m.histograms("task_duration_seconds",
		"How long handlers ran, with the transaction of transactional ones.", waitBuckets, "type")
	m.gateTook = m.histogram("gate_duration_seconds", "How long the gate's reads took.", statementBuckets)
	m.settleTasks = m.histogram("settle_batch_tasks", "How many outcomes were recorded together.", batchBuckets)
	m.settleTook = m.histogram("settle_duration_seconds",
		"How long it took to record a batch of outcomes, including failures.", statementBuckets)
	m.settleFailures = m.counter("settle_failures_total",
		"Batches of outcomes that could not be recorded and were tried again, whole or in halves.")
	m.passTook = m.histogram("pass_duration_seconds",
		"How long the leader's passes took, including failures.", statementBuckets)
	m.lookFailures = m.counters("look_failures_total", "Ticks and passes of the leader that failed.", "look")
	m.censusFailures = m.counter("census_failures_total", "Counts for these metrics that failed or took too long.")
	m.riverFetchTook = m.histogram("river_fetch_duration_seconds", "How long River's fetches took.", statementBuckets)
	m.riverFetched = m.counters("river_fetched_jobs_total", "River jobs that this node has fetched.", "queue")
	m.riverInsertTook = m.histogram("river_insert_duration_seconds",
		"How long the leader's inserts of River jobs took.", statementBuckets)
	m.riverInserted = m.counter("river_inserted_jobs_total", "River jobs that the leader has inserted.")
	m.riverJobTasks = m.histogram("river_job_tasks", "How many tasks a River job carried to this node.", batchBuckets)
	for _, look := range []string{Tick, Pass} {
		m.lookFailures.WithLabelValues(look)
	}
	for _, queue := range config.Queues {
		m.riverFetched.WithLabelValues(queue)
	}
	for _, kind := range config.Types {
		of := m.Of(kind)
		of.started = m.started.WithLabelValues(of.label)
		of.delay, of.duration = m.delay.WithLabelValues(of.label), m.duration.WithLabelValues(of.label)
	}
	return m
}

// The kinds of looks that may fail.
const (
	Tick = "tick"
	Pass = "pass"
)

func (m *Metrics) counter(name, help string) prometheus.Counter {
	return m.counters(name, help).WithLabelValues()
}

func (m *Metrics) counters(name, help string, labels ...string) *prometheus.CounterVec {
	made := prometheus.NewCounterVec(prometheus.CounterOpts{Namespace: "tasktable", Name: name, Help: help}, labels)
	m.parts = append(m.parts, made)
	return made
}

func (m *Metrics) histogram(name, help string, buckets []float64) prometheus.Observer {
	return m.histograms(name, help, buckets).WithLabelValues()
}

func (m *Metrics) histograms(name, help string, buckets []float64, labels ...string) *prometheus.HistogramVec {
	made := prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Namespace: "tasktable", Name: name, Help: help, Buckets: buckets,
	}, labels)
	m.parts = append(m.parts, made)
	return made
}

// Register registers the metrics, so that they are scraped until unregister is called.
func (m *Metrics) Register() (unregister func(), err error) {
	if m == nil {
		return func() {}, nil
	}
	err = m.config.Registerer.Register(m)
	if errors.As(err, &prometheus.AlreadyRegisteredError{}) {
		return nil, fmt.Errorf("scheduled.Config.Metrics: %w: another node uses the same registerer; "+
			"give each node a label of its own by "+
			"prometheus.WrapRegistererWith(prometheus.Labels{\"node\": \"…\"}, registerer)", store.ErrInvalid)
	}
	if err != nil {
		return nil, fmt.Errorf("scheduled.Config.Metrics: %w: %w", store.ErrInvalid, err)
	}
	return func() { m.config.Registerer.Unregister(m) }, nil
}

// Begun notes that the node has a session.
func (m *Metrics) Begun(state func() NodeState) {
	if m != nil {
		m.lives.Inc()
		m.node.Store(&state)
	}
}

// Ended notes that the node has no session any more.
func (m *Metrics) Ended() {
	if m != nil {
		m.node.Store(nil)
		m.found.Store(nil)
	}
}

// Claimed counts the tasks that a pass has claimed, and the tasks that it found expired.
func (m *Metrics) Claimed(taken []taskdb.ClaimedTask) {
	if m == nil {
		return
	}
	for i := range taken {
		if of := m.Of(taken[i].Type); taken[i].Fence == nil {
			of.Recorded(taskdb.OutcomeExpired)
		} else {
			of.claimed.Inc()
		}
	}
}

// GateAnswered measures one read of the gate.
func (m *Metrics) GateAnswered(took time.Duration) {
	if m != nil {
		m.gateTook.Observe(took.Seconds())
	}
}

// Settled measures a statement that records outcomes. If it failed, its tasks do not count.
func (m *Metrics) Settled(tasks int, took time.Duration, err error) {
	if m == nil {
		return
	}
	m.settleTook.Observe(took.Seconds())
	if err != nil {
		m.settleFailures.Inc()
	} else {
		m.settleTasks.Observe(float64(tasks))
	}
}

// Looked counts a look if it failed.
func (m *Metrics) Looked(look string, failed bool) {
	if m != nil && failed {
		m.lookFailures.WithLabelValues(look).Inc()
	}
}

// Passed measures a pass of the leader, and counts it if it failed.
func (m *Metrics) Passed(took time.Duration, failed bool) {
	if m != nil {
		m.passTook.Observe(took.Seconds())
		m.Looked(Pass, failed)
	}
}

// Inserted counts River jobs that a pass has inserted.
func (m *Metrics) Inserted(jobs int, took time.Duration) {
	if m != nil {
		m.riverInserted.Add(float64(jobs))
		m.riverInsertTook.Observe(took.Seconds())
	}
}

// Carried counts a River job that has come to this node.
func (m *Metrics) Carried(tasks int) {
	if m != nil {
		m.riverJobTasks.Observe(float64(tasks))
	}
}

// Hooks returns the hooks through which River reports its measurements.
func (m *Metrics) Hooks() []rivertype.Hook {
	if m == nil {
		return nil
	}
	return []rivertype.Hook{river.HookMetricEmitFunc(func(_ context.Context, params *rivertype.HookMetricEmitParams) {
		switch metric := params.Metric.(type) {
		case *rivertype.JobGetAvailableDurationMetric:
			m.riverFetchTook.Observe(metric.Duration.Seconds())
		case *rivertype.JobGetAvailableCountMetric:
			m.riverFetched.WithLabelValues(metric.Queue).Add(float64(metric.Count))
		}
	})}
}
