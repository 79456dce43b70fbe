package leader

import (
	"context"
	"fmt"
	"time"
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
		if err := l.noteLeading(ctx); err != nil {
			return false, err
		}
	}
	return true, nil
}

// begins makes the leader forget what it knew when it led before. It begins again with large steps.
func (l *Leader) begins() {
	l.DeadNodes.forget()
	l.jobs.Forget()
	l.deep.forget()
	l.Marks = LowWaterMarks{}
	l.maxEnded = maxReclaimed
}

const leadsSQL = `UPDATE tasktable.nodes SET elected_at = clock_timestamp() WHERE number = $1`

// noteLeading writes that this node leads, for the next leader and for audits.
func (l *Leader) noteLeading(ctx context.Context) error {
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
