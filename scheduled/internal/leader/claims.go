package leader

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/riverqueue/river"

	"github.com/tasktable/tasktable/scheduled/internal/failures"
	"github.com/tasktable/tasktable/scheduled/internal/pg"
	"github.com/tasktable/tasktable/scheduled/internal/plan"
	"github.com/tasktable/tasktable/scheduled/internal/riverjobs"
	"github.com/tasktable/tasktable/scheduled/internal/taskdb"
	"github.com/tasktable/tasktable/store"
)

// pass resumes tasks whose pause has ended, sets limit keys, and fires the recurring tasks that are due, each in
// transactions of its own. Then one transaction claims as many tasks as there is room for, and hands them to River. If
// the data of some task cannot be claimed, or if a statement takes too long, the pass tries again with half as many
// tasks. A single task that cannot be claimed is given up (quarantine.go).
func (l *Leader) pass(ctx context.Context) (look, error) {
	began := time.Now()
	if l.pausesEnd {
		l.resumeDue(ctx)
	}
	if l.lanes.keys.unwalked() {
		l.walkOn(ctx)
	}
	if err := l.setKeys(ctx); err != nil {
		return look{}, fmt.Errorf("set limit keys: %w", err)
	}
	fired, forked := false, 0
	var slow []taskdb.LaneKey
	for {
		found, next, err := l.claimOnce(ctx, !fired, slow)
		switch {
		case err == nil && !fired && len(next.Fires) > 0:
			fired, forked = true, l.fire(ctx, next.Fires)
		case err == nil:
			l.claims.Grow()
			if found.forked = forked; forked > 0 || l.pausesEnd || len(slow) > 0 {
				found.next = 0
			}
			return found, nil
		case l.conn.IsClosed() || !pg.IsDataError(err) && !pg.IsTimeout(err):
			return look{}, err
		case l.claims.Shrink(l.claims.Now()): // try again
		case next == nil || len(next.LastGrants()) == 0: // it failed before it claimed
			return look{next: stuckPause, stuck: true}, nil
		default:
			one := next.LastGrants()[0]
			gaveUp, apartErr := l.claimApart(ctx, next, one)
			switch {
			case apartErr != nil && !pg.IsTimeout(apartErr):
				return look{}, errors.Join(err, apartErr)
			case pg.IsTimeout(err) && !gaveUp: // the cause has passed, or no task can be claimed
				return look{next: stuckPause, stuck: true}, nil
			case time.Since(began) > maxPassTime: // one by one it may take minutes, so ticks must come between
				return look{}, nil
			case pg.IsTimeout(err): // the next tasks of the lane may take as long, and the other lanes must not wait
				slow = append(slow, one.Key())
			}
		}
	}
}

const (
	// maxPassTime is how long a pass goes on with tasks that take too long or wait for locks. While an index is made,
	// all tasks do. The tasks that the leader has left alone come back after a while, so without a limit the pass might
	// never end.
	maxPassTime = 2 * time.Second
	// stuckPause is the pause after a pass that could not claim anything.
	stuckPause = 100 * time.Millisecond
)

// claimOnce looks and claims once, in a transaction. It leaves out the lanes in slow. It also returns the plan. If
// firesFirst is true and recurring tasks are due, it claims nothing, because the occurrences that they fork may be more
// urgent.
func (l *Leader) claimOnce(
	ctx context.Context, firesFirst bool, slow []taskdb.LaneKey,
) (found look, next *plan.Plan, err error) {
	var taken []taskdb.ClaimedLane
	err = l.transaction(ctx, func(tx pgx.Tx) (err error) {
		listed, more, err := l.look(ctx, tx)
		if err != nil || more { // a lane that the look has not listed may be more urgent
			return err
		}
		listed.Tasks = slices.DeleteFunc(listed.Tasks, func(one taskdb.Lane) bool {
			return slices.Contains(slow, one.Key())
		})
		next = l.plan(listed, l.jobs.List)
		if firesFirst && len(next.Fires) > 0 {
			return nil
		}
		taken, err = l.claim(ctx, tx, next, l.claims.Now())
		return err
	})
	switch {
	case err != nil:
		return look{}, next, fmt.Errorf("pass: %w", err)
	case next == nil: // the next pass comes at once, and looks at the lanes that this one has not seen
		return look{}, &plan.Plan{}, nil
	}
	found.claimed, found.expired = l.recordClaimed(ctx, taken)
	found.next, found.full = next.Then, next.Full
	if l.lanes.keys.waits() {
		found.next = 0
	}
	if len(taken) > 0 {
		found.next = 0 // the next pass claims all the tasks that have come meanwhile, together
		l.log.Debug("claimed", "tasks", found.claimed, "expired", found.expired, "ids", claimedIDs(taken))
	}
	return found, next, nil
}

// look lists the lanes and River's jobs.
func (l *Leader) look(ctx context.Context, tx pgx.Tx) (listed taskdb.ListedLanes, more bool, err error) {
	var batch pgx.Batch
	batch.Queue(taskdb.EnterSQL)
	// There may be thousands of lanes. The next tick lists those that become due later.
	now := l.session.Clock.Now()
	l.lanes.queue(l.statements, &batch, now, now.Add(l.config.LookAhead+soon))
	l.jobs.Queue(l.statements, &batch)
	results := tx.SendBatch(ctx, &batch)
	_, err = results.Exec()
	if err == nil {
		listed, more, err = l.lanes.read(results, l.session.Clock.Now())
	}
	if err == nil {
		err = l.jobs.Read(results)
	}
	if err = errors.Join(err, results.Close()); err != nil {
		l.lanes.narrow = l.lanes.narrow || pg.IsCanceled(err)
		return listed, more, fmt.Errorf("look: %w", err)
	}
	if err := l.lanes.buckets.load(ctx, l.statements, tx, listed.Limits); err != nil {
		return listed, more, err
	}
	changed := l.lanes.expand(&listed, l.jobs.List, l.session.Clock.Now())
	if changed {
		l.walk.next = time.Time{} // tasks wait until the walk has found the keys of a lane
	}
	return listed, more || changed, nil
}

// maxClaiming is how long a pass repeats its claim, because others have locked or edited rows. After that the other
// lanes wait for the next pass.
const maxClaiming = time.Second

// claim claims at most so many tasks by a plan, and hands them to River.
func (l *Leader) claim(
	ctx context.Context, tx pgx.Tx, next *plan.Plan, most int,
) (taken []taskdb.ClaimedLane, err error) {
	began, aside := time.Now(), l.quarantinedIDs()
	if peeks := next.Peeks(most); len(peeks) > 0 {
		found, err := l.statements.Peek(ctx, tx, nil, l.config.LookAhead, peeks, aside...)
		if err != nil {
			return nil, err
		}
		next.Peeked(peeks, found)
		l.lanes.keys.peeked(peeks, found, len(aside) == 0)
	}
	for again := true; again && time.Since(began) < maxClaiming; {
		grants := next.Grants(most)
		if len(grants) == 0 {
			break
		}
		l.lanes.keys.granted(grants)
		some, err := l.statements.Claim(ctx, tx, nil, l.config.LookAhead, l.config.StartAllowance, grants, aside...)
		if err != nil {
			return nil, err
		}
		for _, lane := range some {
			most -= lane.Len()
		}
		taken, again = append(taken, some...), next.Claimed(some)
	}
	if err := l.spend(ctx, tx, next.Tokens(taken)); err != nil {
		return nil, err
	}
	return taken, l.insert(ctx, tx, l.jobsOf(taken))
}

// insert hands jobs to River.
func (l *Leader) insert(ctx context.Context, tx pgx.Tx, jobs []river.InsertManyParams) error {
	if len(jobs) == 0 {
		return nil
	}
	began := time.Now()
	if _, err := l.config.River.InsertManyFastTx(ctx, tx, jobs); err != nil {
		return fmt.Errorf("hand %d batches to River: %w", len(jobs), err)
	}
	l.metrics.InsertedJobs.Add(float64(len(jobs)))
	l.metrics.InsertTook.Observe(time.Since(began).Seconds())
	return nil
}

// jobsOf makes River jobs of claimed tasks. The tasks of a job are of one lane.
func (l *Leader) jobsOf(taken []taskdb.ClaimedLane) (jobs []river.InsertManyParams) {
	known := l.rates()
	for _, lane := range taken {
		one, limited := lane.Grant, lane.Grant.Jobs > 0
		size := one.JobSize(len(lane.Tasks))
		batches := batchesOf(lane.Tasks, size, plan.MaxBatchBytes)
		if limited && len(batches) > one.Jobs {
			batches = batchesOf(lane.Tasks, size, math.MaxInt)
		}
		for _, claims := range batches {
			jobs = append(jobs, riverjobs.JobOf(one.Key(), known.Window(one.Type), limited, claims))
		}
	}
	return jobs
}

// batchesOf cuts claimed tasks into batches. Each batch has at most size tasks, and at most so many bytes of payloads
// unless it is a single task.
func batchesOf(taken []taskdb.ClaimedTask, size, most int) (batches [][]taskdb.Claim) {
	bytes := 0
	for i, c := range taken {
		last := len(batches) - 1
		if last < 0 || len(batches[last]) >= size || bytes+c.Bytes > most {
			batches, bytes = append(batches, make([]taskdb.Claim, 0, min(size, len(taken)-i))), 0
			last++
		}
		batches[last] = append(batches[last], c.Claim)
		bytes += c.Bytes
	}
	return batches
}

// maxLoggedIDs bounds the ids in a line of the log. A pass may claim thousands of tasks.
const maxLoggedIDs = 20

// claimedIDs are the ids of claimed tasks as the log has them: the first ones, without those that had expired. They are
// collected only if the line is written.
type claimedIDs []taskdb.ClaimedLane

func (c claimedIDs) LogValue() slog.Value {
	ids := make([]string, 0, maxLoggedIDs)
	for _, lane := range c {
		for _, task := range lane.Tasks[:min(len(lane.Tasks), maxLoggedIDs-len(ids))] {
			ids = append(ids, task.ID)
		}
	}
	return slog.AnyValue(ids)
}

// recordClaimed notes the tasks that a committed transaction has claimed, and reports those that had expired.
func (l *Leader) recordClaimed(ctx context.Context, taken []taskdb.ClaimedLane) (claimed, expired int) {
	l.lanes.tasks.claimed(taken, l.session.Clock.Now())
	l.lanes.keys.claimed(taken, l.session.Clock.Now())
	if len(taken) > 0 {
		l.unwritten, l.claimedAt = true, time.Now()
	}
	plan.Rates{Bytes: l.sizes}.Learn(taken)
	var dead []failures.Failure
	for _, lane := range taken {
		of := l.metrics.Of(lane.Grant.Type)
		of.Claimed.Add(float64(len(lane.Tasks)))
		claimed += len(lane.Tasks)
		for _, c := range lane.Expired {
			of.Recorded(taskdb.OutcomeExpired)
			dead = append(dead, failures.Failure{
				ID:       c.ID,
				Type:     lane.Grant.Type,
				Outcome:  taskdb.OutcomeExpired,
				Status:   string(store.StatusExpired),
				Revision: c.Revision,
				Attempt:  c.Attempt,
				Error:    "expired before it could start",
			})
		}
	}
	if len(dead) > 0 {
		l.notifyFailures(ctx, dead...)
		l.log.Warn("tasks expired before they could start", "tasks", len(dead))
	}
	return claimed, len(dead)
}
