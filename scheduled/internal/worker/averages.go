package worker

import (
	"context"
	"encoding/json"
	"maps"
	"sync"
	"time"

	"github.com/tasktable/tasktable/scheduled/internal/loop"
	"github.com/tasktable/tasktable/scheduled/internal/pg"
	"github.com/tasktable/tasktable/scheduled/internal/session"
)

// averages has, for each type, the moving average of how long its handlers run on this node, and about how large its
// payloads are. The leader sizes batches by the time, and the worker its questions to the gate. The zero value is
// ready.
type averages struct {
	mu    sync.Mutex
	types map[string]*average
}

type average struct {
	value   time.Duration
	runs    int
	payload int // in bytes
}

const (
	// averageRuns is how many runs are enough to go by the average.
	averageRuns   = 20
	averageWeight = 20 // each later run has this share, one in so many
)

// measured reports whether the type has run often enough to go by the average.
func (a average) measured() bool { return a.runs >= averageRuns }

func (a *averages) change(kind string, change func(*average)) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.types == nil {
		a.types = map[string]*average{}
	}
	if a.types[kind] == nil {
		a.types[kind] = new(average)
	}
	change(a.types[kind])
}

// observe notes how long a handler has run.
func (a *averages) observe(kind string, took time.Duration) {
	a.change(kind, func(now *average) {
		now.runs++
		now.value += (took - now.value) / time.Duration(min(now.runs, averageWeight))
	})
}

// observePayload notes how large payloads were on average in an answer of the gate. Larger ones count at once.
func (a *averages) observePayload(kind string, bytes int) {
	a.change(kind, func(now *average) { now.payload = max(bytes, now.payload-(now.payload-bytes+7)/8) })
}

// of returns the averages of a type.
func (a *averages) of(kind string) average {
	a.mu.Lock()
	defer a.mu.Unlock()
	if now := a.types[kind]; now != nil {
		return *now
	}
	return average{}
}

// measured returns the averages of the types that have run often enough to go by them.
func (a *averages) measured() map[string]time.Duration {
	a.mu.Lock()
	defer a.mu.Unlock()
	found := map[string]time.Duration{}
	for kind, average := range a.types {
		if average.measured() {
			found[kind] = average.value
		}
	}
	return found
}

// publishEvery is how often the node publishes. It tries a slow database again as late.
const publishEvery = 3 * time.Second

// publishLoop publishes until ctx is done.
func (w *Worker) publishLoop(ctx context.Context) {
	loop.Repeat(ctx, publishEvery, func() time.Duration {
		if err := w.publish(ctx); err != nil && ctx.Err() == nil {
			w.config.Log.Warn("averages of handler times and handlers that hang not published; trying again",
				"error", err)
		}
		return publishEvery
	})
}

const publishSQL = `UPDATE tasktable.nodes SET averages = $2::text::jsonb, hung = $3::text::jsonb WHERE number = $1`

// publish writes into this node's row how long its handlers run, and how many of them hang. The leader uses the
// averages to size batches, and may be a node that does not run these types. The doctor reads how many hang. An average
// that has changed little keeps its published value, because each run changes it, and each version of the row slows the
// leader's look. A node on which nothing else changes writes nothing.
func (w *Worker) publish(ctx context.Context) error {
	hung, _ := json.Marshal(w.Hung()) // strings and numbers always encode
	now := published{w.averages.measured(), string(hung)}
	for kind, took := range now.averages {
		if was, has := w.published.averages[kind]; has && (took-was).Abs() <= max(was/4, minChange) {
			now.averages[kind] = was
		}
	}
	if maps.Equal(now.averages, w.published.averages) && now.hung == w.published.hung {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, session.AnswerLimit)
	defer cancel()
	if _, err := w.config.EnginePool.Exec(
		ctx, w.config.Statements.Schema.SQL(publishSQL), w.config.Number, encodeAverages(now.averages), now.hung,
	); err != nil {
		return pg.Annotate(err, "publish averages and handlers that hang")
	}
	w.published = now
	return nil
}

// minChange is the least change of an average that is published. The leader makes no difference between handlers that
// are quicker than that.
const minChange = 100 * time.Microsecond

// published is what the node's row says.
type published struct {
	averages map[string]time.Duration
	hung     string // a JSON object
}

// encodeAverages encodes averages as a JSON object, in microseconds by type.
func encodeAverages(averages map[string]time.Duration) string {
	micros := make(map[string]int64, len(averages))
	for kind, took := range averages {
		micros[kind] = took.Microseconds()
	}
	encoded, _ := json.Marshal(micros) // strings and numbers always encode
	return string(encoded)
}
