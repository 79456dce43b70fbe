package worker

import (
	"context"
	"encoding/json"
	"maps"
	"time"

	"sync"

	"github.com/tasktable/tasktable/scheduled/internal/loop"
	"github.com/tasktable/tasktable/scheduled/internal/pg"
)

// averages has, for each type, the moving average of how long its handlers run on this node. The leader sizes
// batches by it.
type averages struct {
	mu    sync.Mutex
	types map[string]average
}

type average struct {
	value time.Duration
	runs  int
}

const (
	// AverageRuns is how many runs are enough to go by the average.
	AverageRuns   = 20
	averageWeight = 20 // each later run has this share, one in so many
)

func (a *averages) Observe(kind string, took time.Duration) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.types == nil {
		a.types = map[string]average{}
	}
	was := a.types[kind]
	weight := min(was.runs+1, averageWeight)
	was.value += (took - was.value) / time.Duration(weight)
	was.runs++
	a.types[kind] = was
}

// of returns the average of a type, and whether the type has run often enough to go by it.
func (a *averages) of(kind string) (time.Duration, bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	found := a.types[kind]
	return found.value, found.runs >= AverageRuns
}

// measured returns the averages of the types that have run often enough to go by them.
func (a *averages) measured() map[string]time.Duration {
	a.mu.Lock()
	defer a.mu.Unlock()
	found := map[string]time.Duration{}
	for kind, one := range a.types {
		if one.runs >= AverageRuns {
			found[kind] = one.value
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
			p.config.Log.Warn("averages of handler times not published; trying again", "error", err)
		}
		if err := p.publishHung(ctx); err != nil && ctx.Err() == nil {
			p.config.Log.Warn("handlers that hang not published; trying again", "error", err)
		}
		return publishEvery
	})
}

const publishSQL = `UPDATE tasktable.nodes SET averages = $2::text::jsonb WHERE number = $1`

// publish writes the averages if one of them has changed noticeably.
func (p *publisher) publish(ctx context.Context) error {
	now := p.averages.measured()
	if !differ(p.published, now) {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, publishWithin)
	defer cancel()
	if _, err := p.config.EnginePool.Exec(
		ctx, p.config.Statements.Schema.SQL(publishSQL), p.config.Number, encodeAverages(now),
	); err != nil {
		return pg.Annotate(err, "publish averages")
	}
	p.published = now
	return nil
}

const publishHungSQL = `UPDATE tasktable.nodes SET hung = $2::text::jsonb WHERE number = $1`

// publishHung writes how many handlers hang, if that has changed. The doctor reads it.
func (p *publisher) publishHung(ctx context.Context) error {
	now := p.hung()
	if maps.Equal(p.publishedHung, now) {
		return nil
	}
	encoded, _ := json.Marshal(now) // strings and numbers always encode
	ctx, cancel := context.WithTimeout(ctx, publishWithin)
	defer cancel()
	if _, err := p.config.EnginePool.Exec(
		ctx, p.config.Statements.Schema.SQL(publishHungSQL), p.config.Number, string(encoded),
	); err != nil {
		return pg.Annotate(err, "publish which handlers hang")
	}
	p.publishedHung = now
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
