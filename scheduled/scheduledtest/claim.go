package scheduledtest

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/tasktable/tasktable/scheduled"
	"github.com/tasktable/tasktable/scheduled/internal/pg"
	"github.com/tasktable/tasktable/scheduled/internal/plan"
	"github.com/tasktable/tasktable/scheduled/internal/taskdb"
)

// served remembers in which order the groups and tenants of a limit had their turns.
type served struct {
	turn int64
	of   map[taskdb.LaneKey]plan.Served
}

// A test may have tasks that a node, or the test itself, holds.
const heldInlineSQL = `
SELECT queue::text AS queue, type::text AS type, priority::int AS priority, limit_key
FROM tasktable.scheduled_tasks WHERE fence IS NOT NULL`

// claimedTask is a task that was taken from a lane.
type claimedTask struct {
	taskdb.ClaimedTask
	lane taskdb.LaneKey
}

// claim takes due tasks, as a leader would whose only node works all queues and has many slots. It returns them in the
// order in which they run.
func (r inlineRun) claim(ctx context.Context) (taken []claimedTask, err error) {
	if err := r.fork(ctx); err != nil {
		return nil, err
	}
	listed, err := r.statements.Lanes(ctx, r.q, &r.now)
	if err != nil {
		return nil, err
	}
	in := plan.Input{Lanes: r.mine(listed.Tasks, listed.Paused)}
	if len(in.Lanes) == 0 {
		return nil, nil
	}
	if in.Limits, err = r.statements.Limits(ctx, r.q, &r.now); err != nil {
		return nil, err
	}
	queues := map[string]int{}
	for _, lane := range in.Lanes {
		queues[lane.Queue] = inlineMostPerPass
	}
	in.Nodes = []taskdb.LiveNode{{Number: 1, Queues: queues, Types: r.handlers.Types()}}
	err = r.entered(ctx, func() error {
		if len(in.Limits) > 0 {
			if err := r.limited(ctx, &in); err != nil {
				return err
			}
		}
		lanes, err := r.take(ctx, plan.New(in))
		for _, lane := range lanes {
			for _, c := range slices.Concat(lane.Tasks, lane.Expired) {
				taken = append(taken, claimedTask{c, lane.Grant.Key()})
			}
		}
		return err
	})
	slices.SortFunc(taken, func(a, b claimedTask) int {
		return cmp.Or(cmp.Compare(b.lane.Priority, a.lane.Priority), a.Due.Compare(b.Due), cmp.Compare(a.ID, b.ID))
	})
	return taken, err
}

// limited adds the tasks that others hold, and replaces the lanes of groups and tenants by those whose turn it is.
func (r inlineRun) limited(ctx context.Context, in *plan.Input) error {
	held, err := pg.CollectRows[taskdb.LaneKey](ctx, r.q, "list what is held", r.statements.Schema.SQL(heldInlineSQL))
	if err != nil {
		return err
	}
	for _, one := range held {
		in.Jobs = append(in.Jobs,
			plan.Job{Queue: one.Queue, Type: one.Type, State: plan.Running, Tasks: 1, Key: one.LimitKey})
	}
	if in.Buckets, err = r.buckets(ctx, in.Limits); err != nil {
		return err
	}
	turns, lanes := plan.NewTurns(in.Limits, in.Jobs, in.Buckets), []taskdb.Lane(nil)
	for _, lane := range in.Lanes {
		prefix := taskdb.PrefixOf(in.Limits, lane.Queue, lane.Type)
		if prefix == "" {
			lanes = append(lanes, lane)
			continue
		}
		heads, err := r.heads(ctx, lane.Key(), prefix, taskdb.OrderOf(in.Limits, lane.Queue, lane.Type))
		if err != nil {
			return err
		}
		lanes = append(lanes, turns.Of(lane.Key(), heads)...)
	}
	in.Lanes = lanes
	return nil
}

// buckets reads the buckets of groups and tenants.
func (r inlineRun) buckets(ctx context.Context, limits []taskdb.Limit) (plan.Buckets, error) {
	var names []string
	for _, limit := range limits {
		if limit.HasBuckets() {
			names = append(names, limit.Name)
		}
	}
	fullAt := map[taskdb.BucketOf]time.Time{}
	for last, more := (taskdb.BucketOf{}), len(names) > 0; more; {
		rows, err := r.statements.Buckets(ctx, r.q, names, last, inlineMostPerPass)
		if err != nil {
			return nil, err
		}
		for _, row := range rows {
			last = row.BucketOf
			fullAt[last] = row.FullAt
		}
		more = len(rows) >= inlineMostPerPass
	}
	return func(limit taskdb.Limit, key string) time.Duration {
		in := fullAt[taskdb.BucketOf{Name: limit.Name, Key: key}].Sub(r.now)
		return min(max(in, 0), time.Duration(limit.Burst)*limit.Interval)
	}, nil
}

// heads reads the first tasks of all groups or tenants of a lane. It first sets the keys of tasks that were scheduled
// before the limit.
func (r inlineRun) heads(
	ctx context.Context, lane taskdb.LaneKey, prefix, order string,
) (heads []plan.KeyHead, err error) {
	for set := inlineMostPerPass; set == inlineMostPerPass; {
		found, err := r.statements.SetKeys(ctx, r.q, lane, time.Time{}, r.now, prefix, inlineMostPerPass)
		if err != nil {
			return nil, err
		}
		set = len(found)
	}
	var of []taskdb.HeadOf
	at := taskdb.KeysFrom{LaneAt: taskdb.LaneAt{LaneKey: lane}}
	for walked := taskdb.MaxKeysWalked; walked == taskdb.MaxKeysWalked; {
		found, err := r.statements.WalkKeys(ctx, r.q, at, false)
		if err != nil {
			return nil, err
		}
		walked = len(found.Keys)
		for _, one := range found.Keys {
			at.Key = one.Key
			head := taskdb.HeadOf{LaneAt: at.LaneAt}
			if head.LimitKey = one.Key; head.Counted() {
				head.InOrder = order
			}
			if strings.HasPrefix(one.Key, prefix) {
				of = append(of, head)
			}
		}
	}
	rows, err := r.statements.Heads(ctx, r.q, of)
	for _, row := range rows {
		if row.Head != nil { // otherwise another task of the group or tenant goes first
			key := of[row.Lane].LaneKey
			heads = append(heads, plan.KeyHead{
				Key: key.LimitKey, Head: *row.Head, DueIn: row.Head.Sub(r.now), Served: r.served.of[key],
			})
		}
	}
	return heads, err
}

// take claims by a plan, as the leader does.
func (r inlineRun) take(ctx context.Context, next *plan.Plan) (taken []taskdb.ClaimedLane, err error) {
	if peeks := next.Peeks(inlineMostPerPass); len(peeks) > 0 {
		found, err := r.statements.Peek(ctx, r.q, &r.now, 0, peeks)
		if err != nil {
			return nil, err
		}
		next.Peeked(peeks, found)
	}
	for again, most := true, inlineMostPerPass; again; {
		grants := next.Grants(most)
		if len(grants) == 0 {
			break
		}
		r.served.turn++
		for _, grant := range grants {
			one := r.served.of[grant.Key()]
			one.Granted(grant, r.served.turn)
			r.served.of[grant.Key()] = one
		}
		some, err := r.statements.Claim(ctx, r.q, &r.now, 0, scheduled.DefaultStartAllowance, grants)
		if err != nil {
			return nil, err
		}
		for _, lane := range some {
			most -= lane.Len()
		}
		taken, again = append(taken, some...), next.Claimed(some)
	}
	_, err = r.statements.Spend(ctx, r.q, &r.now, next.Tokens(taken))
	return taken, err
}

// entered does what only the engine may do.
func (r inlineRun) entered(ctx context.Context, do func() error) error {
	if _, err := r.q.Exec(ctx, taskdb.EnterSQL); err != nil {
		return fmt.Errorf("enter the engine's context: %w", err)
	}
	if err := do(); err != nil {
		return err
	}
	if _, err := r.q.Exec(ctx, taskdb.LeaveSQL); err != nil {
		return fmt.Errorf("leave the engine's context: %w", err)
	}
	return nil
}
