package leader

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tasktable/tasktable/scheduled/internal/failures"
	"github.com/tasktable/tasktable/scheduled/internal/pg"
	"github.com/tasktable/tasktable/scheduled/internal/plan"
	"github.com/tasktable/tasktable/scheduled/internal/sanitize"
	"github.com/tasktable/tasktable/scheduled/internal/taskdb"
	"github.com/tasktable/tasktable/store"
)

// claimApart claims the first task of a lane by itself. A plan has granted some of the lane. If it cannot be claimed,
// claimApart gives it up.
func (l *Leader) claimApart(
	ctx context.Context, by *plan.Plan, one taskdb.Grant,
) (gaveUp bool, err error) {
	var head *taskdb.LaneHead
	var taken []taskdb.ClaimedLane
	one.Tasks = 1
	err = l.transaction(ctx, func(tx pgx.Tx) (err error) {
		if _, err := tx.Exec(ctx, taskdb.EnterSQL); err != nil {
			return fmt.Errorf("enter the engine's context: %w", err)
		}
		aside := l.quarantinedIDs()
		head, err = l.statements.LockHead(ctx, tx, one.Lane, l.config.LookAhead, aside...)
		if err != nil || head == nil {
			return err
		}
		return pg.Twice(func() error {
			return pgx.BeginFunc(ctx, tx, func(tx pgx.Tx) (err error) {
				taken, err = l.statements.Claim(
					ctx, tx, nil, l.config.LookAhead, l.config.StartAllowance, []taskdb.Grant{one}, aside...)
				if err != nil {
					return err
				}
				if err := l.spend(ctx, tx, by.Tokens(taken)); err != nil {
					return err
				}
				return l.insert(ctx, tx, l.jobsOf(taken))
			})
		})
	})
	switch {
	case err == nil:
		l.recordClaimed(ctx, taken)
		return false, nil
	case head == nil || !pg.IsDataError(err) && !pg.IsTimeout(err):
		return false, err
	}
	return true, l.giveUp(ctx, *head, err)
}

// giveUp fails a task that cannot be claimed or fired because of its data or an application's trigger. If that takes
// too long, or if the task cannot even be failed, giveUp leaves the task alone for a while.
func (l *Leader) giveUp(ctx context.Context, one taskdb.LaneHead, broken error) error {
	why := sanitize.Text("the task cannot be claimed: " + broken.Error())
	cause := broken
	if !pg.IsTimeout(broken) {
		cause = l.transaction(ctx, func(tx pgx.Tx) error {
			if _, err := tx.Exec(ctx, taskdb.EnterSQL); err != nil {
				return fmt.Errorf("enter the engine's context: %w", err)
			}
			return l.statements.FailHead(ctx, tx, one, why)
		})
	}
	log := l.log.With("task", one.ID, "type", one.Type, "revision", one.Revision, "error", broken)
	switch {
	case cause == nil:
		l.metrics.Of(one.Type).Recorded(taskdb.OutcomeFailed)
		l.tellFailed(ctx, one, why)
		log.Error("task cannot be claimed; it fails")
		return nil
	case !pg.IsTimeout(cause) && !pg.IsDataError(cause):
		return cause
	}
	until := time.Now().Add(quarantineTime)
	if pg.IsLocked(cause) {
		until = time.Now().Add(quarantineTimeLocked)
	}
	l.quarantined[one.ID] = until
	if pg.IsTimeout(broken) {
		log.Warn("task takes too long to claim, or waits for a lock; the leader leaves it alone for a while",
			"until", until)
	} else { // a rule or a trigger of the application allows nobody to change the row
		log.Error("task can neither be claimed nor failed; the leader leaves it alone for a while",
			"and", cause, "until", until)
	}
	return nil
}

// tellFailed tells the hooks of a task that the leader has failed.
func (l *Leader) tellFailed(ctx context.Context, one taskdb.LaneHead, why string) {
	l.notifyFailures(ctx, failures.Failure{
		ID: one.ID, Type: one.Type, Outcome: taskdb.OutcomeFailed, Status: string(store.StatusFailed),
		Revision: one.Revision, Error: why,
	})
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
	maps.DeleteFunc(l.quarantined, func(_ string, until time.Time) bool { return time.Now().After(until) })
	return slices.Collect(maps.Keys(l.quarantined))
}
