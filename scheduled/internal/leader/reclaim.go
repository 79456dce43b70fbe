package leader

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tasktable/tasktable/scheduled/internal/failures"
	"github.com/tasktable/tasktable/scheduled/internal/pg"
	"github.com/tasktable/tasktable/scheduled/internal/plan"
	"github.com/tasktable/tasktable/scheduled/internal/riverjobs"
	"github.com/tasktable/tasktable/scheduled/internal/sanitize"
	"github.com/tasktable/tasktable/scheduled/internal/taskdb"
	"github.com/tasktable/tasktable/store"
)

// maxReclaimed is how many jobs one step ends at most, and how many claims one statement ends. A step of a node with
// many quick tasks ends thousands of claims, because each step locks and reads the jobs anew.
const maxReclaimed = 500

const lockNodeSQL = `SELECT pg_try_advisory_xact_lock($1, $2)`

// reclaimNode takes back the tasks that a dead node held according to River. It reports whether it has taken back all
// of them. If an application has locked a row, that row and its job are left for the next tick.
func (l *Leader) reclaimNode(ctx context.Context, number int64) (done bool, err error) {
	_, done, err = l.endingSteps(ctx, func(tx pgx.Tx) (ended []endedClaim, left bool, err error) {
		// The node cannot be alive if this transaction gets the node's lock. A node never takes a number a second
		// time.
		var free bool
		row := tx.QueryRow(ctx, lockNodeSQL, pg.LockClass(l.session.Schema, "node"), int32(number))
		if err := row.Scan(&free); err != nil {
			return nil, true, fmt.Errorf("lock dead node %d: %w", number, err)
		}
		if !free {
			return nil, true, nil
		}
		l.endHandlers(ctx, tx, number)
		client, why := taskdb.ClientID(number), fmt.Sprintf("node %d died", number)
		ending := func(h taskdb.Claim) taskdb.Settlement { return taskdb.Lost(h, why) }
		ended, left, err = l.endJobs(ctx, tx, &number, client, l.jobs.Of(number), ending)
		if err != nil || left {
			return ended, left, err
		}
		_, err = tx.Exec(ctx, l.statements.Schema.SQL(taskdb.FarewellSQL), number)
		return ended, false, pg.Annotate(err, fmt.Sprintf("mark node %d dead", number))
	})
	return done, err
}

// endedClaim is a claim that the leader has ended, with the line of the history.
type endedClaim struct {
	taskdb.Settlement
	state taskdb.SettleResult
}

// endingSteps runs steps that end claims, each in a transaction, until none is left, or until a step ends none, for
// example because others have locked the rest, or for half a tick. If a statement runs into its time limit, the next
// step ends half as many claims at a time. If a single claim takes too long, it is left alone for a while, and the
// others are ended. It returns how many claims were ended, and whether none is left.
func (l *Leader) endingSteps(
	ctx context.Context, step func(pgx.Tx) (ended []endedClaim, left bool, err error),
) (ends int, done bool, err error) {
	for began := time.Now(); time.Since(began) < tickEvery/2; {
		var ended []endedClaim
		var left bool
		err = l.transaction(ctx, func(tx pgx.Tx) (err error) {
			ended, left, err = step(tx)
			return err
		})
		if err != nil {
			return ends, false, err
		}
		l.recordEnded(ctx, ended)
		if ends += len(ended); !left || len(ended) == 0 {
			return ends, !left, nil
		}
	}
	return ends, false, nil
}

// recordEnded reports claims to metrics, hooks and the log, once their ends are committed.
func (l *Leader) recordEnded(ctx context.Context, ended []endedClaim) {
	l.reclaimed = l.reclaimed || len(ended) > 0
	var lost []failures.Failure
	for _, one := range ended {
		l.metrics.Of(one.state.Type).Recorded(one.state.Recorded)
		if one.Outcome == taskdb.OutcomeLost {
			lost = append(lost, failures.Of(one.Settlement, one.state))
		}
		one.log(l.log)
	}
	l.notifyFailures(ctx, lost...)
}

func (e endedClaim) log(log *slog.Logger) {
	level := slog.LevelWarn
	switch {
	case e.Outcome == taskdb.OutcomeReleased: // many claims may be released at once, and it does no harm
		level = slog.LevelDebug
	case e.state.Status == string(store.StatusFailed): // it was the last attempt
		level = slog.LevelError
	}
	log.Log(context.Background(), level, "claim taken back", "task", e.ID, "type", e.state.Type,
		"revision", e.Revision, "attempt", e.Attempt, "outcome", e.Outcome, "status", e.state.Status, "why", *e.Error)
}

// The statement leaves out jobs that are no longer with the client with which the leader saw them.
const lockJobsSQL = `
SELECT j.id, j.state::text AS state, coalesce(j.args ->> 'tasks', '') AS tasks, j.metadata::text AS metadata
FROM tasktable.river_job AS j
WHERE j.id = ANY ($2::bigint[])
    AND CASE WHEN j.state = 'running' THEN j.attempted_by[array_length(j.attempted_by, 1)] ELSE '' END = $1::text
ORDER BY j.id LIMIT $3::int FOR UPDATE SKIP LOCKED`

type jobRow struct {
	ID       int64
	State    string
	Tasks    string
	Metadata string
}

const whyNeverBegan = "its node died before the task could begin"

// endJobs ends the claims in a client's jobs, and removes the jobs. node is the node that had the jobs, or nil if no
// node had them. Claims of a dead node that cannot have begun are released. endJobs reports whether any are left,
// because there are many or because others have locked rows.
func (l *Leader) endJobs(
	ctx context.Context, tx pgx.Tx, node *int64, client string, ids []int64,
	ending func(taskdb.Claim) taskdb.Settlement,
) (done []endedClaim, left bool, err error) {
	jobs, err := pg.CollectRows[jobRow](ctx, tx, "lock River jobs to be ended",
		l.statements.Schema.SQL(lockJobsSQL), client, pg.OrEmpty(ids), maxReclaimed)
	if err != nil {
		return nil, false, err
	}
	claims, isLeft, err := l.claimsOf(ctx, tx, jobs)
	if err != nil {
		return nil, false, err
	}
	left = len(jobs) == maxReclaimed
	jobOf := map[int64]int64{} // the job of each fence
	ended := map[int64]bool{}  // whether all claims of a job are ended
	var settlements []taskdb.Settlement
	for i, job := range jobs {
		ended[job.ID] = true
		begun := len(claims[i])
		if job.State == plan.Running {
			var about riverjobs.Metadata
			_ = json.Unmarshal([]byte(job.Metadata), &about) // damaged metadata say nothing
			begun = about.Begun(begun, func(place int) bool { return isLeft[claims[i][place].Fence] })
		}
		for place, claim := range claims[i] {
			one := ending(claim)
			if place >= begun {
				one = taskdb.Released(claim, whyNeverBegan)
			}
			if jobOf[claim.Fence] = job.ID; isLeft[claim.Fence] {
				settlements = append(settlements, one)
			}
		}
	}
	// Which tasks of a job cannot have begun is known as long as its other claims are there, so these come first.
	slices.SortStableFunc(settlements, func(a, b taskdb.Settlement) int {
		return cmp.Compare(b.Outcome, a.Outcome) // RELEASED before LOST
	})
	done, undone, err := l.end(ctx, tx, node, settlements)
	if err != nil {
		return nil, false, err
	}
	for _, fence := range undone {
		left = true
		delete(ended, jobOf[fence])
	}
	if _, err := tx.Exec(
		ctx, l.statements.Schema.SQL(riverjobs.DeleteSQL), slices.Collect(maps.Keys(ended)),
	); err != nil {
		return nil, false, fmt.Errorf("remove jobs whose claims are ended: %w", err)
	}
	return done, left, nil
}

const fencesSQL = `
SELECT t.fence FROM tasktable.scheduled_tasks AS t WHERE t.id = ANY ($1::text[]) AND t.fence = ANY ($2::bigint[])`

// claimsOf returns the claims of each job, and tells by fence which of them are not over. A job that River has finished
// has none, because nobody reads it again.
func (l *Leader) claimsOf(
	ctx context.Context, tx pgx.Tx, jobs []jobRow,
) (claims [][]taskdb.Claim, isLeft map[int64]bool, err error) {
	claims, isLeft = make([][]taskdb.Claim, len(jobs)), map[int64]bool{}
	ids, fences := []string{}, []int64{}
	for i, job := range jobs {
		if job.State != plan.Running && job.State != plan.Available {
			continue
		}
		if claims[i], err = riverjobs.DecodeClaims(job.Tasks); err != nil {
			l.log.Error("River job is not one of ours; removed", "job", job.ID, "error", err)
		}
		for _, claim := range claims[i] {
			ids, fences = append(ids, claim.ID), append(fences, claim.Fence)
		}
	}
	left, err := pg.CollectColumn[int64](
		ctx, tx, "look which claims are left", l.statements.Schema.SQL(fencesSQL), ids, fences)
	for _, fence := range left {
		isLeft[fence] = true
	}
	return claims, isLeft, err
}

// end settles claims for their holders, some at a time, for half a tick. It returns those that are ended, and the
// fences of those that are left: others have locked their rows, the leader leaves their tasks alone for now, or the
// time is over. A claim that cannot be settled does not stop the others. end finds it by halving, and fails its task.
// If even that cannot be done, the task stays as it is.
func (l *Leader) end(
	ctx context.Context, tx pgx.Tx, node *int64, settlements []taskdb.Settlement,
) (ended []endedClaim, left []int64, err error) {
	aside, began := l.quarantinedIDs(), time.Now()
	settlements = slices.DeleteFunc(slices.Clone(settlements), func(one taskdb.Settlement) bool {
		quarantined := slices.Contains(aside, one.ID)
		if quarantined {
			left = append(left, one.Fence)
		}
		return quarantined
	})
	maps.DeleteFunc(l.lockedUntil, func(_ int64, until time.Time) bool { return began.After(until) })
	slices.SortStableFunc(settlements, func(a, b taskdb.Settlement) int {
		return l.lockedUntil[a.Fence].Compare(l.lockedUntil[b.Fence])
	})
	for len(settlements) > 0 && time.Since(began) < tickEvery/2 {
		some := settlements[:min(l.ends.Now(), len(settlements))]
		done, err := l.settleEach(ctx, tx, node, some, began.Add(tickEvery/2))
		if pg.IsTimeout(err) && len(ended) > 0 {
			break // the ended claims are committed, and the next step meets the slow claim first
		}
		if err != nil {
			return nil, nil, err
		}
		taken := taskdb.ByFence(done)
		for _, one := range some {
			if state := taken[one.Fence]; state.Settled {
				ended = append(ended, endedClaim{one, state})
			} else if state.Held {
				left = append(left, one.Fence)
			}
		}
		settlements = settlements[len(some):]
	}
	for _, one := range settlements {
		left = append(left, one.Fence)
	}
	return ended, left, nil
}

// lockedTime is how long a claim comes after the others whose end has waited for a lock, for example of a task of its
// if_dead. So the others are ended first, however many wait, and it is still tried again at each tick.
const lockedTime = time.Minute

// settleEach settles all claims that can be settled until a time, and fails the tasks of those that Postgres refuses to
// settle. One that waits for a lock stays as it is. If all this takes too long, the next call ends half as many. So
// nothing is tried again in the same size for ever.
func (l *Leader) settleEach(
	ctx context.Context, tx pgx.Tx, node *int64, settlements []taskdb.Settlement, until time.Time,
) (done []taskdb.SettleResult, err error) {
	late := false
	err = pg.Isolate(pg.IsDataErrorOrLocked, settlements, func(some []taskdb.Settlement) error {
		var ended []taskdb.SettleResult
		if late = time.Now().After(until); late {
			for _, one := range some {
				done = append(done, taskdb.SettleResult{Fence: one.Fence, Held: true})
			}
			return nil
		}
		err := pgx.BeginFunc(ctx, tx, func(savepoint pgx.Tx) (err error) {
			ended, err = l.statements.Settle(ctx, savepoint, nil, node, some)
			return err
		})
		if err == nil {
			done = append(done, ended...)
		}
		return err
	}, func(one taskdb.Settlement, err error) error {
		if pg.IsLocked(err) {
			l.lockedUntil[one.Fence] = time.Now().Add(lockedTime)
			done = append(done, taskdb.SettleResult{Fence: one.Fence, Held: true})
			return nil
		}
		return l.failHeld(ctx, tx, one, err)
	})
	switch {
	case err == nil && late:
		l.ends.Shrink(len(settlements))
	case err == nil:
		l.ends.Grow()
	case pg.IsTimeout(err) && !l.ends.Shrink(len(settlements)) && len(settlements) == 1:
		slow := settlements[0]
		l.quarantined[slow.ID] = time.Now().Add(quarantineTime)
		l.log.Warn("claim takes too long to end; the leader leaves it alone for a while",
			"task", slow.ID, "revision", slow.Revision, "attempt", slow.Attempt,
			"error", err, "until", l.quarantined[slow.ID])
	}
	return done, err
}

// failHeld fails a task whose claim cannot be settled. If even that cannot be done, the task stays as it is.
func (l *Leader) failHeld(ctx context.Context, tx pgx.Tx, one taskdb.Settlement, cause error) error {
	log := l.log.With("task", one.ID, "revision", one.Revision, "attempt", one.Attempt)
	log.Error("claim cannot be taken back; the task fails", "error", cause)
	why := sanitize.Text("the claim cannot be taken back: " + cause.Error())
	err := pgx.BeginFunc(ctx, tx, func(savepoint pgx.Tx) error {
		_, err := l.statements.FailHeld(ctx, savepoint, one.Claim, why)
		return err
	})
	if pg.IsDataError(err) { // a rule or a trigger of the application allows nobody to change the row
		l.quarantined[one.ID] = time.Now().Add(quarantineTime)
		log.Error("task cannot be failed either; it stays as it is", "error", err)
		return nil
	}
	return err
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
