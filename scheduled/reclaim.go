package scheduled

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tasktable/tasktable/store"
)

// clientPrefix and a node's number make its River client's id.
const clientPrefix = "tasktable-"

func clientID(number int64) string { return clientPrefix + strconv.FormatInt(number, 10) }

const lockNodeSQL = `SELECT pg_try_advisory_xact_lock($1, $2)`

const runningJobsSQL = `
SELECT id, coalesce(args ->> 'tasks', '') AS tasks FROM tasktable.river_job
WHERE id = ANY ($2::bigint[]) AND state = 'running' AND attempted_by[array_length(attempted_by, 1)] = $1::text
ORDER BY id LIMIT 500 FOR UPDATE SKIP LOCKED`

const deleteJobsSQL = `DELETE FROM tasktable.river_job WHERE id = ANY ($1::bigint[])`

type jobRow struct {
	ID    int64
	Tasks string
}

// reclaimNode takes back what River says the node was running. It reports whether that was all; rows that an application has
// locked are left for the next tick, with their job.
func (l *leader) reclaimNode(ctx context.Context, number int64) (done bool, err error) {
	err = l.transaction(ctx, func(tx pgx.Tx) error {
		// With the node's own lock in hand it cannot be alive; it never takes a number a second time.
		var free bool
		if err := tx.QueryRow(ctx, lockNodeSQL, lockClass(l.session.schema, "node"), int32(number)).Scan(&free); err != nil {
			return fmt.Errorf("lock dead node %d: %w", number, err)
		}
		if !free {
			return nil
		}
		l.endHandlers(ctx, tx, number)
		left, err := l.reclaimJobs(ctx, tx, number)
		if err != nil || left {
			return err
		}
		done = true
		if _, err := tx.Exec(ctx, l.statements.schema.SQL(farewellSQL), number); err != nil {
			return fmt.Errorf("mark node %d dead: %w", number, err)
		}
		return nil
	})
	return done, err
}

// reclaimJobs ends the claims in a node's running jobs as lost, and removes the jobs. It reports whether any are left.
func (l *leader) reclaimJobs(ctx context.Context, tx pgx.Tx, node int64) (left bool, err error) {
	sent, client := time.Now(), clientID(node)
	jobs, err := collect[jobRow](ctx, tx, fmt.Sprintf("read jobs of %s", client),
		l.statements.schema.SQL(runningJobsSQL), client, notNilNumbers(l.jobs.of(client)))
	l.session.heard(sent, err)
	if err != nil {
		return false, fmt.Errorf("read jobs of %s: %w", client, err)
	}
	why := fmt.Sprintf("node %d died", node)
	return l.endJobs(ctx, tx, &node, jobs, func(h hold) settlement { return lost(h, why) })
}

// endJobs ends the claims in jobs that this transaction has locked, and removes the jobs. node had the jobs; nil: no node had. It reports
// whether any are left.
func (l *leader) endJobs(ctx context.Context, tx pgx.Tx, node *int64, jobs []jobRow, ending func(hold) settlement) (left bool, err error) {
	left = len(jobs) == reclaimMost
	jobOf := map[int64]int64{} // fence: job
	ended := map[int64]bool{}
	var settlements []settlement
	for _, job := range jobs {
		ended[job.ID] = true
		holds, err := unpack(job.Tasks)
		if err != nil {
			l.log.Error("River job is not one of ours; removed", "job", job.ID, "error", err)
		}
		for _, h := range holds {
			jobOf[h.Fence] = job.ID
			settlements = append(settlements, ending(h))
		}
	}
	held, err := l.end(ctx, tx, node, settlements)
	if err != nil {
		return false, err
	}
	for _, fence := range held {
		left = true
		delete(ended, jobOf[fence])
	}
	if _, err := tx.Exec(ctx, l.statements.schema.SQL(deleteJobsSQL), slices.Collect(maps.Keys(ended))); err != nil {
		return false, fmt.Errorf("remove jobs whose claims are ended: %w", err)
	}
	return left, nil
}

// reclaimMost is how many jobs, or claims, are taken back in one step; what is left comes with the next tick.
const reclaimMost = 500

// end settles claims for their holders, and returns the fences of those whose rows others have locked.
func (l *leader) end(ctx context.Context, tx pgx.Tx, node *int64, settlements []settlement) (held []int64, err error) {
	for chunk := range slices.Chunk(settlements, reclaimMost) {
		done, err := l.settleEach(ctx, tx, node, chunk)
		if err != nil {
			return nil, err
		}
		taken := byFence(done)
		for _, one := range chunk {
			if state := taken[one.Fence]; state.Settled {
				l.tookBack = true
				l.lines = append(l.lines, typedOutcome{state.Type, one.recorded(state)})
				if one.Outcome == outcomeLost {
					l.lost = append(l.lost, deadOf(one, state))
				}
				level := slog.LevelWarn
				switch {
				case one.Outcome == outcomeReleased: // of many at once, and no harm done
					level = slog.LevelDebug
				case state.Status == string(store.StatusFailed): // it was the last attempt
					level = slog.LevelError
				}
				l.log.Log(context.Background(), level, "claim taken back", "task", one.ID, "type", state.Type, "revision", one.Revision, "attempt", one.Attempt,
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
SET status = 'FAILED', fence = NULL, lease_expires_at = NULL, next_attempt_at = NULL, message = $3::text, finished_at = clock_timestamp(),
    last_status_update = clock_timestamp()
WHERE id = $1::text AND fence = $2`

// settleEach settles all claims that can be settled, and fails the tasks of the others.
func (l *leader) settleEach(ctx context.Context, tx pgx.Tx, node *int64, settlements []settlement) (done []settled, err error) {
	err = bisect(settlements, func(some []settlement) error {
		sent := time.Now()
		var ended []settled
		err := pgx.BeginFunc(ctx, tx, func(savepoint pgx.Tx) (err error) {
			ended, err = l.statements.settle(ctx, savepoint, nil, node, some)
			return err
		})
		l.session.heard(sent, err)
		if err == nil {
			done = append(done, ended...)
		}
		return err
	}, func(one settlement, err error) error { return l.failHeld(ctx, tx, one, err) })
	return done, err
}

// failHeld fails a task whose claim cannot be settled. If not even that can be done, the task stays as it is.
func (l *leader) failHeld(ctx context.Context, tx pgx.Tx, one settlement, cause error) error {
	log := l.log.With("task", one.ID, "revision", one.Revision, "attempt", one.Attempt)
	log.Error("claim cannot be taken back; the task is failed", "error", cause)
	why := scrub("the claim cannot be taken back: " + cause.Error())
	err := pgx.BeginFunc(ctx, tx, func(savepoint pgx.Tx) error {
		_, err := savepoint.Exec(ctx, l.statements.schema.SQL(releaseBrokenSQL), one.ID, one.Fence, why)
		return err
	})
	if isDataError(err) { // a rule or a trigger of the application's lets nobody change the row
		log.Error("task cannot be failed either; it stays as it is", "error", err)
		return nil
	}
	if err != nil {
		return fmt.Errorf("fail task %s: %w", one.ID, err)
	}
	return nil
}

// reclaimStrays takes back the running jobs of nodes that had been declared dead before they fetched them.
func (l *leader) reclaimStrays(ctx context.Context) error {
	live := l.numbers()
	for _, client := range l.jobs.clients() {
		number, err := strconv.ParseInt(strings.TrimPrefix(client, clientPrefix), 10, 64)
		if err != nil || slices.Contains(live, number) {
			continue
		}
		if _, err := l.reclaimNode(ctx, number); err != nil {
			return err
		}
	}
	return nil
}

// removeEnded removes the jobs that River has finished, which nobody reads again.
func (l *leader) removeEnded(ctx context.Context) error {
	ended := l.jobs.ended()
	if len(ended) == 0 {
		return nil
	}
	if _, err := l.session.conn.Exec(ctx, l.statements.schema.SQL(deleteJobsSQL), ended); err != nil {
		return fmt.Errorf("remove finished jobs: %w", err)
	}
	return nil
}
