package leader

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/tasktable/tasktable/scheduled/internal/pg"
)

// elect keeps the session alive, and reports whether this node leads and may make a tick. A node that leads goes on. A
// node that does not lead tries for the leader's lock, unless it lets another node lead because its own passes failed.
// If it gets the lock, it begins to lead. mayLead is false while the node stops or is quiet. The node then only pings,
// even if it could not resign and still has the lock.
//
// The lock is in session/heartbeat.go: Follow tries for it, and Resign gives it up.
func (l *Leader) elect(ctx context.Context, mayLead bool) (leads bool, err error) {
	if !mayLead || l.progress.rests() && !l.session.Leads {
		return false, l.session.Ping(ctx)
	}
	if !l.session.Leads {
		if err := l.session.Follow(ctx); err != nil || !l.session.Leads {
			return false, err
		}
		l.log.Info("node leads")
		l.begins()
	}
	if !l.noted {
		if err := l.noteLeading(ctx); err != nil {
			// The next turn tries again, and until then the node claims nothing. The ping keeps the session alive, and
			// ends it if the server has become read-only.
			return false, errors.Join(err, l.session.Ping(ctx))
		}
		l.noted = true
	}
	return true, nil
}

// begins makes the leader forget what it knew when it led before. It begins again with large steps.
func (l *Leader) begins() {
	l.DeadNodes.forget()
	l.jobs.Forget()
	l.walk = l.newWalk()
	l.Lanes, l.unwritten = newLanes(), false
	l.ends.Reset()
	l.noted = false
}

const leadsSQL = `UPDATE tasktable.nodes SET elected_at = clock_timestamp() WHERE number = $1`

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

// noteLeading writes that this node leads, for the next leader and for audits. After a failover it moves the sequences
// of revisions and fences, and of River's jobs.
func (l *Leader) noteLeading(ctx context.Context) error {
	var moved int64
	err := l.session.Conn.QueryRow(ctx, l.statements.Schema.SQL(moveNumbersSQL), l.session.Number).Scan(&moved)
	switch {
	case err != nil && (!pg.SessionAnswered(err) || pg.IsTimeout(err)):
		return fmt.Errorf("note the timeline: %w", err)
	case err != nil: // a missing right, or a service that hides its timeline
		l.log.Warn("leader cannot see whether there was a failover; after an asynchronous one, see UPGRADING.md",
			"error", err)
	case moved > 0:
		l.log.Warn("the database has failed over; revisions, fences and River jobs have higher numbers now",
			"least", moved)
	}
	if err := l.takeOver(ctx); err != nil {
		return err
	}
	if _, err := l.session.Conn.Exec(ctx, l.statements.Schema.SQL(leadsSQL), l.session.Number); err != nil {
		return fmt.Errorf("note who leads: %w", err)
	}
	return nil
}

const (
	// MaxFailing is how long all passes of a leader may fail before it lets another node lead. The cause may be with
	// this node alone. An example is a connection that carries pings but nothing larger.
	MaxFailing = 10 * time.Second
	// RestFor is how long it then does not try to lead. If no other node leads by then, it leads again.
	RestFor = 5 * time.Second
)

// progress records whether a leader's passes succeed.
type progress struct {
	failingSince time.Time // zero: the last one succeeded
	restsUntil   time.Time
}

// note records whether a pass succeeded.
func (p *progress) note(ok bool) {
	switch {
	case ok:
		p.failingSince = time.Time{}
	case p.failingSince.IsZero():
		p.failingSince = time.Now()
	}
}

// none reports whether all passes have failed for too long. It returns true once, and then the leader rests.
func (p *progress) none() bool {
	if p.failingSince.IsZero() || time.Since(p.failingSince) < MaxFailing {
		return false
	}
	p.failingSince, p.restsUntil = time.Time{}, time.Now().Add(RestFor)
	return true
}

// rests reports whether this node must let another node lead.
func (p *progress) rests() bool { return time.Now().Before(p.restsUntil) }
