package main

import (
	"cmp"
	"context"
	"fmt"
	"time"
)

const insertSQL = `
INSERT INTO tasktable.scheduled_tasks (id, payload, scheduled_at, group_key)
SELECT $1 || ' ' || n, jsonb_build_object('type', 'BENCH', 'n', n), %s, %s FROM generate_series(1, $2::int) AS n`

// insert schedules tasks with one statement. Their ids are the prefix and a number n. due is an SQL expression of n.
func (d *database) insert(ctx context.Context, prefix string, tasks int, due string) error {
	if _, err := d.Pool.Exec(ctx, fmt.Sprintf(insertSQL, due, cmp.Or(d.group, "NULL")), prefix, tasks); err != nil {
		return fmt.Errorf("insert %d tasks: %w", tasks, err)
	}
	return nil
}

// exec runs statements without arguments.
func (d *database) exec(ctx context.Context, statements ...string) error {
	for _, statement := range statements {
		if _, err := d.Pool.Exec(ctx, statement); err != nil {
			return fmt.Errorf("%s: %w", statement, err)
		}
	}
	return nil
}

// quiet vacuums and writes a checkpoint, so that the measurement does not include work that the preparation has left
// behind.
func (d *database) quiet(ctx context.Context) error {
	return d.exec(ctx, "VACUUM (ANALYZE) tasktable.scheduled_tasks", "CHECKPOINT")
}

// settled waits until no task of the prefix waits, and no claim holds any task.
func (d *database) settled(ctx context.Context, prefix string, within time.Duration) error {
	return d.Until(ctx, within, "all tasks are settled", `
		SELECT NOT EXISTS (SELECT 1 FROM tasktable.scheduled_tasks
			WHERE lease_expires_at IS NOT NULL AND type <> '`+heldType+`')
			AND NOT EXISTS (SELECT 1 FROM tasktable.scheduled_tasks WHERE next_attempt_at IS NOT NULL AND cron IS NULL
			AND starts_with(id, $1))`, prefix)
}

// A claim that a busy machine handed back before its task began is no run, so its line does not count.
const verifySQL = `
WITH run AS (
    SELECT * FROM tasktable.scheduled_task_executions WHERE starts_with(task_id, $1) AND outcome <> 'RELEASED'
)
SELECT (SELECT count(*) FROM tasktable.scheduled_tasks WHERE starts_with(id, $1) AND status <> 'COMPLETED'),
    (SELECT count(*) FROM tasktable.scheduled_tasks WHERE starts_with(id, $1)),
    (SELECT count(*) FROM run),
    (SELECT count(*) FROM run WHERE outcome <> 'COMPLETED'),
    (SELECT count(*) FROM (SELECT task_id FROM run GROUP BY task_id HAVING count(*) > 1) AS t),
    (SELECT count(*) FROM run WHERE started_at < due_at OR started_at < scheduled_at)`

const verified = "every task COMPLETED once, one run each, no River job left, none started early"

// done waits until the tasks of the prefix are settled, and verifies them.
func (d *database) done(ctx context.Context, prefix string, tasks int) error {
	if err := d.settled(ctx, prefix, time.Minute); err != nil {
		return err
	}
	return d.verify(ctx, prefix, tasks)
}

// verify checks by SQL that each task of the prefix COMPLETED once.
func (d *database) verify(ctx context.Context, prefix string, tasks int) error {
	const goneSQL = `SELECT NOT EXISTS (SELECT 1 FROM tasktable.river_job WHERE kind <> '` + heldType + `')`
	err := d.Until(ctx, 10*time.Second, "River's jobs are gone", goneSQL)
	if err != nil {
		return err
	}
	var open, all, executions, others, twice, early int
	err = d.Scan(ctx, verifySQL, []any{prefix + " "}, &open, &all, &executions, &others, &twice, &early)
	if err != nil {
		return fmt.Errorf("verify: %w", err)
	}
	if open != 0 || all != tasks || executions != tasks || others != 0 || twice != 0 || early != 0 {
		return failed("of %d tasks %d exist, %d are not COMPLETED; %d runs, %d not COMPLETED, %d tasks ran "+
			"twice, %d started early", tasks, all, open, executions, others, twice, early)
	}
	return nil
}
