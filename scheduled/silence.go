package scheduled

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// silence keeps since when nodes have given no sign of life: since when their locks are free. The node that begins to lead goes on
// counting where the one before it ended, so that tasks of nodes that die together wait no longer than those of one.
type silence struct {
	heard map[int64]time.Time // the last sign of life of a node
}

// look takes what a look at the nodes has found. refused is when this node last was refused the leader's lock, which somebody else
// had: until then the node that led before it was alive; zero: it was not lately. It returns the nodes that have been silent for so
// long that they have stopped by themselves, and in how long the next will have been; negative: none is silent.
func (s *silence) look(nodes []liveNode, now, refused time.Time) (dead []int64, next time.Duration) {
	heard := map[int64]time.Time{}
	next = -1
	for _, node := range nodes {
		last, known := s.heard[node.Number]
		switch {
		case node.Held || !known && node.Silent < 0:
			last = now // nobody knows since when the lock is free
		case !known:
			last = now.Add(-node.Silent)
		}
		if !node.Held && !known && node.Led && !refused.IsZero() && refused.Before(last) {
			last = refused
		}
		heard[node.Number] = last
		if node.Held {
			continue
		}
		if left := last.Add(deadAfter).Sub(now); left <= 0 {
			dead = append(dead, node.Number)
		} else if next < 0 || left < next {
			next = left
		}
	}
	s.heard = heard
	return dead, next
}

// forget begins anew: what a leader knew is old when it leads again.
func (s *silence) forget() { s.heard = nil }

// refusedLately bounds the age of a refusal: in a longer time another could have led and died. With it, a tick's delay included, a node
// still has sessionTimeout between its last sign of life and the end.
const refusedLately = 3 * tickEvery / 2

const silentSQL = `
UPDATE tasktable.nodes AS n SET last_seen_at = statement_timestamp() - s.silent * interval '1 microsecond'
FROM unnest($1::bigint[], $2::bigint[]) AS s (number, silent) WHERE n.number = s.number AND n.last_seen_at IS NULL`

// reclaimDead takes back the tasks of nodes that are gone: whose lock is free, and has been for long enough that the node has
// stopped by itself. It returns in how long there will be another; negative: none is silent.
func (l *leader) reclaimDead(ctx context.Context) (next time.Duration, err error) {
	now := time.Now()
	refused := l.session.refusedAt
	if now.Sub(refused) > refusedLately {
		refused = time.Time{}
	}
	dead, next := l.silence.look(l.nodes, now, refused)
	err = l.noteSilent(ctx)
	for _, number := range dead { // one that cannot be ended does not keep the others
		if l.session.conn.IsClosed() {
			break
		}
		done, reclaimErr := l.reclaimAll(ctx, number)
		if done {
			l.log.Warn("node is dead; its tasks are taken back", "dead", number)
		}
		err = errors.Join(err, reclaimErr)
	}
	return next, err
}

// noteSilent tells who may lead next since when nodes are silent: once for each.
func (l *leader) noteSilent(ctx context.Context) error {
	var silent, micros []int64
	for _, node := range l.nodes {
		if !node.Held && node.Silent < 0 {
			silent, micros = append(silent, node.Number), append(micros, time.Since(l.silence.heard[node.Number]).Microseconds())
		}
	}
	if len(silent) == 0 {
		return nil
	}
	if _, err := l.session.conn.Exec(ctx, l.statements.schema.SQL(silentSQL), silent, micros); err != nil {
		return fmt.Errorf("note that nodes are silent: %w", err)
	}
	return nil
}

const leadsSQL = `UPDATE tasktable.nodes SET elected_at = clock_timestamp() WHERE number = $1`

// noteLeading says who leads, for the one that follows and for audit.
func (l *leader) noteLeading(ctx context.Context) error {
	if _, err := l.session.conn.Exec(ctx, l.statements.schema.SQL(leadsSQL), l.session.number); err != nil {
		return fmt.Errorf("note who leads: %w", err)
	}
	return nil
}
