package scheduled

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tasktable/tasktable/scheduled/internal/taskdb"
	"github.com/tasktable/tasktable/store"
)

const lockNodeSQL = `SELECT pg_try_advisory_xact_lock($1, $2)`

// reclaimAll takes back the tasks of a node. After a timeout the steps are small, and each step that succeeds doubles
// the size of the next. The leader makes several small steps at once if they are quick, because a tick for each would
// take seconds.
func (l *leader) reclaimAll(ctx context.Context, number int64) (done bool, err error) {
	for began := time.Now(); ; {
		small := l.maxEnded < maxReclaimed
		done, err = l.reclaimNode(ctx, number)
		if done || err != nil || !small || time.Since(began) > tickEvery/2 {
			return done, err
		}
	}
}

// reclaimNode takes back the tasks that a dead node held according to River. It reports whether it has taken back all
// of them. If an application has locked a row, that row and its job are left for the next tick.
func (l *leader) reclaimNode(ctx context.Context, number int64) (done bool, err error) {
	err = l.endingStep(ctx, func(tx pgx.Tx) error {
		// The node cannot be alive if this transaction gets the node's lock. A node never takes a number a second
		// time.
		var free bool
		row := tx.QueryRow(ctx, lockNodeSQL, taskdb.LockClass(l.session.schema, "node"), int32(number))
		if err := row.Scan(&free); err != nil {
			return fmt.Errorf("lock dead node %d: %w", number, err)
		}
		if !free {
			return nil
		}
		l.endHandlers(ctx, tx, number)
		client, why := taskdb.ClientID(number), fmt.Sprintf("node %d died", number)
		ending := func(h taskdb.Claim) taskdb.Settlement { return taskdb.Lost(h, why) }
		left, err := l.endJobs(ctx, tx, &number, client, l.jobs.of(client), ending)
		if err != nil || left {
			return err
		}
		done = true
		if _, err := tx.Exec(ctx, l.statements.Schema.SQL(farewellSQL), number); err != nil {
			return fmt.Errorf("mark node %d dead: %w", number, err)
		}
		return nil
	})
	return done, err
}

// end settles claims for their holders, and returns the fences of the claims whose rows others have locked. A claim
// that cannot be settled does not stop the others. end finds it by halving, and fails its task. If even that cannot
// be done, the task stays as it is.
func (l *leader) end(
	ctx context.Context, tx pgx.Tx, node *int64, settlements []taskdb.Settlement,
) (held []int64, err error) {
	for chunk := range slices.Chunk(settlements, maxReclaimed) {
		done, err := l.settleEach(ctx, tx, node, chunk)
		if err != nil {
			return nil, err
		}
		taken := taskdb.ByFence(done)
		for _, one := range chunk {
			if state := taken[one.Fence]; state.Settled {
				l.reclaimed = true
				l.lines = append(l.lines, typedOutcome{state.Type, one.Recorded(state)})
				if one.Outcome == taskdb.OutcomeLost {
					l.lost = append(l.lost, deadOf(one, state))
				}
				level := slog.LevelWarn
				switch {
				case one.Outcome == taskdb.OutcomeReleased: // many claims may be released at once, and it does no harm
					level = slog.LevelDebug
				case state.Status == string(store.StatusFailed): // it was the last attempt
					level = slog.LevelError
				}
				l.log.Log(context.Background(), level, "claim taken back", "task", one.ID, "type", state.Type,
					"revision", one.Revision, "attempt", one.Attempt,
					"outcome", one.Outcome, "status", state.Status, "why", *one.Error)
			} else if state.Held {
				held = append(held, one.Fence)
			}
		}
	}
	return held, nil
}

const releaseBrokenSQL = `
UPDATE tasktable.scheduled_tasks
SET status = 'FAILED', fence = NULL, lease_expires_at = NULL, next_attempt_at = NULL, message = $3::text,
    finished_at = clock_timestamp(),
    last_status_update = clock_timestamp()
WHERE id = $1::text AND fence = $2`

// settleEach settles all claims that can be settled, and fails the tasks of the others.
func (l *leader) settleEach(
	ctx context.Context, tx pgx.Tx, node *int64, settlements []taskdb.Settlement,
) (done []taskdb.SettleResult, err error) {
	err = taskdb.Bisect(settlements, func(some []taskdb.Settlement) error {
		sent := time.Now()
		var ended []taskdb.SettleResult
		err := pgx.BeginFunc(ctx, tx, func(savepoint pgx.Tx) (err error) {
			ended, err = l.statements.Settle(ctx, savepoint, nil, node, some)
			return err
		})
		l.session.heard(sent, err)
		if err == nil {
			done = append(done, ended...)
		}
		return err
	}, func(one taskdb.Settlement, err error) error { return l.failHeld(ctx, tx, one, err) })
	if taskdb.IsTimeout(err) && len(settlements) == 1 {
		slow := settlements[0]
		l.quarantined[slow.ID] = time.Now().Add(quarantineTime)
		l.log.Warn("claim takes too long to end, or waits for a lock; the leader leaves it alone for a while",
			"task", slow.ID, "revision", slow.Revision, "attempt", slow.Attempt,
			"error", err, "until", l.quarantined[slow.ID])
	}
	return done, err
}

// failHeld fails a task whose claim cannot be settled. If even that cannot be done, the task stays as it is.
func (l *leader) failHeld(ctx context.Context, tx pgx.Tx, one taskdb.Settlement, cause error) error {
	log := l.log.With("task", one.ID, "revision", one.Revision, "attempt", one.Attempt)
	log.Error("claim cannot be taken back; the task fails", "error", cause)
	why := taskdb.Sanitize("the claim cannot be taken back: " + cause.Error())
	err := pgx.BeginFunc(ctx, tx, func(savepoint pgx.Tx) error {
		_, err := savepoint.Exec(ctx, l.statements.Schema.SQL(releaseBrokenSQL), one.ID, one.Fence, why)
		return err
	})
	if taskdb.IsDataError(err) { // a rule or a trigger of the application allows nobody to change the row
		log.Error("task cannot be failed either; it stays as it is", "error", err)
		return nil
	}
	if err != nil {
		return fmt.Errorf("fail task %s: %w", one.ID, err)
	}
	return nil
}
