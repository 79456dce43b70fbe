package taskdb

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/tasktable/tasktable/scheduled/internal/pg"
	"github.com/tasktable/tasktable/store"
)

// The statement locks, in one order, the rows that are free, and returns the ids of those that others have locked. It
// is one statement, so that no row changes its state between the two steps.
const lockInOrderSQL = `
WITH locked AS MATERIALIZED (
    SELECT t.id::text AS id FROM tasktable.scheduled_tasks AS t
    WHERE t.id = ANY ($1::text[]) ORDER BY t.id || '~' FOR NO KEY UPDATE SKIP LOCKED
)
SELECT t.id::text FROM tasktable.scheduled_tasks AS t
WHERE t.id = ANY ($1::text[]) AND t.id::text NOT IN (SELECT locked.id FROM locked)`

// lockInOrder locks all rows that settling with follow-ups will touch, so that two settles whose tasks schedule each
// other cannot deadlock. If another transaction has locked one of a settlement's rows, lockInOrder returns the
// settlement in held, because a wait for the lock would stall the other settlements.
func (s Queries) lockInOrder(
	ctx context.Context, q pg.DB, settlements []Settlement,
) (free, held []Settlement, err error) {
	ids := followUpIDs(settlements)
	if len(ids) == 0 {
		return settlements, nil, nil
	}
	busy, err := pg.CollectColumn[string](ctx, q, fmt.Sprintf("lock %d tasks and follow-ups", len(ids)),
		s.Schema.SQL(lockInOrderSQL), ids)
	if err != nil {
		return nil, nil, err
	}
	held, free = split(settlements, func(one *Settlement) bool {
		return slices.Contains(busy, one.ID) || slices.ContainsFunc(one.Effects.FollowUps, func(task store.Task) bool {
			return slices.Contains(busy, IDOf(task))
		})
	})
	return free, held, nil
}

const waitInOrderSQL = `
SELECT t.id::text FROM tasktable.scheduled_tasks AS t WHERE t.id = ANY ($1::text[])
	ORDER BY t.id || '~' FOR NO KEY UPDATE`

// WaitInOrder waits for the locks of the rows that a settlement will touch.
func (s Queries) WaitInOrder(ctx context.Context, q pg.DB, one Settlement) error {
	ids := followUpIDs([]Settlement{one})
	if len(ids) == 0 {
		ids = []string{one.ID}
	}
	if _, err := q.Exec(ctx, s.Schema.SQL(waitInOrderSQL), ids); err != nil {
		return fmt.Errorf("wait for the locks of task %s and its follow-ups: %w", one.ID, err)
	}
	return nil
}

// SettleAll settles attempts with all their effects, in q's transaction. It first settles the tasks that run again,
// then the others, and then schedules the follow-ups.
func (s Queries) SettleAll(
	ctx context.Context, q pg.DB, now *time.Time, node *int64, service string, settlements []Settlement,
) ([]SettleResult, error) {
	settlements, held, err := s.lockInOrder(ctx, q, settlements)
	if err != nil {
		return nil, err
	}
	agains, rest := split(settlements, func(one *Settlement) bool { return one.Effects.Again != nil })
	var done []SettleResult
	if len(agains) > 0 {
		if done, err = s.Again(ctx, q, now, node, agains); err != nil {
			return nil, err
		}
		if _, err := q.Exec(ctx, LeaveSQL); err != nil {
			return nil, fmt.Errorf("leave the change context: %w", err)
		}
		// An ordinary settle releases tasks that were edited meanwhile, because a newer edit wins, and says what became
		// of those whose claim is over. It must not get tasks that are locked. If the lock ended a moment later, it
		// would record a task as completed, and forget its Again.
		states := ByFence(done)
		over := func(state SettleResult) bool { return !state.Current }
		done = slices.DeleteFunc(done, over)
		superseded, _ := split(agains, func(one *Settlement) bool { return over(states[one.Fence]) })
		rest = append(rest, superseded...)
	}
	if len(rest) > 0 {
		settledRest, err := s.Settle(ctx, q, now, node, rest)
		if err != nil {
			return nil, err
		}
		done = append(done, settledRest...)
	}
	if err := s.followUp(ctx, q, service, settlements, done); err != nil {
		return nil, err
	}
	for _, one := range held {
		done = append(done, SettleResult{Fence: one.Fence, Held: true})
	}
	return done, nil
}

// ByFence returns the results by their fences.
func ByFence(done []SettleResult) map[int64]SettleResult {
	states := make(map[int64]SettleResult, len(done))
	for _, one := range done {
		states[one.Fence] = one
	}
	return states
}

// split returns the settlements for which is returns true, and the others. If it is true for the first ones, as it
// nearly always is for all, it copies none of these, because settlements are large.
func split(settlements []Settlement, is func(*Settlement) bool) (some, others []Settlement) {
	first := 0
	for first < len(settlements) && is(&settlements[first]) {
		first++
	}
	some, settlements = settlements[:first:first], settlements[first:]
	for i := range settlements {
		if is(&settlements[i]) {
			some = append(some, settlements[i])
		} else {
			others = append(others, settlements[i])
		}
	}
	return some, others
}
