package leader

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tasktable/tasktable/scheduled/internal/failures"
	"github.com/tasktable/tasktable/scheduled/internal/pg"
	"github.com/tasktable/tasktable/scheduled/internal/sanitize"
	"github.com/tasktable/tasktable/scheduled/internal/taskdb"
	"github.com/tasktable/tasktable/store"
)

// errUndone rolls back a claim that the leader made only to see whether it can be made.
var errUndone = errors.New("the claim is undone")

// FailBroken finds the lanes whose first task cannot be claimed, and gives these tasks up. It returns how many. It
// claims the most urgent first task that can be claimed, so that passes get on even if each claim takes too long. It
// only tries the first tasks of the other lanes, and rolls their claims back. Otherwise these tasks would overtake the
// second task of the most urgent lane.
func (l *Leader) FailBroken(ctx context.Context, lanes ClaimPlan) (failed int, err error) {
	claimedOne := false
	for _, one := range lanes.Due {
		one.Room, one.Cost, one.Near, one.Ahead = 1, 1, min(one.Near, 1), max(one.Ahead, 1)
		var taken []taskdb.ClaimedTask
		_, gaveUp, err := l.isolate(ctx, one.Lane, l.quarantinedIDs(), func(tx pgx.Tx, _ taskdb.LaneHead) (err error) {
			if taken, err = l.claimAndInsert(ctx, tx, []taskdb.LaneQuota{one}, 1); err == nil && claimedOne {
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
			l.recordClaimed(ctx, taken)
			claimedOne = claimedOne || len(taken) > 0
		}
	}
	return failed, nil
}

// isolate calls do for the first due task of a lane that is not in the list aside, in a transaction of its own. If do
// fails because of the task's data or an application's trigger, isolate fails the task. If do takes too long, or if the
// task cannot even be failed, isolate leaves the task alone for a while. gaveUp is true in all these cases.
func (l *Leader) isolate(
	ctx context.Context, one taskdb.Lane, aside []string, do func(tx pgx.Tx, task taskdb.LaneHead) error,
) (found *taskdb.LaneHead, gaveUp bool, err error) {
	var broken error
	err = l.Transaction(ctx, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, taskdb.EnterSQL); err != nil {
			return fmt.Errorf("enter the engine's context: %w", err)
		}
		found, err = l.statements.LockHead(ctx, tx, one, l.config.LookAhead, aside...)
		if err != nil || found == nil {
			return err
		}
		broken = pg.Twice(func() error {
			return pgx.BeginFunc(ctx, tx, func(savepoint pgx.Tx) error { return do(savepoint, *found) })
		})
		if !pg.IsDataError(broken) {
			return broken
		}
		return l.statements.FailHead(ctx, tx, *found, whyBroken(broken))
	})
	switch {
	case broken == nil:
		return found, false, err
	case pg.IsTimeout(broken):
		l.Quarantined[found.ID] = time.Now().Add(quarantineTime)
		if pg.IsLocked(broken) {
			l.Quarantined[found.ID] = time.Now().Add(quarantineTimeLocked)
		}
		l.log.Warn("task takes too long to claim, or waits for a lock; the leader leaves it alone for a while",
			"task", found.ID, "type", one.Type, "revision", found.Revision,
			"error", broken, "until", l.Quarantined[found.ID])
	case pg.IsDataError(broken) && pg.IsDataError(err):
		// A rule or a trigger of the application allows nobody to change the row.
		l.Quarantined[found.ID] = time.Now().Add(quarantineTime)
		l.log.Error("task can neither be claimed nor failed; the leader leaves it alone for a while",
			"task", found.ID, "type", one.Type, "revision", found.Revision,
			"error", broken, "and", err, "until", l.Quarantined[found.ID])
	case err != nil:
		return found, false, err
	default:
		why := whyBroken(broken)
		l.metrics.Of(one.Type).Recorded(taskdb.OutcomeFailed)
		l.notifyFailures(ctx, failures.Failure{
			ID:       found.ID,
			Type:     one.Type,
			Outcome:  taskdb.OutcomeFailed,
			Status:   string(store.StatusFailed),
			Revision: found.Revision,
			Error:    why,
		})
		l.log.Error("task cannot be claimed; it fails",
			"task", found.ID, "type", one.Type, "revision", found.Revision, "error", why)
	}
	return found, true, nil
}

func whyBroken(err error) string {
	return sanitize.Text("the task cannot be claimed: " + err.Error())
}

const (
	// quarantineTime is how long the leader leaves a task alone that it can neither claim nor fail.
	quarantineTime = time.Minute
	// quarantineTimeLocked is the same for a task that somebody has locked. It is shorter because locks end soon, and
	// a new try costs the other tasks only a fraction of a second.
	quarantineTimeLocked = 5 * time.Second
)

// quarantinedIDs lists the tasks that the leader leaves alone for now.
func (l *Leader) quarantinedIDs() []string {
	maps.DeleteFunc(l.Quarantined, func(_ string, until time.Time) bool { return time.Now().After(until) })
	return slices.Collect(maps.Keys(l.Quarantined))
}
