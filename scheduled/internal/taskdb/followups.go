package taskdb

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/tasktable/tasktable/scheduled/internal/pg"
	"github.com/tasktable/tasktable/store"
)

// followUp schedules the follow-ups of all settled attempts, each in the name of the task that asked for it. It leaves
// out the follow-ups of an attempt whose fence is lost, and of one whose task was cancelled meanwhile, unless they
// commit with the handler's own writes. An attempt whose task was edited meanwhile has its follow-ups, too, except one
// with the task's own id, because the newer edit wins, and those for the case that the task dies.
func (s Queries) followUp(
	ctx context.Context, q pg.DB, service string, settlements []Settlement, done []SettleResult,
) error {
	asked := askedFor(settlements, done)
	// All transactions insert in the order of schedule_many, so that no two of them deadlock. Of two with one id the
	// later wins.
	slices.SortStableFunc(asked, func(a, b followUp) int { return cmp.Compare(a.task.ID+"~", b.task.ID+"~") })
	for left := asked; len(left) > 0; {
		part := left[:fits(left)]
		if err := s.schedulePart(ctx, q, service, part); err != nil {
			return err
		}
		left = left[len(part):]
	}
	return s.noteSpawned(ctx, q, asked)
}

// askedFor lists the follow-ups that are to be scheduled.
func askedFor(settlements []Settlement, done []SettleResult) (asked []followUp) {
	states := ByFence(done)
	for i := range settlements {
		one := &settlements[i]
		state := states[one.Fence]
		if !state.Settled || one.To == store.StatusFailed && !state.Current { // it has not died
			continue
		}
		if !state.Current && state.Status == string(store.StatusCancelled) && !one.InTx {
			continue
		}
		for _, task := range one.Effects.FollowUps {
			own := IDOf(task) == one.ID
			if own && !state.Current {
				continue
			}
			asked = append(asked, followUp{from: one, own: own, woken: own && state.Woken, task: task})
		}
	}
	return asked
}

const (
	// maxPartFollowUps is how many follow-ups one statement schedules at most.
	maxPartFollowUps = 1000
	// maxPartBytes bounds the payloads of one statement. All its tasks are one JSON text.
	maxPartBytes = 16 << 20
)

// fits returns how many of the follow-ups one statement schedules.
func fits(asked []followUp) (n int) {
	for size := 0; n < min(len(asked), maxPartFollowUps); n++ {
		if payload, ok := asked[n].task.Payload.(store.JSON); ok {
			size += len(payload)
		}
		if n > 0 && size > maxPartBytes {
			break
		}
	}
	return n
}

// schedulePart schedules follow-ups with one statement, and notes their receipts.
func (s Queries) schedulePart(ctx context.Context, q pg.DB, service string, part []followUp) error {
	tasks := make([]store.TaskAs, len(part))
	for i, f := range part {
		by := "task " + f.from.ID
		if len(by) > store.MaxIDBytes {
			by = service
		}
		tasks[i] = store.TaskAs{Task: f.task, By: by, Trace: f.from.Effects.Trace}
	}
	receipts, err := store.New(store.Config{Schema: s.Schema.String(), Service: service}).ScheduleAs(ctx, q, tasks)
	if err != nil {
		return fmt.Errorf("schedule %d follow-ups: %w", len(tasks), err)
	}
	for i, receipt := range receipts {
		part[i].receipt = receipt
	}
	return nil
}

const runNowSQL = `SELECT outcome FROM tasktable.run_now($1::text, $2::text, false)`

// If two tasks have asked for the same follow-up, the later counts.
const noteSpawnedSQL = `
SELECT tasktable.note_spawned(f.id, nullif(f.asked_by, ''), f.created)
FROM unnest($1::text[], $2::text[], $3::boolean[]) AS f (id, asked_by, created)`

// noteSpawned writes to each follow-up which task asked for it, unless it is that task itself. It leaves alone what the
// upsert has left alone. If somebody called run_now during an attempt whose task has scheduled itself for another time,
// noteSpawned calls run_now anew. Otherwise that call would be lost.
func (s Queries) noteSpawned(ctx context.Context, q pg.DB, asked []followUp) error {
	var ids, askedBy []string
	var created []bool
	for _, f := range asked {
		by := f.from.ID
		if f.own {
			by = ""
		}
		if f.woken {
			if _, err := q.Exec(ctx, s.Schema.SQL(runNowSQL), f.from.ID, "task "+f.from.ID); err != nil {
				return fmt.Errorf("run task %s now: %w", f.from.ID, err)
			}
		}
		if f.receipt.Outcome != store.Unchanged && f.receipt.Outcome != store.Finished {
			ids, askedBy = append(ids, f.receipt.ID), append(askedBy, by)
			created = append(created, f.receipt.Outcome == store.Created)
		}
	}
	if len(ids) == 0 {
		return nil
	}
	_, err := q.Exec(ctx, s.Schema.SQL(noteSpawnedSQL), ids, askedBy, created)
	return pg.Annotate(err, "write which tasks asked for follow-ups")
}

// followUp is a task that a settled attempt has scheduled.
type followUp struct {
	from    *Settlement
	own     bool // the follow-up has the id of the task that asked for it
	woken   bool // it is its own, and somebody has called run_now during the attempt
	task    store.Task
	receipt store.Receipt
}

// IDOf is the id that a follow-up will have. It is "" if the follow-up gets a new id.
func IDOf(task store.Task) string {
	if task.ID != "" {
		return task.ID
	}
	return store.IDOf(task.Payload)
}

// followUpIDs returns the ids of all tasks that settling with follow-ups touches. It returns none if there are no
// follow-ups.
func followUpIDs(settlements []Settlement) []string {
	var ids []string
	for _, one := range settlements {
		for _, task := range one.Effects.FollowUps {
			if id := IDOf(task); id != "" {
				ids = append(ids, id)
			}
		}
	}
	if len(ids) == 0 {
		return nil
	}
	return append(ids, column(settlements, func(s *Settlement) string { return s.ID })...)
}
