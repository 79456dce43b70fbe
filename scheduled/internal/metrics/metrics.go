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
	"github.com/prometheus/client_golang/prometheus/promauto"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/rivertype"

	"github.com/tasktable/tasktable/store"
)

// Metrics are a node's counters and gauges. They outlive the node's sessions. Without a registerer they count, too, but
// nobody reads them.
type Metrics struct {
	config Config
	all    *prometheus.Registry             // so that they are registered and unregistered as a whole
	node   atomic.Pointer[func() NodeState] // nil: the node has no session
	seen   atomic.Pointer[sight]            // the last look of the leader
	found  atomic.Pointer[tableCounts]      // the last count of the leader; nil while this node does not lead

	GateTook, PassTook, InsertTook, JobTasks prometheus.Observer
	InsertedJobs                             prometheus.Counter

	started, executions, dead, waits, claimed, lookFailures, fetchedJobs *prometheus.CounterVec
	delay, duration                                                      *prometheus.HistogramVec
	lives, settleFailures, censusFailures                                prometheus.Counter
	settleTasks, settleTook, fetchTook                                   prometheus.Observer

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
	Registerer               prometheus.Registerer // nil: nobody reads the metrics
	Service, Version, Schema string                // of the node
	Queues, Types            []string              // that the node works
}

// New makes the metrics of a node. Each of the node's types has its series at zero from the beginning, so that
// the first rate is right.
func New(config Config) *Metrics {
	m := &Metrics{config: config, all: prometheus.NewRegistry(), types: map[string]*OfType{}}
	m.makeGauges()
	m.makeCounters()
	m.makeHistograms()
	for _, look := range []string{Tick, Pass} {
		m.lookFailures.WithLabelValues(look)
	}
	for _, queue := range config.Queues {
		m.fetchedJobs.WithLabelValues(queue)
	}
	for _, kind := range config.Types {
		m.Of(kind)
	}
	return m
}

func (m *Metrics) makeCounters() {
	counters := func(name, help string, labels ...string) *prometheus.CounterVec {
		return promauto.With(m.all).NewCounterVec(prometheus.CounterOpts{
			Namespace: "tasktable", Name: name, Help: help,
		}, labels)
	}
	counter := func(name, help string) prometheus.Counter { return counters(name, help).WithLabelValues() }
	m.lives = counter("node_lives_total", "Sessions with the database that this node has begun.")
	m.started = counters("tasks_started_total", "Attempts whose handler was called on this node.", "type")
	m.executions = counters("executions_total", "Lines that this node has written to the history.", "type", "outcome")
	m.dead = counters("tasks_dead_total", "Tasks that became dead letters, FAILED or EXPIRED.", "type", "status")
	m.waits = counters("tasks_waited_total",
		"Attempts that put their task off because something is out of order, such as a host.", "type")
	m.claimed = counters("tasks_claimed_total", "Tasks that the leader has claimed and handed to River.", "type")
	m.settleFailures = counter("settle_failures_total",
		"Batches of outcomes that could not be recorded and were tried again, whole or in halves.")
	m.lookFailures = counters("look_failures_total", "Ticks and passes of the leader that failed.", "look")
	m.censusFailures = counter("census_failures_total", "Counts for these metrics that failed or took too long.")
	m.fetchedJobs = counters("river_fetched_jobs_total", "River jobs that this node has fetched.", "queue")
	m.InsertedJobs = counter("river_inserted_jobs_total", "River jobs that the leader has inserted.")
}

func (m *Metrics) makeHistograms() {
	histograms := func(name, help string, buckets []float64, labels ...string) *prometheus.HistogramVec {
		return promauto.With(m.all).NewHistogramVec(prometheus.HistogramOpts{
			Namespace: "tasktable", Name: name, Help: help, Buckets: buckets,
		}, labels)
	}
	histogram := func(name, help string, buckets []float64) prometheus.Observer {
		return histograms(name, help, buckets).WithLabelValues()
	}
	m.delay = histograms("start_delay_seconds",
		"Time from when an attempt was due until the gate let it through.", waitBuckets, "type")
	m.duration = histograms("task_duration_seconds",
		"How long handlers ran, with the transaction of transactional ones.", waitBuckets, "type")
	m.GateTook = histogram("gate_duration_seconds", "How long the gate's reads took.", statementBuckets)
	m.settleTasks = histogram("settle_batch_tasks", "How many outcomes were recorded together.", batchBuckets)
	m.settleTook = histogram("settle_duration_seconds",
		"How long it took to record a batch of outcomes, including failures.", statementBuckets)
	m.PassTook = histogram("pass_duration_seconds",
		"How long the leader's passes took, including failures.", statementBuckets)
	m.fetchTook = histogram("river_fetch_duration_seconds", "How long River's fetches took.", statementBuckets)
	m.InsertTook = histogram("river_insert_duration_seconds",
		"How long the leader's inserts of River jobs took.", statementBuckets)
	m.JobTasks = histogram("river_job_tasks", "How many tasks a River job carried to this node.", batchBuckets)
}

// The kinds of looks that may fail.
const (
	Tick = "tick"
	Pass = "pass"
)

// Register registers the metrics, so that they are scraped until unregister is called.
func (m *Metrics) Register() (unregister func(), err error) {
	if m.config.Registerer == nil {
		return func() {}, nil
	}
	err = m.config.Registerer.Register(m.all)
	if errors.As(err, &prometheus.AlreadyRegisteredError{}) {
		return nil, fmt.Errorf("scheduled.Config.Metrics: %w: another node uses the same registerer; "+
			"give each node a label of its own by "+
			"prometheus.WrapRegistererWith(prometheus.Labels{\"node\": \"…\"}, registerer)", store.ErrInvalid)
	}
	if err != nil {
		return nil, fmt.Errorf("scheduled.Config.Metrics: %w: %w", store.ErrInvalid, err)
	}
	return func() { m.config.Registerer.Unregister(m.all) }, nil
}

// Begun notes that the node has a session.
func (m *Metrics) Begun(state func() NodeState) {
	m.lives.Inc()
	m.node.Store(&state)
}

// Ended notes that the node has no session any more.
func (m *Metrics) Ended() {
	m.node.Store(nil)
	m.found.Store(nil)
}

// Settled measures a statement that records outcomes. If it failed, its tasks do not count.
func (m *Metrics) Settled(tasks int, took time.Duration, err error) {
	m.settleTook.Observe(took.Seconds())
	if err != nil {
		m.settleFailures.Inc()
	} else {
		m.settleTasks.Observe(float64(tasks))
	}
}

// Looked counts a look if it failed.
func (m *Metrics) Looked(look string, failed bool) {
	if failed {
		m.lookFailures.WithLabelValues(look).Inc()
	}
}

// Hooks returns the hooks through which River reports its measurements.
func (m *Metrics) Hooks() []rivertype.Hook {
	return []rivertype.Hook{river.HookMetricEmitFunc(func(_ context.Context, params *rivertype.HookMetricEmitParams) {
		switch metric := params.Metric.(type) {
		case *rivertype.JobGetAvailableDurationMetric:
			m.fetchTook.Observe(metric.Duration.Seconds())
		case *rivertype.JobGetAvailableCountMetric:
			m.fetchedJobs.WithLabelValues(metric.Queue).Add(float64(metric.Count))
		}
	})}
}
