package taskdb

import (
	"cmp"
	"context"
	"fmt"
	"iter"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tasktable/tasktable/scheduled/internal/pg"
	"github.com/tasktable/tasktable/store"
)

// followUp schedules the follow-ups of all settled attempts, each in the name of the task that asked for it. It leaves
// out the follow-ups of an attempt whose fence is lost, and of one whose task was cancelled meanwhile, unless they
// commit with the handler's own writes. An attempt whose task was edited meanwhile has its follow-ups, too, except one
// with the task's own id, because the newer edit wins, and those for the case that the task dies.
func (s Queries) followUp(
	ctx context.Context, q pg.DB, now *time.Time, service string, settlements []Settlement, done []SettleResult,
) error {
	asked := askedFor(settlements, done)
	// All transactions insert in the order of schedule_many, so that no two of them deadlock. Of two with one id the
	// later wins.
	slices.SortStableFunc(asked, func(a, b followUp) int { return cmp.Compare(a.task.ID+"~", b.task.ID+"~") })
	for part := range partsOf(asked) {
		if err := s.schedulePart(ctx, q, service, part); err != nil {
			return err
		}
	}
	if err := s.wakeAgain(ctx, q, asked); err != nil {
		return err
	}
	// putOff is first, because a task that ran must not count as the follow-up that another task of this group has
	// just made of it.
	if err := s.putOff(ctx, q, now, asked); err != nil {
		return err
	}
	return s.spawned(ctx, q, asked)
}

// askedFor lists the follow-ups that are to be scheduled.
func askedFor(settlements []Settlement, done []SettleResult) (asked []followUp) {
	states := statesByFence(done)
	for i := range settlements {
		one := &settlements[i]
		state := states[one.Fence]
		if state == nil || !state.Settled || one.To == store.StatusFailed && !state.Current { // it has not died
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
			asked = append(asked, followUp{from: one, state: state, own: own, task: task})
		}
	}
	return asked
}

const (
	// FollowUpsAtOnce is how many follow-ups one statement schedules at most.
	FollowUpsAtOnce = 1000
	// maxPartBytes bounds the payloads of one statement. All its tasks are one JSON text.
	maxPartBytes = 16 << 20
)

// partsOf cuts follow-ups into parts, each of which one statement schedules.
func partsOf(asked []followUp) iter.Seq[[]followUp] {
	return func(yield func([]followUp) bool) {
		for len(asked) > 0 {
			n, size := 0, 0
			for n < min(len(asked), FollowUpsAtOnce) {
				if payload, ok := asked[n].task.Payload.(store.JSON); ok {
					size += len(payload)
				}
				if n > 0 && size > maxPartBytes {
					break
				}
				n++
			}
			if !yield(asked[:n]) {
				return
			}
			asked = asked[n:]
		}
	}
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

// wakeAgain calls run_now anew for tasks that have scheduled themselves for another time although somebody had called
// run_now during the attempt. Otherwise that call would be lost.
func (s Queries) wakeAgain(ctx context.Context, q pg.DB, asked []followUp) error {
	for _, one := range asked {
		if one.own && one.state.Woken {
			if _, err := q.Exec(ctx, s.Schema.SQL(runNowSQL), one.from.ID, "task "+one.from.ID); err != nil {
				return fmt.Errorf("run task %s now: %w", one.from.ID, err)
			}
		}
	}
	return nil
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
// are the task's own next run, by Again, Snooze or a follow-up with its id, a follow-up with the id of a task behind it
// in the chain of follow-ups, and the next step of a chain that had MaxSteps within this time. Without it, a handler
// that asks for "now" each time would write to the database without a pause. SettleSQL, AgainSQL and putOffSQL have the
// same second.
const rerunWait = time.Second

// MaxSteps is how many steps of one chain of follow-ups may start within rerunWait.
const MaxSteps = 10

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
// was asked for. Nothing in it compares each follow-up with each other one, because an attempt may have ten thousand.
//
// The answer has the number of generations behind the task that asked, including that task, but at most $6. A ring is
// counted once round.
//
// $1 is now. $2 to $5 have, for each follow-up, the task and the fence of the attempt that asked, the time when that
// attempt began, and the follow-up's id. $7 is MaxSteps.
const putOffSQL = `
WITH RECURSIVE asked AS MATERIALIZED (
    SELECT f.asked_by, f.fence, f.started_at, f.id
    FROM unnest($2::text[], $3::bigint[], $4::timestamptz[], $5::text[]) AS f (asked_by, fence, started_at, id)
), behind AS ( -- of each task that asked: the task itself, the task that asked for it, and so on
    SELECT DISTINCT asked.fence, asked.started_at, asked.asked_by COLLATE "C" AS id, asked.started_at AS began, 1 AS n
    FROM asked
    UNION ALL
    SELECT behind.fence, behind.started_at, up.id COLLATE "C", up.started_at, behind.n + 1
    FROM behind CROSS JOIN LATERAL (
        SELECT p.id::text AS id, p.started_at
        FROM tasktable.scheduled_tasks AS t CROSS JOIN LATERAL (
            SELECT p.id, p.started_at FROM tasktable.scheduled_tasks AS p WHERE p.id = ANY (ARRAY[t.spawned_by]) LIMIT 1
        ) AS p
        WHERE t.id = ANY (ARRAY[behind.id]) LIMIT 1
    ) AS up
    WHERE behind.n < $7::int
), asker AS MATERIALIZED (
    SELECT behind.fence, array_agg(behind.id) AS chain,
        bool_or(behind.n = $7::int AND behind.began > behind.started_at - interval '1 second') AS quick
    FROM behind GROUP BY behind.fence
), latest AS (
    SELECT asked.id, max(asked.started_at) + interval '1 second' AS until, array_agg(asked.fence) AS fences,
        array_agg(asked.asked_by) AS askers
    FROM asked JOIN asker ON asker.fence = asked.fence
    WHERE asker.quick OR asked.id = ANY (asker.chain)
    GROUP BY asked.id
    HAVING max(asked.started_at) + interval '1 second' > coalesce($1::timestamptz, clock_timestamp())
), updated AS (
    UPDATE tasktable.scheduled_tasks AS t SET next_attempt_at = latest.until, due_at = NULL
    FROM latest WHERE t.id = ANY (ARRAY[latest.id]) AND t.next_attempt_at < latest.until
    RETURNING latest.fences, latest.askers
)
SELECT slowed.fence, chain.generations
FROM (
    SELECT DISTINCT one.fence, one.asked_by
    FROM updated CROSS JOIN LATERAL unnest(updated.fences, updated.askers) AS one (fence, asked_by)
) AS slowed
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
	rows, err := q.Query(ctx, s.Schema.SQL(putOffSQL), now, askedBy, fences, startedAts, ids,
		MaxGenerations*MaxSteps, MaxSteps)
	if err != nil {
		return fmt.Errorf("put off follow-ups: %w", err)
	}
	var (
		fence       int64
		generations int
	)
	_, err = pgx.ForEachRow(rows, []any{&fence, &generations}, func() error {
		if generations >= MaxSteps { // a chain that does not come back is put off once in so many steps
			generations /= MaxSteps
		}
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
