package leader

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/riverqueue/river"

	"github.com/tasktable/tasktable/scheduled/internal/failures"
	"github.com/tasktable/tasktable/scheduled/internal/pg"
	"github.com/tasktable/tasktable/scheduled/internal/riverjobs"
	"github.com/tasktable/tasktable/scheduled/internal/taskdb"
	"github.com/tasktable/tasktable/store"
)

// Pass resumes tasks whose pause has ended, and fires the recurring tasks that are due. Then it claims as many due
// tasks as there is room for, and hands them to River, in one transaction. If the data of some task cannot be claimed,
// or if a statement takes too long, the pass tries again with half as many tasks. The leader fails a single task that
// cannot be claimed. It leaves a single task alone for a while if claiming it takes too long, or has to wait for a
// lock.
func (l *Leader) Pass(ctx context.Context) (Look, error) {
	began := time.Now()
	if l.pausesEnd {
		l.resumeDue(ctx)
	}
	forked, tried := 0, false
	for {
		found, lanes, err := l.claimOnce(ctx, l.Claims.Now(), !tried)
		switch {
		case err == nil && len(lanes.fires) > 0 && !tried:
			tried = true
			forked = l.fire(ctx, lanes.fires)
		case err == nil:
			l.Claims.Grow()
			if found.Forked = forked; forked > 0 || l.pausesEnd {
				found.Next = 0
			}
			return found, nil
		case l.conn.IsClosed():
			return Look{}, err
		case (pg.IsDataError(err) || pg.IsTimeout(err)) && l.Claims.Shrink(l.Claims.Now()):
		case pg.IsDataError(err) || pg.IsTimeout(err):
			done, apartErr := l.FailBroken(ctx, lanes)
			switch {
			case apartErr == nil && done > 0 && pg.IsTimeout(err) && time.Since(began) > MaxPassTime:
				return Look{}, nil // one by one it may take minutes, so ticks must come between
			case apartErr == nil && done > 0: // try again without these tasks
			case pg.IsTimeout(err) && (apartErr == nil || pg.IsTimeout(apartErr)):
				// The cause has passed, or no task can be claimed. The pass would try for ever if it went on here.
				return Look{Next: 100 * time.Millisecond, Stuck: true}, nil
			default:
				return Look{}, errors.Join(err, apartErr)
			}
		default:
			return Look{}, err
		}
	}
}

// MaxPassTime is how long a pass goes on with tasks that take too long or wait for locks. While an index is made, all
// tasks do. The tasks that the leader has left alone come back after a while, so without a limit the pass might never
// end.
const MaxPassTime = 2 * time.Second

// ClaimPlan lists the lanes that a pass has to work on.
type ClaimPlan struct {
	Due   []taskdb.LaneQuota
	fires []taskdb.Lane // of recurring tasks
}

// claimOnce is a pass that takes at most this many tasks. It also returns the lanes that it took them from. If
// firesFirst is true and recurring tasks are due, it takes nothing, because the occurrences that they fork may be more
// urgent.
func (l *Leader) claimOnce(ctx context.Context, most int, firesFirst bool) (found Look, lanes ClaimPlan, err error) {
	var taken []taskdb.ClaimedTask
	err = l.Transaction(ctx, func(tx pgx.Tx) error {
		if lanes, found, err = l.PlanClaims(ctx, tx); err != nil {
			return err
		}
		if len(lanes.Due) == 0 || firesFirst && len(lanes.fires) > 0 {
			return nil
		}
		taken, err = l.claimAndInsert(ctx, tx, lanes.Due, most)
		return err
	})
	if err != nil {
		return Look{}, lanes, fmt.Errorf("pass: %w", err)
	}
	found.Claimed, found.Expired = l.recordClaimed(ctx, taken)
	if len(taken) > 0 {
		found.Next = 0 // the next pass claims all the tasks that have come meanwhile, together
		l.log.Debug("claimed", "tasks", found.Claimed, "expired", found.Expired, "ids", claimedIDs(taken))
	}
	return found, lanes, nil
}

// maxLoggedIDs bounds the ids in a line of the log. A pass may claim thousands of tasks.
const maxLoggedIDs = 20

// claimedIDs are the ids of claimed tasks as the log has them: the first ones, without those that had expired. They are
// collected only if the line is written.
type claimedIDs []taskdb.ClaimedTask

func (c claimedIDs) LogValue() slog.Value {
	ids := make([]string, 0, maxLoggedIDs)
	for _, task := range c {
		if task.Fence != nil && len(ids) < maxLoggedIDs {
			ids = append(ids, task.ID)
		}
	}
	return slog.AnyValue(ids)
}

// recordClaimed notes the tasks that a committed transaction has claimed, and reports those that had expired.
func (l *Leader) recordClaimed(ctx context.Context, taken []taskdb.ClaimedTask) (claimed, expired int) {
	l.Lanes.tasks.claimed(taken, l.session.Clock.Now())
	if len(taken) > 0 {
		l.unwritten, l.claimedAt = true, time.Now()
	}
	rates{bytes: l.sizes}.claimed(taken)
	var dead []failures.Failure
	for _, c := range taken {
		if of := l.metrics.Of(c.Type); c.Fence != nil {
			of.Claimed.Inc()
		} else {
			of.Recorded(taskdb.OutcomeExpired)
			dead = append(dead, failures.Failure{
				ID:       c.ID,
				Type:     c.Type,
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
	return len(taken) - len(dead), len(dead)
}

// claimAndInsert claims tasks and hands them to River.
func (l *Leader) claimAndInsert(
	ctx context.Context, tx pgx.Tx, lanes []taskdb.LaneQuota, most int,
) ([]taskdb.ClaimedTask, error) {
	taken, err := l.claimRounds(ctx, tx, lanes, most)
	if err != nil {
		return nil, err
	}
	return taken, l.insert(ctx, tx, taken, lanes)
}

// PlanClaims lists the lanes with something due, and the room for it.
func (l *Leader) PlanClaims(ctx context.Context, tx pgx.Tx) (lanes ClaimPlan, found Look, err error) {
	var batch pgx.Batch
	batch.Queue(taskdb.EnterSQL)
	// There may be thousands of lanes. The next tick lists those that become due later.
	now := l.session.Clock.Now()
	l.Lanes.Queue(l.statements, &batch, now, now.Add(l.config.LookAhead+2*tickEvery))
	l.jobs.Queue(l.statements, &batch)
	results := tx.SendBatch(ctx, &batch)
	listed, more, err := l.readPlan(results)
	if err = errors.Join(err, results.Close()); err != nil {
		l.Lanes.narrow = l.Lanes.narrow || pg.IsCanceled(err)
		return ClaimPlan{}, Look{}, fmt.Errorf("look: %w", err)
	}
	if found.Next = -1; more { // a lane that the look has not listed may be more urgent
		return lanes, Look{}, nil
	}
	for _, b := range budget(taskdb.Unpaused(listed.Recurring, listed.Paused), l.workingNodes(), nil, rates{}) {
		if b.DueIn <= 0 {
			lanes.fires = append(lanes.fires, b.Lane)
		} else if found.Next < 0 || b.DueIn < found.Next {
			found.Next = b.DueIn
		}
	}
	for _, b := range budget(taskdb.Unpaused(listed.Tasks, listed.Paused), l.workingNodes(), l.jobs.List, l.rates()) {
		switch in := b.DueIn - l.config.LookAhead; {
		case in > 0:
			if found.Next < 0 || in < found.Next {
				found.Next = in
			}
		case b.Room == 0:
			found.Full = true
		default:
			lanes.Due = append(lanes.Due, b)
			if b.DueIn > 0 && (found.Next < 0 || b.DueIn < found.Next) {
				found.Next = b.DueIn // the next pass claims it then, if this pass cannot claim it ahead
			}
		}
	}
	return lanes, found, nil
}

func (l *Leader) readPlan(results pgx.BatchResults) (listed taskdb.ListedLanes, more bool, err error) {
	if _, err := results.Exec(); err != nil {
		return listed, false, err
	}
	if listed, more, err = l.Lanes.read(results, l.session.Clock.Now()); err != nil {
		return listed, false, err
	}
	return listed, more, l.jobs.Read(results)
}

// insert hands claimed tasks to River, in batches of one lane each.
func (l *Leader) insert(ctx context.Context, tx pgx.Tx, taken []taskdb.ClaimedTask, lanes []taskdb.LaneQuota) error {
	type key struct {
		queue, kind string
		priority    int
		near        bool
	}
	type lot struct {
		taken []*taskdb.ClaimedTask
		pool  int
		slots int // the number of slots that the tasks are spread over
	}
	budgets := map[key]taskdb.LaneQuota{}
	for _, b := range lanes {
		budgets[key{b.Queue, b.Type, b.Priority, false}] = b
	}
	var order []key
	lots := map[key]*lot{}
	near := map[int]int{} // by pool
	now := l.session.Clock.Now()
	for i := range taken {
		c := &taken[i]
		if c.Fence == nil {
			continue
		}
		k := key{c.Queue, c.Type, c.Priority, false}
		b := budgets[k]
		k.near = c.Due.After(now)
		if lots[k] == nil {
			order, lots[k] = append(order, k), &lot{pool: b.Pool, slots: b.Slots}
			if k.near {
				lots[k].slots = b.Ahead / 2 // more tasks may be near their time, and must fit too
			}
		}
		if k.near {
			near[b.Pool]++
		}
		lots[k].taken = append(lots[k].taken, c)
	}
	var jobs []river.InsertManyParams
	known := l.rates()
	for _, k := range order {
		tasks := len(lots[k].taken)
		if k.near {
			tasks = near[lots[k].pool]
		}
		for _, holds := range batchesOf(lots[k].taken, batchSize(known.fits(k.kind), tasks, lots[k].slots)) {
			jobs = append(jobs, riverjobs.JobOf(k.queue, k.kind, k.priority, known.window(k.kind), holds))
		}
	}
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
