package leader

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tasktable/tasktable/scheduled/internal/pg"
)

// elect reports whether this node leads and may make a tick. A node that does not lead tries for the leader's lock,
// unless it lets another node lead because its own passes failed. If it gets the lock, or has lost its connection, it
// begins a term (term.go). mayLead is false while the node stops or is quiet, and on a node that only works. The
// node then only asks, even if it could not resign and still has the lock.
//
// The lock is in session/heartbeat.go: Ask tries for it, and Resign gives it up.
func (l *Leader) elect(ctx context.Context, mayLead bool) (leads bool, err error) {
	switch {
	case !mayLead || l.progress.rests() && !l.session.Leads():
		return false, l.session.Ask(ctx, false)
	case l.leads():
		return true, nil
	case !l.session.Leads():
		if err := l.session.Ask(ctx, true); err != nil || !l.session.Leads() {
			return false, err
		}
	}
	if err := l.beginTerm(ctx); err != nil { // the next turn tries again, and until then the node claims nothing
		return false, errors.Join(err, l.noteProgress(ctx, false))
	}
	return true, nil
}

// A server's timeline changes when a standby becomes the primary. The former primary may have drawn numbers that the
// standby has never heard of. The new primary would draw them again, and a node that is cut off could hold the same
// fence as a new claim, and remove the River job of that claim. Ten million numbers are more than a standby is behind.
const moveNumbersSQL = `
WITH former AS MATERIALIZED (
    SELECT n.timeline FROM tasktable.nodes AS n WHERE n.timeline IS NOT NULL
    ORDER BY n.elected_at DESC NULLS LAST LIMIT 1
), present AS MATERIALIZED (
    SELECT left(pg_walfile_name(pg_current_wal_lsn()), 8) AS timeline
), noted AS (
    UPDATE tasktable.nodes AS n SET timeline = present.timeline FROM present WHERE n.number = $1
)
SELECT coalesce(min(setval(moved.name, nextval(moved.name) + 10000000)), 0)
FROM former JOIN present ON present.timeline <> former.timeline
CROSS JOIN unnest(ARRAY['tasktable.task_numbers'::regclass,
    pg_get_serial_sequence('tasktable.river_job', 'id')::regclass]) AS moved (name)`

// moveNumbers notes the server's timeline. After a failover it moves the sequences of revisions and fences, and of
// River's jobs.
func (l *Leader) moveNumbers(ctx context.Context, conn *pgx.Conn) error {
	var moved int64
	err := conn.QueryRow(ctx, l.statements.Schema.SQL(moveNumbersSQL), l.session.Number).Scan(&moved)
	switch {
	case err != nil && (conn.IsClosed() || pg.IsTimeout(err)):
		return fmt.Errorf("note the timeline: %w", err)
	case err != nil: // a missing right, or a service that hides its timeline
		l.log.Warn("leader cannot see whether there was a failover; after an asynchronous one, see UPGRADING.md",
			"error", err)
	case moved > 0:
		l.log.Warn("the database has failed over; revisions, fences and River jobs have higher numbers now",
			"least", moved)
	}
	return nil
}

const (
	// maxFailing is how long a leader may fail to begin a term, or how long all its passes may fail, before it lets
	// another node lead. The cause may be with this node alone. An example is a connection that carries pings but
	// nothing larger.
	maxFailing = 10 * time.Second
	// restFor is how long it then does not try to lead. If no other node leads by then, it leads again.
	restFor = 5 * time.Second
)

// progress records whether a leader's passes succeed.
type progress struct {
	failingSince time.Time // zero: the last one succeeded
	restsUntil   time.Time
}

// note records whether a pass succeeded. It reports whether all have failed for too long. Then the leader rests.
func (p *progress) note(ok bool) (rests bool) {
	switch {
	case ok:
		p.failingSince = time.Time{}
	case p.failingSince.IsZero():
		p.failingSince = time.Now()
	case time.Since(p.failingSince) >= maxFailing:
		*p = progress{restsUntil: time.Now().Add(restFor)}
		return true
	}
	return false
}

// rests reports whether this node must let another node lead.
func (p *progress) rests() bool { return time.Now().Before(p.restsUntil) }

// noteProgress notes whether a pass succeeded. If all have failed for too long, it lets another node lead.
func (l *Leader) noteProgress(ctx context.Context, ok bool) error {
	if !l.progress.note(ok) {
		return nil
	}
	l.log.Error("leader makes no progress; it lets another node lead", "since", maxFailing)
	return l.resign(ctx)
}
