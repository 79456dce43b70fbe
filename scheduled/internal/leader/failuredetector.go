package leader

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tasktable/tasktable/scheduled/internal/pg"
	"github.com/tasktable/tasktable/scheduled/internal/taskdb"
)

// failureDetector records the last sign of life of each node. A node gives no sign of life while nobody holds its
// lock. A node that begins to lead goes on counting where the leader before it ended, so that the tasks of nodes that
// die together wait no longer than the tasks of one node.
type failureDetector struct {
	heard map[int64]time.Time // the last sign of life of a node
}

// look evaluates a look at the nodes. It returns the nodes that have been silent for at least deadAfter, so that they
// have stopped by themselves. It also returns in how long the next node will reach deadAfter. That is negative if no
// other node is silent.
//
// refused is when this node was last refused the leader's lock, because another node held it. Until then, the node
// that led before was alive. It is zero if this node was not refused lately.
func (s *failureDetector) look(nodes []taskdb.LiveNode, now, refused time.Time) (dead []int64, next time.Duration) {
	heard := map[int64]time.Time{}
	next = -1
	for _, node := range nodes {
		last, known := s.heard[node.Number]
		switch {
		case node.Held || !known && node.Silent < 0:
			last = now // nobody knows how long the lock has been free
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

// deadAfter is how long a node must be silent before the leader takes its tasks back. Within 3 seconds
// (session.Timeout) and one tick, a node that has lost its session stops its handlers by itself. deadAfter is longer
// than both together.
const deadAfter = 5 * time.Second

// refusedLately limits how old a refusal may be, because in a longer time another node could have led and died. A
// refusal counts as a sign of life of the node that held the lock. Even if that sign is a tick too late, the node has
// session.Timeout to stop its handlers before the leader takes its tasks back.
const refusedLately = 3 * tickEvery / 2

const silentSQL = `
UPDATE tasktable.nodes AS n SET last_seen_at = statement_timestamp() - s.silent * interval '1 microsecond'
FROM unnest($1::bigint[], $2::bigint[]) AS s (number, silent) WHERE n.number = s.number AND n.last_seen_at IS NULL`

// reclaimDead takes back the tasks of dead nodes. A node is dead if its lock has been free for deadAfter, because the
// node has stopped by itself by then. reclaimDead returns in how long the next node will be dead. That is negative if
// no other node is silent.
func (l *Leader) reclaimDead(ctx context.Context) (next time.Duration, err error) {
	now := time.Now()
	refused := l.session.RefusedAt
	if now.Sub(refused) > refusedLately {
		refused = time.Time{}
	}
	dead, next := l.deadNodes.look(l.nodes, now, refused)
	for _, number := range l.jobs.Nodes() { // some may have fetched jobs after the leader had declared them dead
		lives := func(node taskdb.LiveNode) bool { return node.Number == number }
		if number != l.session.Number && !slices.ContainsFunc(l.nodes, lives) {
			dead = append(dead, number)
		}
	}
	err = l.noteSilent(ctx)
	for _, number := range dead { // a node that cannot be ended does not stop the others
		if l.conn.IsClosed() {
			break
		}
		done, reclaimErr := l.reclaimNode(ctx, number)
		if done {
			l.log.Warn("node is dead; the leader has taken its tasks back", "dead", number)
		}
		err = errors.Join(err, reclaimErr)
	}
	return next, err
}

// noteSilent writes how long each silent node has been silent, once for each node. The next leader reads it.
func (l *Leader) noteSilent(ctx context.Context) error {
	var silent, micros []int64
	for _, node := range l.nodes {
		if !node.Held && node.Silent < 0 {
			silent = append(silent, node.Number)
			micros = append(micros, time.Since(l.deadNodes.heard[node.Number]).Microseconds())
		}
	}
	if len(silent) == 0 {
		return nil
	}
	return l.transaction(ctx, func(tx pgx.Tx) error {
		_, err := tx.Exec(ctx, l.statements.Schema.SQL(silentSQL), silent, micros)
		return pg.Annotate(err, "note that nodes are silent")
	})
}
