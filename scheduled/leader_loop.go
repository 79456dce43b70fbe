package scheduled

import (
	"context"
	"fmt"
	"time"
)

const (
	// wakeAgain is how long after a notification the leader looks a second time. A scheduler leaves out its own
	// notification if another was sent just before, so its commit may come a little after the first look.
	wakeAgain = 20 * time.Millisecond
	// minFullPause and maxFullPause bound the pause between two looks while tasks are due and there is no room. The
	// first pause is minFullPause. Each further pause is twice as long, up to maxFullPause, until the leader finds
	// room. The leader also looks when tasks of its own node end. It does not hear when tasks of other nodes end.
	// Therefore maxFullPause is how long a slot of another node may stay empty.
	minFullPause = 20 * time.Millisecond
	maxFullPause = 250 * time.Millisecond
)

// lead owns the session's connection. It makes a tick each second, and on the leader a pass whenever tasks may
// be due. It returns when ctx is done or the session is lost, with the reason.
func (l *instance) lead(ctx context.Context, stopLeading <-chan struct{}) error {
	tick := time.NewTicker(tickEvery)
	defer tick.Stop()
	poll := time.NewTicker(l.config.PollInterval)
	defer poll.Stop()
	due := time.NewTimer(0) // the first tick is at once
	defer due.Stop()
	again := time.NewTimer(time.Hour)
	defer again.Stop()
	death := time.NewTimer(time.Hour)
	defer death.Stop()
	full, stopping, first := time.Duration(0), false, true
	for {
		var err error
		pass, waited := false, time.Duration(0)
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-stopLeading:
			stopLeading, stopping = nil, true
			err = l.session.resign(ctx)
		case <-l.quiet.changed:
			pass, err = l.tick(ctx, stopping, due, death)
		case <-l.deep: // from now on a new leader may take back the tasks of dead nodes
			pass, err = l.tick(ctx, stopping, due, death)
		case <-tick.C:
			pass, err = l.tick(ctx, stopping, due, death)
		case <-death.C:
			pass, err = l.tick(ctx, stopping, due, death)
		case <-due.C:
			pass, waited = true, full
			if first {
				first = false
				pass, err = l.tick(ctx, stopping, due, death)
			}
		case <-poll.C:
			pass = true
		case <-l.wake:
			pass = true
			again.Reset(wakeAgain)
		case <-again.C:
			pass = true
		case <-l.freed:
			pass = full > 0
		}
		l.health.turns()
		// A node that stops makes no pass, even if it could not resign.
		pass = pass && !stopping
		if lost := l.lost(ctx, err); lost != nil {
			return lost
		}
		// A pass follows an error, too, because claims that cannot be taken back must not hold up due tasks.
		if pass && l.session.leads {
			full, err = l.claimDue(ctx, due, waited)
			if lost := l.lost(ctx, err); lost != nil {
				return lost
			}
			if l.progress.none() {
				l.log.Error("leader makes no progress; it lets another node lead", "since", maxFailing)
				if lost := l.lost(ctx, l.session.resign(ctx)); lost != nil {
					return lost
				}
			}
		}
	}
}

// tick pings, and on the leader looks at nodes, River's jobs and lanes. It reports whether a pass is due now. If a
// pass is due later, it sets the timer due. It sets the timer death for the time when a silent node counts as dead,
// because that need not wait for the next tick.
func (l *instance) tick(ctx context.Context, stopping bool, due, death *time.Timer) (pass bool, err error) {
	on := l.quiet.on()
	if on != l.session.quiet && !stopping {
		if err := l.heed(ctx, on); err != nil {
			return false, err
		}
	}
	if stopping || on || l.progress.rests() && !l.session.leads {
		return false, l.session.ping(ctx)
	}
	if !l.session.leads {
		if err := l.session.follow(ctx); err != nil || !l.session.leads {
			return false, err
		}
		l.log.Info("node leads")
		l.leader.begins()
		if err := l.leader.noteLeading(ctx); err != nil {
			return false, err
		}
	}
	found, err := l.leader.tick(ctx)
	l.metrics.looked(lookTick, err != nil)
	if found.Tick > 0 && found.Tick < tickEvery {
		death.Reset(found.Tick)
	}
	if found.Next > 0 {
		due.Reset(found.Next)
	}
	return found.Next == 0, err
}

// lost returns the error if the session is over. Otherwise it only logs the error.
func (l *instance) lost(ctx context.Context, err error) error {
	if err == nil {
		return nil
	}
	if l.session.conn.IsClosed() || ctx.Err() != nil {
		return fmt.Errorf("session: %w", err)
	}
	l.log.Error("leader's look failed", "error", err)
	return nil
}

// claimDue makes one pass and sets the timer for the next. full is the time that it will wait if due tasks are
// left because there is no room, otherwise 0. waited is the time that it waited for room before this pass.
func (l *instance) claimDue(
	ctx context.Context, due *time.Timer, waited time.Duration,
) (full time.Duration, err error) {
	began := time.Now()
	found, err := l.leader.pass(ctx)
	l.metrics.passed(time.Since(began), err != nil || found.Stuck)
	l.progress.note(err == nil && !found.Stuck)
	if err != nil {
		return 0, err
	}
	if found.Full {
		full = minFullPause
		if found.Claimed == 0 {
			full = min(max(2*waited, minFullPause), maxFullPause)
		}
	}
	switch {
	case found.Claimed+found.Expired+found.Forked > 0:
		due.Reset(0)
	case full > 0:
		due.Reset(full)
	case found.Next >= 0:
		due.Reset(found.Next)
	}
	return full, nil
}
