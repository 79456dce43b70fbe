package scheduled

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/tasktable/tasktable/store"
)

// Locks, in one order, what it can, and returns what others have locked. One statement, so nothing is missed in between.
const lockInOrderSQL = `
WITH locked AS MATERIALIZED (
    SELECT t.id::text AS id FROM tasktable.scheduled_tasks AS t
    WHERE t.id = ANY ($1::text[]) ORDER BY t.id::text COLLATE "C" FOR UPDATE SKIP LOCKED
)
SELECT t.id::text FROM tasktable.scheduled_tasks AS t
WHERE t.id = ANY ($1::text[]) AND t.id::text NOT IN (SELECT locked.id FROM locked)`

// lockInOrder locks all rows that settling with follow-ups will touch: two settles whose tasks schedule each other cannot
// deadlock. It returns apart those settlements of whose rows one is locked by another transaction: to wait for it would stall
// the others.
func (s statements) lockInOrder(ctx context.Context, q querier, settlements []settlement) (free, held []settlement, err error) {
	ids := followUpIDs(settlements)
	if len(ids) == 0 {
		return settlements, nil, nil
	}
	busy, err := column[string](ctx, q, fmt.Sprintf("lock %d tasks and follow-ups", len(ids)),
		s.schema.SQL(lockInOrderSQL), ids)
	if err != nil {
		return nil, nil, err
	}
	for _, one := range settlements {
		if slices.Contains(busy, one.ID) || slices.ContainsFunc(one.Effects.FollowUps, func(task store.Task) bool { return slices.Contains(busy, idOf(task)) }) {
			held = append(held, one)
		} else {
			free = append(free, one)
		}
	}
	return free, held, nil
}

const waitInOrderSQL = `
SELECT t.id::text FROM tasktable.scheduled_tasks AS t WHERE t.id = ANY ($1::text[]) ORDER BY t.id::text COLLATE "C" FOR UPDATE`

// waitInOrder waits for the locks of the rows that a settlement will touch.
func (s statements) waitInOrder(ctx context.Context, q querier, one settlement) error {
	ids := followUpIDs([]settlement{one})
	if len(ids) == 0 {
		ids = []string{one.ID}
	}
	if _, err := q.Exec(ctx, s.schema.SQL(waitInOrderSQL), ids); err != nil {
		return fmt.Errorf("wait for the locks of task %s and its follow-ups: %w", one.ID, err)
	}
	return nil
}

// settleAll settles attempts with all their effects, in q's transaction: those that run again, the rest, then the follow-ups.
func (s statements) settleAll(ctx context.Context, q querier, now *time.Time, node *int64, service string, settlements []settlement) ([]settled, error) {
	settlements, held, err := s.lockInOrder(ctx, q, settlements)
	if err != nil {
		return nil, err
	}
	var agains, rest []settlement
	for _, one := range settlements {
		if one.Effects.Again != nil && one.To == store.StatusCompleted {
			agains = append(agains, one)
		} else {
			rest = append(rest, one)
		}
	}
	done, edited, err := s.settleAgains(ctx, q, now, node, agains)
	if err != nil {
		return nil, err
	}
	if rest = append(rest, edited...); len(rest) > 0 {
		settledRest, err := s.settle(ctx, q, now, node, rest)
		if err != nil {
			return nil, err
		}
		done = append(done, settledRest...)
	}
	if err := s.followUp(ctx, q, now, service, settlements, done); err != nil {
		return nil, err
	}
	for _, one := range held {
		done = append(done, settled{Fence: one.Fence, Held: true})
	}
	return done, nil
}

// settleAgains settles those that run again. What was edited meanwhile comes back, to be released by an ordinary settle:
// a newer edit wins. What another transaction has locked must not go there: unlocked a moment later, it would be settled as
// completed, and its Again forgotten.
func (s statements) settleAgains(ctx context.Context, q querier, now *time.Time, node *int64, agains []settlement) (done []settled, edited []settlement, err error) {
	if len(agains) == 0 {
		return nil, nil, nil
	}
	if done, err = s.again(ctx, q, now, node, agains); err != nil {
		return nil, nil, err
	}
	if _, err := q.Exec(ctx, leaveSQL); err != nil {
		return nil, nil, fmt.Errorf("leave the change context: %w", err)
	}
	if len(done) == len(agains) {
		return done, nil, nil
	}
	ran := byFence(done)
	left := map[int64]settlement{}
	var holds []hold
	for _, one := range agains {
		if _, ok := ran[one.Fence]; !ok {
			left[one.Fence] = one
			holds = append(holds, one.hold)
		}
	}
	states, err := s.recheck(ctx, q, holds)
	if err != nil {
		return nil, nil, err
	}
	for _, state := range states {
		switch {
		case state.Held && !state.Current:
			edited = append(edited, left[state.Fence])
		default:
			done = append(done, settled{Fence: state.Fence, Held: state.Held})
		}
	}
	return done, edited, nil
}

func byFence(done []settled) map[int64]settled {
	states := make(map[int64]settled, len(done))
	for _, one := range done {
		states[one.Fence] = one
	}
	return states
}
