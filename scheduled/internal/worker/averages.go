package worker

import (
	"context"
	"encoding/json"
	"maps"
	"sync"
	"time"

	"github.com/tasktable/tasktable/scheduled/internal/loop"
	"github.com/tasktable/tasktable/scheduled/internal/pg"
)

// averages has, for each type, the moving average of how long its handlers run on this node, and about how large its
// payloads are. The leader sizes batches by the time, and the worker its questions to the gate. The zero value is
// ready.
type averages struct {
	mu    sync.Mutex
	types map[string]average
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

func (a *averages) change(kind string, change func(*average)) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.types == nil {
		a.types = map[string]average{}
	}
	changed := a.types[kind]
	change(&changed)
	a.types[kind] = changed
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

// payload is about how large a type's payloads are, in bytes.
func (a *averages) payload(kind string) int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.types[kind].payload
}

// of returns the average of a type, and whether the type has run often enough to go by it.
func (a *averages) of(kind string) (time.Duration, bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	found := a.types[kind]
	return found.value, found.runs >= averageRuns
}

// measured returns the averages of the types that have run often enough to go by them.
func (a *averages) measured() map[string]time.Duration {
	a.mu.Lock()
	defer a.mu.Unlock()
	found := map[string]time.Duration{}
	for kind, average := range a.types {
		if average.runs >= averageRuns {
			found[kind] = average.value
		}
	}
	return found
}

// publisher writes into this node's row how long its handlers run. The leader uses these averages to size batches,
// and may be a node that does not run these types. An idle node writes nothing.
type publisher struct {
	config   Config
	averages *averages
	hung     func() map[string]int

	published     map[string]time.Duration
	publishedHung map[string]int
}

const (
	// publishEvery is how often the publisher looks at the averages. It writes them at most this often.
	publishEvery = 3 * time.Second
	// publishRatio is the factor by which an average must have grown or shrunk to be published anew.
	publishRatio = 1.25
	// publishWithin limits how long the write may take. The publisher tries a slow database again later.
	publishWithin = 5 * time.Second
)

// run works until ctx is done.
func (p *publisher) run(ctx context.Context) {
	loop.Repeat(ctx, publishEvery, func() time.Duration {
		if err := p.publish(ctx); err != nil && ctx.Err() == nil {
			p.config.Log.Warn("averages of handler times and handlers that hang not published; trying again",
				"error", err)
		}
		return publishEvery
	})
}

const publishSQL = `UPDATE tasktable.nodes SET averages = $2::text::jsonb, hung = $3::text::jsonb WHERE number = $1`

// publish writes the averages and how many handlers hang, if one of the averages has changed noticeably or handlers
// hang or hang no longer. The doctor reads the latter.
func (p *publisher) publish(ctx context.Context) error {
	now, hung := p.averages.measured(), p.hung()
	if !differ(p.published, now) && maps.Equal(p.publishedHung, hung) {
		return nil
	}
	encoded, _ := json.Marshal(hung) // strings and numbers always encode
	ctx, cancel := context.WithTimeout(ctx, publishWithin)
	defer cancel()
	if _, err := p.config.EnginePool.Exec(
		ctx, p.config.Statements.Schema.SQL(publishSQL), p.config.Number, encodeAverages(now), string(encoded),
	); err != nil {
		return pg.Annotate(err, "publish averages and handlers that hang")
	}
	p.published, p.publishedHung = now, hung
	return nil
}

// differ reports whether the leader would size batches differently with these averages. Differences below a
// millisecond do not matter.
func differ(before, now map[string]time.Duration) bool {
	for kind, took := range now {
		was, known := before[kind]
		longer, shorter := max(took, was, time.Millisecond), max(min(took, was), time.Millisecond)
		if !known || float64(longer) >= publishRatio*float64(shorter) {
			return true
		}
	}
	return false
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
