package taskdb

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tasktable/tasktable/scheduled/internal/pg"
	"github.com/tasktable/tasktable/store"
)

// followUp schedules the follow-ups of all settled attempts with one statement, each in the name of the task that
// asked for it. It leaves out the follow-ups of an attempt whose fence is lost. An attempt whose task was edited
// meanwhile has its follow-ups, too, except one with the task's own id, because the newer edit wins.
func (s Queries) followUp(
	ctx context.Context, q pg.DB, now *time.Time, service string, settlements []Settlement, done []SettleResult,
) error {
	var (
		tasks []store.TaskAs
		asked []followUp
	)
	states := statesByFence(done)
	for i := range settlements {
		one := &settlements[i]
		state := states[one.Fence]
		if state == nil || !state.Settled {
			continue
		}
		by := "task " + one.ID
		if len(by) > store.MaxIDBytes {
			by = service
		}
		for _, task := range one.Effects.FollowUps {
			own := IDOf(task) == one.ID
			if own && !state.Current {
				continue
			}
			tasks = append(tasks, store.TaskAs{Task: task, By: by, Trace: one.Effects.Trace})
			asked = append(asked, followUp{from: one, state: state, own: own, task: task})
		}
	}
	if len(tasks) == 0 {
		return nil
	}
	receipts, err := store.New(store.Config{Schema: s.Schema.String(), Service: service}).ScheduleAs(ctx, q, tasks)
	if err != nil {
		return fmt.Errorf("schedule %d follow-ups: %w", len(tasks), err)
	}
	for i, receipt := range receipts {
		asked[i].receipt = receipt
	}
	// putOff is first, because a task that ran must not count as the follow-up that another task of this group has
	// just made of it.
	if err := s.putOff(ctx, q, now, asked); err != nil {
		return err
	}
	return s.spawned(ctx, q, asked)
}

// followUp is a task that a settled attempt has scheduled.
type followUp struct {
	from    *Settlement
	state   *SettleResult // the state of from
	own     bool          // the follow-up has the id of the task that asked for it
	task    store.Task
	receipt store.Receipt
}

// rerunWait is the least time from the start of an attempt to a run that its task may ask for again and again. These
// are the task's own next run, by Again, Snooze or a follow-up with its id, and a follow-up of a task that is itself
// a follow-up. Without it, a handler that asks for "now" each time would write to the database without a pause.
// SettleSQL, AgainSQL and putOffSQL have the same second.
const rerunWait = time.Second

// atOnce reports whether the follow-up was written and may be due before rerunWait is over.
func (f *followUp) atOnce() bool {
	written := f.receipt.Outcome != store.Unchanged && f.receipt.Outcome != store.Finished
	if !written || f.task.Recurrence != nil || f.from.StartedAt == nil {
		return false
	}
	return f.task.At.Before(f.from.StartedAt.Add(rerunWait)) // a task without At may be due at once, too
}

// A task is a follow-up if its row says which task asked for it. No name of a service can pretend that, and an edit
// does not hide it. The statement writes no column whose edit draws a revision, so scheduled_at keeps the time that
// was asked for.
//
// The answer has the number of generations behind the task that asked, including that task, but at most
// MaxGenerations. A ring is counted once round.
//
// $1 is now. $2 to $5 have, for each follow-up, the task and the fence of the attempt that asked, the time when that
// attempt began, and the follow-up's id. $6 is MaxGenerations.
const putOffSQL = `
WITH asked AS (
    SELECT f.fence, f.asked_by, f.id, f.started_at + interval '1 second' AS until
    FROM unnest($2::text[], $3::bigint[], $4::timestamptz[], $5::text[]) AS f (asked_by, fence, started_at, id)
    WHERE f.id = f.asked_by OR EXISTS (
        SELECT 1 FROM tasktable.scheduled_tasks AS t WHERE t.id = ANY (ARRAY[f.asked_by]) AND t.spawned_by IS NOT NULL)
), latest AS (
    SELECT asked.id, max(asked.until) AS until FROM asked
    WHERE asked.until > coalesce($1::timestamptz, clock_timestamp()) GROUP BY asked.id
), updated AS (
    UPDATE tasktable.scheduled_tasks AS t SET next_attempt_at = latest.until
    FROM latest WHERE t.id = ANY (ARRAY[latest.id]) AND t.next_attempt_at < latest.until
    RETURNING t.id::text AS id
)
SELECT slowed.fence, chain.generations
FROM (SELECT DISTINCT asked.fence, asked.asked_by FROM updated JOIN asked USING (id)) AS slowed
CROSS JOIN LATERAL (
    WITH RECURSIVE chain AS (
        SELECT slowed.asked_by COLLATE "C" AS id, 1 AS n
        UNION ALL
        SELECT t.spawned_by::text COLLATE "C", chain.n + 1
        FROM chain CROSS JOIN LATERAL (
            SELECT t.spawned_by FROM tasktable.scheduled_tasks AS t WHERE t.id = ANY (ARRAY[chain.id]) LIMIT 1
        ) AS t
        WHERE chain.n < $6::int AND t.spawned_by <> slowed.asked_by
    )
    SELECT max(chain.n) AS generations FROM chain
) AS chain`

// putOff delays the follow-ups that are due at once, if they could form an endless chain.
func (s Queries) putOff(ctx context.Context, q pg.DB, now *time.Time, followUps []followUp) error {
	var (
		fences       []int64
		startedAts   []time.Time
		askedBy, ids []string
	)
	states := map[int64]*SettleResult{}
	for i := range followUps {
		f := &followUps[i]
		if !f.atOnce() {
			continue
		}
		states[f.from.Fence] = f.state
		askedBy, fences = append(askedBy, f.from.ID), append(fences, f.from.Fence)
		startedAts, ids = append(startedAts, *f.from.StartedAt), append(ids, f.receipt.ID)
	}
	if len(ids) == 0 {
		return nil
	}
	rows, err := q.Query(ctx, s.Schema.SQL(putOffSQL), now, askedBy, fences, startedAts, ids, MaxGenerations)
	if err != nil {
		return fmt.Errorf("put off follow-ups: %w", err)
	}
	var (
		fence       int64
		generations int
	)
	_, err = pgx.ForEachRow(rows, []any{&fence, &generations}, func() error {
		states[fence].PutOff, states[fence].Generations = true, generations
		return nil
	})
	return pg.Annotate(err, "put off follow-ups")
}

// statesByFence returns pointers into done.
func statesByFence(done []SettleResult) map[int64]*SettleResult {
	states := make(map[int64]*SettleResult, len(done))
	for i := range done {
		states[done[i].Fence] = &done[i]
	}
	return states
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
	for _, one := range settlements {
		ids = append(ids, one.ID)
	}
	return ids
}

// MaxGenerations is how many runs of one chain may be put off in a window before the node writes a line to the log. A
// handler that cuts long work into a few slices is not worth a line. One task that asks for ever to run at once
// is put off nearly sixty times a minute.
const MaxGenerations = 30
