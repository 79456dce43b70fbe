package api

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tasktable/tasktable/store"
)

// scheduled answers a call that has scheduled the task.
func (c call) scheduled(ctx context.Context, receipt store.Receipt, task store.Task) (*receiptAnswer, error) {
	answer := answerOf(receipt, c.warnings(task)...)
	var err error
	answer.Body.NextAttemptAt, err = c.nextAttempt(ctx, receipt.ID)
	return answer, err
}

const nextAttemptSQL = `
SELECT t.next_attempt_at, t.cron IS NOT NULL FROM tasktable.scheduled_tasks AS t WHERE t.id = $1::text`

// nextAttempt tells when a task is due next. For a recurring task it is the next fire. The leader may not have planned
// that fire yet, so it is computed. A task that runs or has ended has none.
func (c call) nextAttempt(ctx context.Context, id string) (*time.Time, error) {
	rows, err := c.db.Query(ctx, c.schema.SQL(nextAttemptSQL), id)
	if err != nil {
		return nil, fmt.Errorf("read when task %s is due next: %w", id, err)
	}
	var at *time.Time
	var recurs bool
	if _, err := pgx.ForEachRow(rows, []any{&at, &recurs}, func() error { return nil }); err != nil {
		return nil, fmt.Errorf("read when task %s is due next: %w", id, err)
	}
	if !recurs {
		return at, nil
	}
	forecast, err := c.inspector.NextFires(ctx, c.db, id, 1)
	if err != nil || len(forecast.Fires) == 0 {
		return nil, err //nolint:wrapcheck // it names the task
	}
	return &forecast.Fires[0].At, nil
}
