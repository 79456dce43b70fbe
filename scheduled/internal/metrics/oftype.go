package metrics

import (
	"unicode/utf8"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/tasktable/tasktable/scheduled/internal/taskdb"
	"github.com/tasktable/tasktable/store"
)

const (
	// maxTypeSeries is how many types have series of their own. A type is meant to be a word of the code. If an
	// application makes one type for each of its members, the types beyond the limit share the series otherLabel.
	maxTypeSeries = 200
	// otherLabel cannot be the name of a type or a queue, because these may not contain such brackets.
	otherLabel = "(other)"
)

// outcomeWords are all words of scheduled_task_executions.outcome.
var outcomeWords = []string{
	taskdb.OutcomeCompleted, taskdb.OutcomeFailed, taskdb.OutcomeRetried, taskdb.OutcomeSnoozed, taskdb.OutcomeLost,
	taskdb.OutcomeSuperseded, taskdb.OutcomeExpired, taskdb.OutcomeInterrupted, taskdb.OutcomeReleased,
	taskdb.OutcomeCancelled,
}

var deadWords = []string{string(store.StatusFailed), string(store.StatusExpired)}

// OfType are the counters of one type. A batch looks them up once, because a look-up by labels for each task
// would cost more than the counting itself.
type OfType struct {
	label                    string // otherLabel if the type has no series of its own
	Claimed, Started, Waited prometheus.Counter
	Delay, Duration          prometheus.Observer
	outcomes, dead           map[string]prometheus.Counter
}

// Of returns the metrics of a type. After the first maxTypeSeries types, all further types share one.
func (m *Metrics) Of(kind string) *OfType {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.types[kind] == nil && (len(m.types) >= maxTypeSeries || kind == "" || !utf8.ValidString(kind)) {
		kind = otherLabel
	}
	if found := m.types[kind]; found != nil {
		return found
	}
	made := &OfType{
		label: kind, Claimed: m.claimed.WithLabelValues(kind), Started: m.started.WithLabelValues(kind),
		Waited: m.waits.WithLabelValues(kind), Delay: m.delay.WithLabelValues(kind),
		Duration: m.duration.WithLabelValues(kind),
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

// Recorded counts a line of the history.
func (t *OfType) Recorded(outcome string) {
	if counter := t.outcomes[outcome]; counter != nil {
		counter.Inc()
	}
}

// Died counts a dead letter. It ignores a status that is not of a dead letter.
func (t *OfType) Died(status string) {
	if counter := t.dead[status]; counter != nil {
		counter.Inc()
	}
}
