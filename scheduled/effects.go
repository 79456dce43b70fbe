package scheduled

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"go.opentelemetry.io/otel/trace"

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
	rows, err := q.Query(ctx, s.schema.SQL(lockInOrderSQL), ids)
	if err != nil {
		return nil, nil, fmt.Errorf("lock %d tasks and follow-ups: %w", len(ids), err)
	}
	busy, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		return nil, nil, fmt.Errorf("lock %d tasks and follow-ups: %w", len(ids), err)
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

// followUp schedules what the settled attempts asked for, each in its task's name; also of an attempt whose task was edited
// meanwhile, but not of one whose fence is lost. There, one with the task's own id is left out: the newer edit wins over it.
func (s statements) followUp(ctx context.Context, q querier, now *time.Time, service string, settlements []settlement, done []settled) error {
	ended := make(map[int64]*settled, len(done))
	for i := range done {
		ended[done[i].Fence] = &done[i]
	}
	var ids []string
	for _, one := range settlements {
		if state := ended[one.Fence]; state != nil && state.Settled && len(one.Effects.FollowUps) > 0 {
			ids = append(ids, one.ID)
		}
	}
	if len(ids) == 0 {
		return nil
	}
	links, err := s.links(ctx, q, now, ids)
	if err != nil {
		return err
	}
	for _, one := range settlements {
		state := ended[one.Fence]
		if state == nil || !state.Settled {
			continue
		}
		if err := s.followUpOne(ctx, q, service, one, links[one.ID], state); err != nil {
			return fmt.Errorf("schedule follow-ups of task %s: %w", one.ID, err)
		}
	}
	return nil
}

func (s statements) followUpOne(ctx context.Context, q querier, service string, one settlement, from link, state *settled) error {
	var tasks []store.Task
	for _, task := range one.Effects.FollowUps {
		if state.Current || idOf(task) != one.ID {
			tasks = append(tasks, task)
		}
	}
	if len(tasks) == 0 {
		return nil
	}
	author := "task " + one.ID
	if len(author) > store.MaxIDBytes {
		author = service
	}
	ctx = trace.ContextWithSpanContext(ctx, store.SpanOf(one.Effects.Trace)) // also without one: ctx may be of another span
	receipts, err := store.New(store.Config{Schema: s.schema.String(), Service: author}).ScheduleMany(ctx, q, tasks)
	if err != nil {
		return err
	}
	slowed, err := s.link(ctx, q, from, from.atOnce(tasks), receipts)
	if slowed {
		state.Chain = from.Chain
	}
	return err
}

func byFence(done []settled) map[int64]settled {
	states := make(map[int64]settled, len(done))
	for _, one := range done {
		states[one.Fence] = one
	}
	return states
}

// idOf is the id a follow-up will have, or "" if it is given a new one.
func idOf(task store.Task) string {
	if task.ID != "" {
		return task.ID
	}
	return store.IDOf(task.Payload)
}

// followUpIDs is the ids that settling with follow-ups touches; none when there are no follow-ups.
func followUpIDs(settlements []settlement) []string {
	var ids []string
	for _, one := range settlements {
		for _, task := range one.Effects.FollowUps {
			if id := idOf(task); id != "" {
				ids = append(ids, id)
			}
		}
	}
	if len(ids) == 0 {
		return nil
	}
	for _, one := range settlements {
		ids = append(ids, one.ID)
	}
	return ids
}
