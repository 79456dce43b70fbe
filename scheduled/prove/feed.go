package prove

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tasktable/tasktable/scheduled/internal/pg"
	"github.com/tasktable/tasktable/store"
)

const (
	feedEvery   = 250 * time.Millisecond
	feedLead    = 500 * time.Millisecond // the time before the first tasks are due
	feedMost    = 500                    // tasks of one transaction
	leastMillis = 10
	mostMillis  = 90
	expiration  = 3 * time.Second // shorter than the time after which a silent node is dead
)

var tasks = store.New(store.Config{Service: "prove"})

// feed schedules four fifths of the tasks at once, spread over the whole time. It schedules the others bit by bit,
// each due at once.
func (r *run) feed(ctx context.Context) error {
	ahead := r.Tasks - r.Tasks/5
	for from := 0; from < ahead; from += feedMost {
		// The tasks are in the order of their times, so that the first are scheduled before they are due.
		due := func(n int) time.Time {
			place := (float64(n) + rand.Float64()) / float64(ahead)
			return r.begin.Add(feedLead + time.Duration(place*float64(r.Over-feedLead)))
		}
		if err := r.accept(ctx, from, min(from+feedMost, ahead), due); err != nil {
			return err
		}
	}
	ticks := max(1, int(r.Over/feedEvery)-1)
	ticker := time.NewTicker(feedEvery)
	defer ticker.Stop()
	left := r.Tasks - ahead
	for i := range ticks {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-ticker.C:
		}
		for from, to := ahead+left*i/ticks, ahead+left*(i+1)/ticks; from < to; from += feedMost {
			now := func(int) time.Time { return time.Time{} }
			if err := r.accept(ctx, from, min(from+feedMost, to), now); err != nil {
				return err
			}
		}
	}
	return nil
}

// acceptSQL records the scheduled tasks from their table. It runs in the transaction that schedules them, as a
// statement for an application's own rows would.
const acceptSQL = `
INSERT INTO proof.accepted (task_id, transactional, to_cancel, due_at, expires_at)
SELECT id, type = 'PROVE_TX', id = ANY ($2::text[]), scheduled_at, scheduled_at + expiration
FROM tasktable.scheduled_tasks WHERE id = ANY ($1::text[])`

// accept schedules the tasks with the numbers from to to-1. A zero due time means now.
func (r *run) accept(ctx context.Context, from, to int, due func(n int) time.Time) error {
	var some []store.Task
	ids, toCancel := []string{}, []string{}
	for n := from; n < to; n++ {
		task := newTask(n)
		task.At = due(n)
		id := store.IDOf(task.Payload)
		ids = append(ids, id)
		if n%40 == 7 || n%40 == 28 {
			toCancel = append(toCancel, id)
		}
		some = append(some, task)
	}
	err := pgx.BeginFunc(ctx, r.Pool, func(tx pgx.Tx) error {
		if _, err := tasks.ScheduleMany(ctx, tx, some); err != nil {
			return err
		}
		_, err := tx.Exec(ctx, acceptSQL, ids, toCancel)
		return err
	})
	if err != nil {
		return fmt.Errorf("schedule %d tasks: %w", to-from, err)
	}
	return nil
}

// newTask makes every other task transactional, and gives two of fifty an expiration.
func newTask(n int) store.Task {
	p := plain{fmt.Sprintf("%06d", n), leastMillis + rand.N(mostMillis-leastMillis)}
	// A task has many attempts, because a kill uses up an attempt of each running task, and may hit a task again and
	// again.
	task := store.Task{Payload: p, MaxAttempts: 1000, ExpectedExecutionTime: 10 * time.Second}
	if n%2 == 1 {
		task.Payload = transactional(p)
	}
	if n%50 < 2 {
		task.Expiration = expiration
	}
	return task
}

// cancelSomeSQL cancels tasks at about the time when they start, so that some of them run already.
const cancelSomeSQL = `
SELECT c.id FROM proof.accepted AS a CROSS JOIN LATERAL tasktable.cancel(a.task_id, 'prove') AS c
WHERE a.to_cancel AND a.due_at BETWEEN $1::timestamptz AND $2::timestamptz AND c.outcome = 'cancelled'`

// cancelLaterSQL cancels a few tasks at a time, because a long statement would keep their rows locked against the
// nodes.
const cancelLaterSQL = `
SELECT c.id FROM (
    SELECT a.task_id FROM proof.accepted AS a JOIN tasktable.scheduled_tasks AS t ON t.id = a.task_id
    WHERE t.status = 'QUEUED' AND a.due_at > clock_timestamp() LIMIT 200
) AS later CROSS JOIN LATERAL tasktable.cancel(later.task_id, 'prove') AS c
WHERE c.outcome = 'cancelled'`

// cancelledSQL runs after the commit of the cancel, because a task may rightly start before that commit.
const cancelledSQL = `INSERT INTO proof.cancelled (task_id) SELECT unnest($1::text[])`

// cancelSome cancels a twentieth of the tasks, each about when it is due.
func (r *run) cancelSome(ctx context.Context) error {
	ticker := time.NewTicker(20 * time.Millisecond)
	defer ticker.Stop()
	for since := r.begin; ; {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-ticker.C:
		}
		var until time.Time
		if err := r.Scan(ctx, `SELECT clock_timestamp() + interval '5 ms'`, nil, &until); err != nil {
			return fmt.Errorf("ask the database's time: %w", err)
		}
		// This does not use ctx, because each cancelled task must be recorded.
		if _, err := r.cancel(context.WithoutCancel(ctx), cancelSomeSQL, since, until); err != nil {
			return err
		}
		since = until
	}
}

// cancelLater cancels all tasks that are not due yet.
func (r *run) cancelLater(ctx context.Context) error {
	for {
		done, err := r.cancel(ctx, cancelLaterSQL)
		if err != nil || done == 0 {
			return err
		}
		if _, err := r.show(ctx); err != nil {
			return err
		}
	}
}

// cancel returns how many tasks a query has cancelled.
func (r *run) cancel(ctx context.Context, sql string, args ...any) (done int, err error) {
	ids, err := pg.CollectColumn[string](ctx, r.Pool, "cancel tasks", sql, args...)
	if err != nil {
		return 0, err
	}
	if _, err := r.Pool.Exec(ctx, cancelledSQL, ids); err != nil {
		return 0, fmt.Errorf("record cancelled tasks: %w", err)
	}
	return len(ids), nil
}
