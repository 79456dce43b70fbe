package prove

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tasktable/tasktable/store"
)

const (
	feedEvery   = 250 * time.Millisecond
	feedLead    = 500 * time.Millisecond // for the first ones to be scheduled in
	feedMost    = 500                    // tasks of one transaction
	leastMillis = 10
	mostMillis  = 90
	expiration  = 3 * time.Second // less than it takes to find a node dead
)

var tasks = store.New(store.Config{Service: "prove"})

// feed schedules four fifths of the tasks at once, for all the time, and the others as time goes by, due when they are scheduled.
func (r *run) feed(ctx context.Context) error {
	ahead := r.Tasks - r.Tasks/5
	for from := 0; from < ahead; from += feedMost {
		// In the order of their times, so that the first do not wait for the last.
		due := func(n int) time.Time {
			return r.begin.Add(feedLead + time.Duration((float64(n)+rand.Float64())/float64(ahead)*float64(r.Over-feedLead)))
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
			if err := r.accept(ctx, from, min(from+feedMost, to), func(int) time.Time { return time.Time{} }); err != nil {
				return err
			}
		}
	}
	return nil
}

// What was scheduled, as the table has it now. In the transaction that schedules, as an application's own rows would be.
const acceptSQL = `
INSERT INTO proof.accepted (task_id, transactional, to_cancel, due_at, expires_at)
SELECT id, type = 'PROVE_TX', id = ANY ($2::text[]), scheduled_at, scheduled_at + expiration
FROM tasktable.scheduled_tasks WHERE id = ANY ($1::text[])`

// accept schedules the tasks of some numbers; of a zero time: for now.
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
	// A kill uses up an attempt of what it hits, and one task may be hit again and again.
	task := store.Task{Payload: p, MaxAttempts: 1000, ExpectedExecutionTime: 10 * time.Second}
	if n%2 == 1 {
		task.Payload = transactional(p)
	}
	if n%50 < 2 {
		task.Expiration = expiration
	}
	return task
}

// About when they start, so that some run already.
const cancelSomeSQL = `
SELECT c.id FROM proof.accepted AS a CROSS JOIN LATERAL tasktable.cancel(a.task_id, 'prove') AS c
WHERE a.to_cancel AND a.due_at BETWEEN $1::timestamptz AND $2::timestamptz AND c.outcome = 'cancelled'`

// A few at a time: a statement that takes long would keep their rows from the nodes.
const cancelLaterSQL = `
SELECT c.id FROM (
    SELECT a.task_id FROM proof.accepted AS a JOIN tasktable.scheduled_tasks AS t ON t.id = a.task_id
    WHERE t.status = 'QUEUED' AND a.due_at > clock_timestamp() LIMIT 200
) AS later CROSS JOIN LATERAL tasktable.cancel(later.task_id, 'prove') AS c
WHERE c.outcome = 'cancelled'`

// Only now, after the commit: a start that the gate allowed before may stand.
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
		// Not ctx: what is cancelled must be recorded, too.
		if _, err := r.cancel(context.WithoutCancel(ctx), cancelSomeSQL, since, until); err != nil {
			return err
		}
		since = until
	}
}

// cancelLater cancels all that is not due yet.
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
	rows, err := r.Pool.Query(ctx, sql, args...)
	if err != nil {
		return 0, fmt.Errorf("cancel tasks: %w", err)
	}
	ids, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		return 0, fmt.Errorf("cancel tasks: %w", err)
	}
	if _, err := r.Pool.Exec(ctx, cancelledSQL, ids); err != nil {
		return 0, fmt.Errorf("record cancelled tasks: %w", err)
	}
	return len(ids), nil
}
