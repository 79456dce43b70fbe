package api

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tasktable/tasktable/store"
)

// scheduleTask schedules a task, and answers with the time at which it is due next.
func (c call) scheduleTask(ctx context.Context, task store.Task) (*receiptAnswer, error) {
	both := &withNext{batches: c.batches, next: c.schema.SQL(nextAttemptSQL), id: task.ID}
	receipt, err := c.tasks.Schedule(ctx, both, task)
	at, recurs, readErr := both.read()
	if err == nil && readErr != nil {
		err = fmt.Errorf("read when task %s is due next: %w", task.ID, readErr)
	}
	if err != nil {
		return nil, c.ofOthers(err)
	}
	answer := answerOf(receipt)
	answer.Body.Warnings = c.warnings(ctx, task)
	if answer.Body.NextAttemptAt = at; recurs {
		answer.Body.NextAttemptAt, err = c.nextFire(ctx, task.ID)
	}
	return answer, err
}

// nextAttemptSQL tells when a task is due next. A task that runs or has ended has no such time.
const nextAttemptSQL = `
SELECT t.next_attempt_at, t.cron IS NOT NULL FROM tasktable.scheduled_tasks AS t WHERE t.id = $1::text`

// nextFire tells when a recurring task fires next. The leader may not have planned that fire yet, so it is computed.
func (c call) nextFire(ctx context.Context, id string) (*time.Time, error) {
	forecast, err := c.inspector.NextFires(ctx, c.db, id, 1)
	if err != nil || len(forecast.Fires) == 0 {
		return nil, err //nolint:wrapcheck // it names the task
	}
	return &forecast.Fires[0].At, nil
}

// batcher sends several statements in one round trip, as one transaction.
type batcher interface {
	SendBatch(ctx context.Context, batch *pgx.Batch) pgx.BatchResults
}

// withNext is the DB of one statement that schedules a task. It sends the statement together with the one that reads
// when the task is due next, because a transaction for the two would cost three more round trips.
type withNext struct {
	batches  batcher
	next, id string
	results  pgx.BatchResults
}

// Query sends both statements, and returns the rows of the first one.
func (w *withNext) Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error) {
	if w.results != nil { // of a statement that looked at calendars
		if err := w.results.Close(); err != nil {
			return nil, err //nolint:wrapcheck // it passes the query on
		}
	}
	var batch pgx.Batch
	batch.Queue(sql, args...)
	batch.Queue(w.next, w.id)
	w.results = w.batches.SendBatch(ctx, &batch)
	return w.results.Query() //nolint:wrapcheck // it passes the query on
}

// read returns the answer to the second statement. The rows of the first one must have been read.
func (w *withNext) read() (at *time.Time, recurs bool, err error) {
	if w.results == nil { // the store has refused the task
		return nil, false, nil
	}
	err = w.results.QueryRow().Scan(&at, &recurs)
	if errors.Is(err, pgx.ErrNoRows) { // a policy of the database hides the task
		err = nil
	}
	return at, recurs, errors.Join(err, w.results.Close())
}
