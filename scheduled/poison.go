package scheduled

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tasktable/tasktable/store"
)

// errUndone undoes a claim that was made only to see whether it can be made.
var errUndone = errors.New("the claim is undone")

// failBroken finds the lanes whose head cannot be claimed, and gives those tasks up. It returns how many. It claims the
// most urgent head that can be claimed, so that passes get on where each takes too long. It undoes the claims of the
// others, because they would go before the tasks that come after the most urgent one.
func (l *leader) failBroken(ctx context.Context, lanes surveyed) (failed int, err error) {
	claimedOne := false
	for _, one := range lanes.due {
		one.Room, one.Cost, one.Near, one.Ahead = 1, 1, min(one.Near, 1), max(one.Ahead, 1)
		one.Head = time.Time{} // the very first, as lockHead has it
		var taken []claimed
		_, gaveUp, err := l.apart(ctx, one.lane, l.setAside(), func(tx pgx.Tx, _ head) (err error) {
			if taken, err = l.take(ctx, tx, []laneBudget{one}, 1); err == nil && claimedOne {
				err = errUndone
			}
			return err
		})
		switch {
		case errors.Is(err, errUndone):
		case err != nil:
			return failed, err
		case gaveUp:
			failed++
		default:
			l.took(ctx, taken)
			claimedOne = claimedOne || len(taken) > 0
		}
	}
	return failed, nil
}

// forkEach fires the recurring tasks that are due one by one, and gives up those that cannot. It returns how many it dealt with.
func (l *leader) forkEach(ctx context.Context, lanes surveyed) (done int, err error) {
	tried := l.setAside()
	for _, one := range lanes.fires {
		for range forkMost {
			var fired forked
			found, gaveUp, err := l.apart(ctx, one, tried, func(tx pgx.Tx, task head) (err error) {
				fired, err = l.statements.forkThose(ctx, heardTx{tx, l.session}, nil, []lane{one}, 1, nil, &task.ID)
				return err
			})
			if err != nil {
				return done, err
			}
			if found == nil {
				break
			}
			if tried = append(tried, found.ID); gaveUp {
				done++
				continue
			}
			done += fired.looked
			l.reportFailed(ctx, fired)
		}
	}
	return done, nil
}

// reportFailed tells of recurring tasks that have failed.
func (l *leader) reportFailed(ctx context.Context, fired forked) {
	for _, dead := range fired.failed {
		l.bury(ctx, dead)
		l.log.Error("recurring task cannot be planned and is failed", "task", dead.ID, "type", dead.Type, "revision", dead.Revision, "error", dead.Error)
	}
}

// apart does something with the first task of a lane that is due and not in the list, in a transaction of its own. If that cannot be
// done, it gives the task up: for good if its data, or a trigger of the application's, does not allow it, for a while if it takes too
// long.
func (l *leader) apart(ctx context.Context, one lane, aside []string, do func(tx pgx.Tx, task head) error) (found *head, gaveUp bool, err error) {
	var broken error
	err = l.transaction(ctx, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, enterSQL); err != nil {
			return fmt.Errorf("enter the engine's context: %w", err)
		}
		found, err = l.statements.lockHead(ctx, tx, one, l.lookAhead(), aside...)
		if err != nil || found == nil {
			return err
		}
		broken = twice(func() error {
			return pgx.BeginFunc(ctx, tx, func(savepoint pgx.Tx) error { return do(savepoint, *found) })
		})
		if !isDataError(broken) {
			return broken
		}
		return l.statements.failHead(ctx, tx, *found, whyBroken(broken))
	})
	switch {
	case broken == nil:
		return found, false, err
	case isTimeout(broken):
		l.aside[found.ID] = time.Now().Add(asideFor)
		if isLocked(broken) {
			l.aside[found.ID] = time.Now().Add(asideLocked)
		}
		l.log.Warn("task takes too long to claim, or waits for somebody's lock; it is let be for a while", "task", found.ID, "type", one.Type,
			"revision", found.Revision, "error", broken, "until", l.aside[found.ID])
	case isDataError(broken) && isDataError(err):
		// A rule or a trigger of the application's lets nobody change the row.
		l.aside[found.ID] = time.Now().Add(asideFor)
		l.log.Error("task can neither be claimed nor failed; it is let be for a while", "task", found.ID, "type", one.Type, "revision", found.Revision,
			"error", broken, "and", err, "until", l.aside[found.ID])
	case err != nil:
		return found, false, err
	default:
		why := whyBroken(broken)
		l.metrics.of(one.Type).recorded(outcomeFailed)
		l.bury(ctx, Dead{ID: found.ID, Type: one.Type, Outcome: outcomeFailed, Status: string(store.StatusFailed), Revision: found.Revision, Error: why})
		l.log.Error("task cannot be claimed and is failed", "task", found.ID, "type", one.Type, "revision", found.Revision, "error", why)
	}
	return found, true, nil
}

func whyBroken(err error) string { return scrub("the task cannot be claimed: " + err.Error()) }

const (
	asideFor    = time.Minute
	asideLocked = 5 * time.Second // what waits for a lock costs others a fraction of a second each time, and locks pass
)

// setAside lists the tasks that are let be.
func (l *leader) setAside() []string {
	maps.DeleteFunc(l.aside, func(_ string, until time.Time) bool { return time.Now().After(until) })
	return slices.Collect(maps.Keys(l.aside))
}
