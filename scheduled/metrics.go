package scheduled

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"
	"unicode/utf8"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/rivertype"

	"github.com/tasktable/tasktable/scheduled/internal/taskdb"
	"github.com/tasktable/tasktable/store"
)

// metrics are a node's counters for Config.Metrics. If Config.Metrics is nil, metrics is nil, and its methods do
// nothing. It is a single collector, so that it is registered and unregistered as a whole. It outlives the node's
// sessions.
type metrics struct {
	node  atomic.Pointer[instance] // nil: the node has no session
	lives prometheus.Counter

	started, executions, dead, putOffs, claimed, scheduled *prometheus.CounterVec
	delay, duration                                        *prometheus.HistogramVec

	gateTook, settleTasks, settleTook, passTook prometheus.Histogram
	settleFailures, censusFailures              prometheus.Counter
	lookFailures                                *prometheus.CounterVec

	riverFetchTook, riverInsertTook, riverJobTasks prometheus.Histogram
	riverFetched                                   *prometheus.CounterVec
	riverInserted                                  prometheus.Counter

	parts  []prometheus.Collector
	gauges gauges
	seen   atomic.Pointer[sight]       // the last look of the leader
	found  atomic.Pointer[tableCounts] // the last count of the leader; nil while this node does not lead

	mu    sync.Mutex
	types map[string]*typeMetrics
}

const (
	// maxTypeSeries is how many types have series of their own. A type is meant to be a word of the code. If an
	// application makes one type for each of its members, the types beyond the limit share the series otherLabel.
	maxTypeSeries = 200
	// otherLabel cannot be the name of a type or a queue, because these may not contain such brackets.
	otherLabel = "(other)"
)

// Buckets, in seconds except batchBuckets. The buckets for waiting and running tasks go up to half an hour. The
// buckets for statements end at the time limit of a statement.
var (
	waitBuckets      = []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 300, 1800}
	statementBuckets = []float64{.0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5}
	batchBuckets     = []float64{1, 2, 5, 10, 20, 50, 100, 200, 500, 1000}
)

// outcomeWords are all words of scheduled_task_executions.outcome.
var outcomeWords = []string{
	taskdb.OutcomeCompleted, taskdb.OutcomeFailed, taskdb.OutcomeRetried, taskdb.OutcomeSnoozed, taskdb.OutcomeLost,
	taskdb.OutcomeSuperseded, taskdb.OutcomeExpired, taskdb.OutcomeInterrupted, taskdb.OutcomeReleased,
	taskdb.OutcomeCancelled,
}

var deadWords = []string{string(store.StatusFailed), string(store.StatusExpired)}

// newMetrics makes the metrics of a node. Each of the node's types has its series at zero from the beginning, so that
// the first rate is right.
func newMetrics(config Config) *metrics {
	if config.Metrics == nil {
		return nil
	}
	m := &metrics{types: map[string]*typeMetrics{}, gauges: newGauges(config)}
	m.lives = m.counter("node_lives_total",
		"Sessions that this node has begun: the first one, and one more each time it lost touch with the database.")
	m.started = m.counters("tasks_started_total", "Attempts whose handler was called on this node.", "type")
	m.executions = m.counters("executions_total",
		"Lines that this node has written to the history scheduled_task_executions, by outcome. "+
			"The leader writes the lines of tasks that it expires or takes back.", "type", "outcome")
	m.dead = m.counters("tasks_dead_total", "Tasks that became dead letters, FAILED or EXPIRED.", "type", "status")
	m.putOffs = m.counters("tasks_put_off_total",
		"Attempts that asked for their own next run, or for a chain of follow-ups, at once. "+
			"Such a run waits until a second after the start of the attempt.", "type")
	m.claimed = m.counters("tasks_claimed_total", "Tasks that the leader has claimed and handed to River.", "type")
	m.scheduled = m.counters("tasks_scheduled_total",
		"Tasks that anybody scheduled: created, rescheduled, rearmed, or skipped (a fire that does not run). "+
			"The leader counts them in scheduled_task_changes every 15 s. "+
			"It misses the tasks of a transaction that was open for more than a minute.", "type", "outcome")
	m.delay = m.histograms("start_delay_seconds",
		"Time from when an attempt was due until the gate let it through, by the database's clock.",
		waitBuckets, "type")
	m.duration = m.histograms("task_duration_seconds",
		"How long handlers ran. For transactional handlers this includes their transaction.", waitBuckets, "type")
	m.gateTook = m.histogram("gate_duration_seconds",
		"How long the gate's reads took. One read is for all tasks that were ready together.", statementBuckets)
	m.settleTasks = m.histogram("settle_batch_tasks", "How many outcomes were recorded together.", batchBuckets)
	m.settleTook = m.histogram("settle_duration_seconds",
		"How long it took to record a batch of outcomes, including failures.", statementBuckets)
	m.settleFailures = m.counter("settle_failures_total",
		"Batches of outcomes that could not be recorded and were tried again, whole or in halves.")
	m.passTook = m.histogram("pass_duration_seconds",
		"How long the leader's passes took, including failures.", statementBuckets)
	m.lookFailures = m.counters("look_failures_total",
		"Failed looks of the leader: ticks and passes, including passes that got stuck.", "look")
	m.censusFailures = m.counter("census_failures_total",
		"Counts of the leader for these metrics that failed or took too long.")
	m.riverFetchTook = m.histogram("river_fetch_duration_seconds",
		"How long River's fetches of jobs took.", statementBuckets)
	m.riverFetched = m.counters("river_fetched_jobs_total", "River jobs that this node has fetched.", "queue")
	m.riverInsertTook = m.histogram("river_insert_duration_seconds",
		"How long the leader's inserts of River jobs took.", statementBuckets)
	m.riverInserted = m.counter("river_inserted_jobs_total", "River jobs that the leader has inserted.")
	m.riverJobTasks = m.histogram("river_job_tasks", "How many tasks a River job carried to this node.", batchBuckets)
	for _, look := range []string{lookTick, lookPass} {
		m.lookFailures.WithLabelValues(look)
	}
	for queue := range config.Queues {
		m.riverFetched.WithLabelValues(queue)
	}
	for _, kind := range config.Handlers.Types() {
		m.of(kind).own(m, m.label(kind))
	}
	return m
}

// The kinds of looks that may fail.
const (
	lookTick = "tick"
	lookPass = "pass"
)

func (m *metrics) counter(name, help string) prometheus.Counter {
	made := prometheus.NewCounter(prometheus.CounterOpts{Namespace: "tasktable", Name: name, Help: help})
	m.parts = append(m.parts, made)
	return made
}

func (m *metrics) counters(name, help string, labels ...string) *prometheus.CounterVec {
	made := prometheus.NewCounterVec(prometheus.CounterOpts{Namespace: "tasktable", Name: name, Help: help}, labels)
	m.parts = append(m.parts, made)
	return made
}

func (m *metrics) histogram(name, help string, buckets []float64) prometheus.Histogram {
	made := prometheus.NewHistogram(prometheus.HistogramOpts{
		Namespace: "tasktable", Name: name, Help: help, Buckets: buckets,
	})
	m.parts = append(m.parts, made)
	return made
}

func (m *metrics) histograms(name, help string, buckets []float64, labels ...string) *prometheus.HistogramVec {
	made := prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Namespace: "tasktable", Name: name, Help: help, Buckets: buckets,
	}, labels)
	m.parts = append(m.parts, made)
	return made
}

// register registers the metrics, so that they are scraped until unregister is called.
func (m *metrics) register(with prometheus.Registerer) (unregister func(), err error) {
	if m == nil {
		return func() {}, nil
	}
	err = with.Register(m)
	if errors.As(err, &prometheus.AlreadyRegisteredError{}) {
		return nil, fmt.Errorf("scheduled.Config.Metrics: %w: another node uses the same registerer; "+
			"give each node a label of its own by "+
			"prometheus.WrapRegistererWith(prometheus.Labels{\"node\": \"…\"}, registerer)", store.ErrInvalid)
	}
	if err != nil {
		return nil, fmt.Errorf("scheduled.Config.Metrics: %w: %w", store.ErrInvalid, err)
	}
	return func() { with.Unregister(m) }, nil
}

// begun notes that the node has a session. ended notes that it has none any more.
func (m *metrics) begun(l *instance) {
	if m != nil {
		m.lives.Inc()
		m.node.Store(l)
	}
}

func (m *metrics) ended() {
	if m != nil {
		m.node.Store(nil)
		m.seen.Store(nil)
		m.found.Store(nil)
	}
}

// typeMetrics are the counters of one type. A batch looks them up once, because a look-up by labels for each task
// would cost more than the counting itself.
type typeMetrics struct {
	label           string
	claimed, slowed prometheus.Counter
	outcomes, dead  map[string]prometheus.Counter

	// These three are nil if this node has no handler for the type.
	started         prometheus.Counter
	delay, duration prometheus.Observer
}

// label returns the label of a type. That is otherLabel if the type has no series of its own.
func (m *metrics) label(kind string) string { return m.of(kind).label }

// of returns the metrics of a type. After the first maxTypeSeries types, all further types share one.
func (m *metrics) of(kind string) *typeMetrics {
	if m == nil {
		return nil
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if found := m.types[kind]; found != nil {
		return found
	}
	if len(m.types) >= maxTypeSeries || kind == "" || !utf8.ValidString(kind) {
		kind = otherLabel
		if found := m.types[kind]; found != nil {
			return found
		}
	}
	made := &typeMetrics{
		label: kind, claimed: m.claimed.WithLabelValues(kind), slowed: m.putOffs.WithLabelValues(kind),
		outcomes: map[string]prometheus.Counter{}, dead: map[string]prometheus.Counter{},
	}
	for _, word := range outcomeWords {
		made.outcomes[word] = m.executions.WithLabelValues(kind, word)
	}
	for _, word := range deadWords {
		made.dead[word] = m.dead.WithLabelValues(kind, word)
	}
	m.types[kind] = made
	return made
}

// own adds the counters that only a node with a handler for the type has.
func (t *typeMetrics) own(m *metrics, kind string) {
	t.started = m.started.WithLabelValues(kind)
	t.delay, t.duration = m.delay.WithLabelValues(kind), m.duration.WithLabelValues(kind)
}

// starts counts a called handler. delay is the time since its attempt was due.
func (t *typeMetrics) starts(delay time.Duration) {
	if t != nil {
		t.started.Inc()
		t.delay.Observe(delay.Seconds())
	}
}

// ran counts how long a handler took.
func (t *typeMetrics) ran(took time.Duration) {
	if t != nil {
		t.duration.Observe(took.Seconds())
	}
}

// recorded counts a line of the history.
func (t *typeMetrics) recorded(outcome string) {
	if t == nil {
		return
	}
	if counter := t.outcomes[outcome]; counter != nil {
		counter.Inc()
	}
}

// died counts a dead letter. It ignores a status that is not of a dead letter.
func (t *typeMetrics) died(status string) {
	if t == nil {
		return
	}
	if counter := t.dead[status]; counter != nil {
		counter.Inc()
	}
}

// putOff counts an attempt that asked for a run at once.
func (t *typeMetrics) putOff() {
	if t != nil {
		t.slowed.Inc()
	}
}

// typedOutcome is a line of the history that the leader has written.
type typedOutcome struct{ kind, outcome string }

// took counts the tasks that a pass has claimed, and the tasks that it found expired.
func (m *metrics) took(taken []taskdb.ClaimedTask) {
	if m == nil {
		return
	}
	var of *typeMetrics
	kind := ""
	for i := range taken { // most passes take many tasks of one type in a row
		if of == nil || taken[i].Type != kind {
			kind = taken[i].Type
			of = m.of(kind)
		}
		if taken[i].Fence == nil {
			of.recorded(taskdb.OutcomeExpired)
		} else {
			of.claimed.Inc()
		}
	}
}

// gateAnswered counts a read of the gate.
func (m *metrics) gateAnswered(took time.Duration) {
	if m != nil {
		m.gateTook.Observe(took.Seconds())
	}
}

// settled counts a group commit.
func (m *metrics) settled(tasks int, took time.Duration, err error) {
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

// looked counts a failed look.
func (m *metrics) looked(look string, failed bool) {
	if m != nil && failed {
		m.lookFailures.WithLabelValues(look).Inc()
	}
}

// passed counts a pass.
func (m *metrics) passed(took time.Duration, failed bool) {
	if m != nil {
		m.passTook.Observe(took.Seconds())
		m.looked(lookPass, failed)
	}
}

// inserted counts River jobs that a pass has inserted.
func (m *metrics) inserted(jobs int, took time.Duration) {
	if m != nil {
		m.riverInserted.Add(float64(jobs))
		m.riverInsertTook.Observe(took.Seconds())
	}
}

// carried counts a River job that has come to this node.
func (m *metrics) carried(tasks int) {
	if m != nil {
		m.riverJobTasks.Observe(float64(tasks))
	}
}

// hooks returns the hooks through which River reports its measurements.
func (m *metrics) hooks() []rivertype.Hook {
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
