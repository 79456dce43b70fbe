//go:build unix

package torture

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"
)

// longest is how long a session keeps an old snapshot at most, and silencedMost how long a node's pools get no answers.
const (
	longest      = 3 * time.Minute
	silencedMost = 25 * time.Second
)

// keepSnapshot has a session keep an old snapshot, as a dump or a forgotten transaction does. It excuses nothing.
func (b *blow) keepSnapshot(ctx context.Context) {
	if !b.snapshot.TryLock() {
		return
	}
	defer b.snapshot.Unlock()
	b.Target = "a snapshot"
	made := b.begin()
	defer b.timeline.end(made)
	opening, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	conn, err := pgx.Connect(opening, b.cluster.server.URL())
	if err != nil {
		return // Postgres is away: no harm is done
	}
	defer func() { _ = conn.Close(context.WithoutCancel(ctx)) }()
	const snapshot = "BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM tasktable.nodes"
	if _, err := conn.Exec(ctx, snapshot); err != nil {
		return
	}
	_ = wait(ctx, 20*time.Second+b.draw(longest-20*time.Second))
}

// silencePools lets nothing through to a node's pools, and leaves its session alone: so does a firewall that has
// forgotten idle connections.
func (b *blow) silencePools(ctx context.Context, s *slot) {
	made := b.begin()
	b.must(s.pools.hush("upstream", "downstream"))
	_ = wait(ctx, 500*time.Millisecond+b.draw(min(silencedMost, max(b.settings.Length/6, time.Second))))
	s.pools.calm()
	b.timeline.end(made)
}
