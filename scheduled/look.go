package scheduled

import (
	"context"
	"fmt"
	"time"
)

const (
	// After a wake the leader looks again so much later: for schedulers whose own notification was left out because this one
	// had just been sent, and for commits that came a little after it.
	wakeAgain = 20 * time.Millisecond
	// With due tasks and no room, the leader looks again so often, besides when this node's tasks end: the other nodes' ends
	// it does not hear.
	fullEvery = 20 * time.Millisecond
)

// keepSession owns the session's connection: a tick each second, and on the leader a pass whenever something may be due. It
// returns when ctx is done, or why the session is lost.
func (l *life) keepSession(ctx context.Context, stopLeading <-chan struct{}) error {
	tick := time.NewTicker(tickEvery)
	defer tick.Stop()
	poll := time.NewTicker(l.config.PollInterval)
	defer poll.Stop()
	due := time.NewTimer(0) // the first tick at once
	defer due.Stop()
	again := time.NewTimer(time.Hour)
	defer again.Stop()
	full, stopping, first := false, false, true
	for {
		var err error
		pass := false
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-stopLeading:
			stopLeading, stopping = nil, true
			err = l.session.resign(ctx)
		case <-tick.C:
			pass, err = l.tick(ctx, stopping, due)
		case <-due.C:
			pass = true
			if first {
				first = false
				pass, err = l.tick(ctx, stopping, due)
			}
		case <-poll.C:
			pass = true
		case <-l.wake:
			pass = true
			again.Reset(wakeAgain)
		case <-again.C:
			pass = true
		case <-l.freed:
			pass = full
		}
		if err == nil && pass && l.session.leads {
			full, err = l.lookAndClaim(ctx, due)
		}
		if err != nil {
			if l.session.conn.IsClosed() || ctx.Err() != nil {
				return fmt.Errorf("session: %w", err)
			}
			l.log.Error("leader's look failed", "error", err)
		}
	}
}

// tick pings, and on the leader looks at nodes, leases and lanes. It reports whether a pass is due now; else it sets the timer.
func (l *life) tick(ctx context.Context, stopping bool, due *time.Timer) (pass bool, err error) {
	if stopping {
		return false, l.session.ping(ctx)
	}
	if !l.session.leads {
		if err := l.session.follow(ctx); err != nil || !l.session.leads {
			return false, err
		}
		l.log.Info("node leads")
	}
	found, err := l.leader.tick(ctx)
	if err != nil || found.Next < 0 {
		return false, err
	}
	if found.Next == 0 {
		return true, nil
	}
	due.Reset(found.Next)
	return false, nil
}

// lookAndClaim makes one pass and sets the timer for the next. It reports whether due tasks are left for want of room.
func (l *life) lookAndClaim(ctx context.Context, due *time.Timer) (full bool, err error) {
	found, err := l.leader.pass(ctx)
	if err != nil {
		return false, err
	}
	switch {
	case found.Claimed+found.Expired > 0:
		due.Reset(0)
	case found.Full:
		due.Reset(fullEvery)
	case found.Next >= 0:
		due.Reset(found.Next)
	}
	return found.Full, nil
}
