package scheduled

import (
	"context"
	"encoding/json"
	"log/slog"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tasktable/tasktable/scheduled/internal/taskdb"
)

// publisher writes into this node's row how long its handlers run. The leader uses these averages to size batches,
// and may be a node that does not run these types. An idle node writes nothing.
type publisher struct {
	pool       *pgxpool.Pool
	statements taskdb.Queries
	number     int64
	averages   *averages
	log        *slog.Logger

	published map[string]time.Duration
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
	repeat(ctx, publishEvery, func() time.Duration {
		if err := p.publish(ctx); err != nil && ctx.Err() == nil {
			p.log.Warn("averages of handler times not published; trying again", "error", err)
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
	if _, err := p.pool.Exec(ctx, p.statements.Schema.SQL(publishSQL), p.number, encodeAverages(now)); err != nil {
		return taskdb.Annotate(err, "publish averages")
	}
	p.published = now
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
