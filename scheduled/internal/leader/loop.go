package leader

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/tasktable/tasktable/scheduled/internal/metrics"
)

const (
	tickEvery = time.Second
	// wakeAgain is how long after a notification the leader looks a second time. An application
	// that schedules a task sends no notification if another one was sent just before. So its commit may come a little
	// after the first look.
	wakeAgain = 20 * time.Millisecond
	// minFullPause and maxFullPause bound the pause between two looks while tasks are due and there is no room. The
	// first pause is minFullPause. Each further pause is twice as long, up to maxFullPause, until the leader finds
	// room. The leader also looks when tasks of its own node end. It does not hear when tasks of other nodes end.
	// Therefore maxFullPause is how long a slot of another node may stay empty.
	minFullPause = 20 * time.Millisecond
	maxFullPause = 250 * time.Millisecond
)

// Run is the loop of a node. It makes a turn each second. On the leader it also makes a pass whenever tasks may be due.
// It returns the reason when ctx is done or the session is lost.
func (l *Leader) Run(ctx context.Context, stopLeading <-chan struct{}) error {
	tick := time.NewTicker(tickEvery)
	defer tick.Stop()
	poll := time.NewTicker(l.config.PollInterval)
	defer poll.Stop()
	due := time.NewTimer(time.Hour)
	defer due.Stop()
	again := time.NewTimer(time.Hour)
	defer again.Stop()
	death := time.NewTimer(0) // the first turn is at once
	defer death.Stop()
	defer l.endTerm(ctx)
	full, stopping := time.Duration(0), false
	for {
		var err error
		pass, waited := false, time.Duration(0)
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-stopLeading:
			stopLeading, stopping = nil, true
			err = l.leaveNothing(ctx)
			close(l.ceased)
			err = errors.Join(err, l.resign(ctx))
		case <-l.config.Quiet.Changed:
			pass, err = l.turn(ctx, stopping, due, death)
		case <-tick.C:
			pass, err = l.turn(ctx, stopping, due, death)
		case <-death.C:
			pass, err = l.turn(ctx, stopping, due, death)
		case <-due.C:
			pass, waited = true, full
		case <-poll.C:
			pass = true
		case <-l.config.Wakes:
			pass = true
			again.Reset(wakeAgain)
		case <-again.C:
			pass = true
		case <-l.config.Frees:
			pass = full > 0
		}
		l.config.Turned()
		// A node that stops makes no pass, even if it could not resign.
		pass = pass && !stopping
		if lost := l.over(ctx, err); lost != nil {
			return lost
		}
		// A pass follows an error, too, because claims that cannot be taken back must not hold up due tasks.
		if pass && l.leads() {
			full, err = l.claimDue(ctx, due, waited)
			if lost := l.over(ctx, err); lost != nil {
				return lost
			}
		}
	}
}

// turn writes a change of the quiet switch to the node's row. On a node that does not lead, it tries for the leader's
// lock (elect). On the leader it makes a tick. It reports whether a pass is due now. If a
// pass is due later, it sets the timer due. It sets the timer death for the time when a silent node counts as dead,
// because that need not wait for the next tick.
func (l *Leader) turn(ctx context.Context, stopping bool, due, death *time.Timer) (pass bool, err error) {
	on := l.config.Quiet.On()
	if on != l.session.Quiet && !stopping {
		if err := l.heed(ctx, on); err != nil {
			return false, err
		}
	}
	leads, err := l.elect(ctx, !stopping && !on && !l.config.NeverLeads)
	if err != nil || !leads {
		return false, err
	}
	found, err := l.tick(ctx)
	l.metrics.Looked(metrics.Tick, err != nil)
	if found.tick > 0 && found.tick < tickEvery {
		death.Reset(found.tick)
	}
	if found.next > 0 {
		due.Reset(found.next)
	}
	return found.next == 0, err
}

// over returns the error if the session is over. Otherwise it only logs the error.
func (l *Leader) over(ctx context.Context, err error) error {
	if err == nil {
		return nil
	}
	if l.session.Closed() || ctx.Err() != nil {
		return fmt.Errorf("session: %w", err)
	}
	l.log.Error("leader's look failed", "error", err)
	return nil
}

// claimDue makes one pass and sets the timer for the next. full is the pause before the next pass if due tasks are left
// because there is no room, otherwise 0. waited is the pause before this pass.
func (l *Leader) claimDue(
	ctx context.Context, due *time.Timer, waited time.Duration,
) (full time.Duration, err error) {
	began := time.Now()
	found, err := l.pass(ctx)
	l.metrics.PassTook.Observe(time.Since(began).Seconds())
	l.metrics.Looked(metrics.Pass, err != nil || found.stuck)
	if err = errors.Join(err, l.noteProgress(ctx, err == nil && !found.stuck)); err != nil {
		return 0, err
	}
	if found.full {
		full = minFullPause
		if found.claimed == 0 {
			full = min(max(2*waited, minFullPause), maxFullPause)
		}
	}
	switch {
	case found.claimed+found.expired+found.forked > 0:
		due.Reset(0)
	case full > 0 && found.next >= 0:
		due.Reset(min(full, found.next))
	case full > 0:
		due.Reset(full)
	case found.next >= 0:
		due.Reset(found.next)
	}
	return full, nil
}
