package leader

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tasktable/tasktable/scheduled/internal/failures"
	"github.com/tasktable/tasktable/scheduled/internal/pg"
	"github.com/tasktable/tasktable/scheduled/internal/sanitize"
	"github.com/tasktable/tasktable/scheduled/internal/taskdb"
	"github.com/tasktable/tasktable/store"
)

const lockNodeSQL = `SELECT pg_try_advisory_xact_lock($1, $2)`

// reclaimAll takes back the tasks of a node. After a timeout the steps are small, and each step that succeeds doubles
// the size of the next. The leader makes several small steps at once if they are quick, because a tick for each would
// take seconds.
func (l *Leader) reclaimAll(ctx context.Context, number int64) (done bool, err error) {
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
func (l *Leader) reclaimNode(ctx context.Context, number int64) (done bool, err error) {
	err = l.endingStep(ctx, func(tx pgx.Tx) error {
		// The node cannot be alive if this transaction gets the node's lock. A node never takes a number a second
		// time.
		var free bool
		row := tx.QueryRow(ctx, lockNodeSQL, pg.LockClass(l.session.Schema, "node"), int32(number))
		if err := row.Scan(&free); err != nil {
			return fmt.Errorf("lock dead node %d: %w", number, err)
		}
		if !free {
			return nil
		}
		l.endHandlers(ctx, tx, number)
		client, why := taskdb.ClientID(number), fmt.Sprintf("node %d died", number)
		ending := func(h taskdb.Claim) taskdb.Settlement { return taskdb.Lost(h, why) }
		left, err := l.endJobs(ctx, tx, &number, client, l.jobs.Of(client), ending)
		if err != nil || left {
			return err
		}
		done = true
		if _, err := tx.Exec(ctx, l.statements.Schema.SQL(taskdb.FarewellSQL), number); err != nil {
			return fmt.Errorf("mark node %d dead: %w", number, err)
		}
		return nil
	})
	return done, err
}

// end settles claims for their holders, and returns the fences of the claims whose rows others have locked. A claim
// that cannot be settled does not stop the others. end finds it by halving, and fails its task. If even that cannot
// be done, the task stays as it is.
func (l *Leader) end(
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
					l.lost = append(l.lost, failures.Of(one, state))
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

// settleEach settles all claims that can be settled, and fails the tasks of the others.
func (l *Leader) settleEach(
	ctx context.Context, tx pgx.Tx, node *int64, settlements []taskdb.Settlement,
) (done []taskdb.SettleResult, err error) {
	err = pg.Bisect(settlements, func(some []taskdb.Settlement) error {
		sent := time.Now()
		var ended []taskdb.SettleResult
		err := pgx.BeginFunc(ctx, tx, func(savepoint pgx.Tx) (err error) {
			ended, err = l.statements.Settle(ctx, savepoint, nil, node, some)
			return err
		})
		l.session.Heard(sent, err)
		if err == nil {
			done = append(done, ended...)
		}
		return err
	}, func(one taskdb.Settlement, err error) error { return l.failHeld(ctx, tx, one, err) })
	if pg.IsTimeout(err) && len(settlements) == 1 {
		slow := settlements[0]
		l.Quarantined[slow.ID] = time.Now().Add(quarantineTime)
		l.log.Warn("claim takes too long to end, or waits for a lock; the leader leaves it alone for a while",
			"task", slow.ID, "revision", slow.Revision, "attempt", slow.Attempt,
			"error", err, "until", l.Quarantined[slow.ID])
	}
	return done, err
}

// failHeld fails a task whose claim cannot be settled. If even that cannot be done, the task stays as it is.
func (l *Leader) failHeld(ctx context.Context, tx pgx.Tx, one taskdb.Settlement, cause error) error {
	log := l.log.With("task", one.ID, "revision", one.Revision, "attempt", one.Attempt)
	log.Error("claim cannot be taken back; the task fails", "error", cause)
	why := sanitize.Text("the claim cannot be taken back: " + cause.Error())
	err := pgx.BeginFunc(ctx, tx, func(savepoint pgx.Tx) error {
		_, err := savepoint.Exec(ctx, l.statements.Schema.SQL(taskdb.ReleaseBrokenSQL), one.ID, one.Fence, why)
		return err
	})
	if pg.IsDataError(err) { // a rule or a trigger of the application allows nobody to change the row
		log.Error("task cannot be failed either; it stays as it is", "error", err)
		return nil
	}
	if err != nil {
		return fmt.Errorf("fail task %s: %w", one.ID, err)
	}
	return nil
}

// A role may end the backends of a role whose rights it has. For other backends Postgres would report an error, so
// these are left out. A backend that runs a statement is not ended, because it may be about to commit, and then the
// attempt has completed.
const endHandlersSQL = `
SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity
WHERE datname = current_database() AND application_name = $1 AND pg_has_role(usesysid, 'USAGE')
    AND state IN ('idle in transaction', 'idle in transaction (aborted)')`

// endHandlers ends the transactions of a dead node's handlers. A process that is frozen, or cut off from the network,
// neither commits them nor rolls them back, and the next attempts would wait for their locks. If the leader has no
// right to end them, they last until the process goes on.
func (l *Leader) endHandlers(ctx context.Context, tx pgx.Tx, node int64) {
	var ended int
	err := pgx.BeginFunc(ctx, tx, func(savepoint pgx.Tx) error {
		return savepoint.QueryRow(ctx, endHandlersSQL, taskdb.HandlerName(l.session.Schema, node)).Scan(&ended)
	})
	switch {
	case err != nil:
		l.log.Warn("the transactions of a dead node's handlers cannot be ended; they keep their locks",
			"dead", node, "error", err)
	case ended > 0:
		l.log.Warn("the transactions of a dead node's handlers were ended", "dead", node, "transactions", ended)
	}
}
