package leader

import (
	"cmp"
	"context"
	"slices"

	"github.com/jackc/pgx/v5"

	"github.com/tasktable/tasktable/scheduled/internal/taskdb"
)

// maxRounds bounds the statements by which a pass claims.
const maxRounds = 8

// claimRounds claims at most this many tasks of the lanes, which are in the order of their priorities. The statement
// shares the room of each pool among its lanes, but it does not know that the tasks of two pools may need the same
// slots. So such pools come in different rounds, the more urgent lanes first, and then those that have waited longer.
// Each round has the room that the rounds before it have left. Without places there is one round. The last round that
// a pass may have takes all the rest. It may claim too much, which waits in River for some moments.
func (l *Leader) claimRounds(
	ctx context.Context, tx pgx.Tx, lanes []taskdb.LaneQuota, most int,
) (taken []taskdb.ClaimedTask, err error) {
	if slices.ContainsFunc(lanes, func(lane taskdb.LaneQuota) bool { return lane.Pool != lane.Base }) {
		lanes = slices.SortedStableFunc(slices.Values(lanes), func(a, b taskdb.LaneQuota) int {
			return cmp.Or(cmp.Compare(b.Priority, a.Priority), cmp.Compare(a.DueIn, b.DueIn))
		})
	}
	for n := 1; len(lanes) > 0 && len(taken) < most; n++ {
		count := len(lanes)
		if n < maxRounds {
			count = nextRound(lanes)
		}
		some, err := l.statements.Claim(
			ctx, tx, nil, l.config.LookAhead, l.config.StartAllowance, lanes[:count], most-len(taken),
			l.quarantinedIDs()...,
		)
		if err != nil {
			return nil, err
		}
		if n == 1 {
			taken = some
		} else {
			taken = append(taken, some...)
		}
		lanes = restOf(lanes, count, some)
	}
	return taken, nil
}

// nextRound is how many of the first lanes may be claimed together, because the lanes of two pools among them do not
// need the same slots.
func nextRound(lanes []taskdb.LaneQuota) int {
	pools := map[int]int{} // by the pool of their slots
	for i, lane := range lanes {
		if pool, known := pools[lane.Base]; known && pool != lane.Pool {
			return i
		}
		pools[lane.Base] = lane.Pool
	}
	return len(lanes)
}

// restOf returns the lanes after the first ones, with the room that the tasks leave that were claimed from these. If
// the room no longer holds a task of one of the first lanes, less urgent lanes get nothing of it. The lane may have
// more due tasks, and quicker ones would overtake them in each pass. For the same reason the room of tasks that had
// expired stays empty until the next pass, which follows at once.
func restOf(lanes []taskdb.LaneQuota, first int, taken []taskdb.ClaimedTask) []taskdb.LaneQuota {
	all := slices.Clone(lanes)
	for _, lane := range lanes[:first] {
		used := 0
		for _, c := range taken {
			if lane.Has(c) {
				used += lane.Cost
			}
		}
		for i := range all {
			r := &all[i]
			if r.Pool == lane.Pool {
				r.Room -= used
			}
			if r.Base == lane.Base {
				r.Free -= used
			}
			r.Room = max(min(r.Room, r.Free), 0)
			r.Near = min(r.Near, r.Room)
		}
	}
	return slices.DeleteFunc(inOrder(all)[first:], func(r taskdb.LaneQuota) bool { return r.Room < max(r.Cost, 1) })
}
