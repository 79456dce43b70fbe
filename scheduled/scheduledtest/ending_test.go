package scheduledtest_test

import (
	"context"
	"database/sql"
	"errors"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"

	"github.com/tasktable/tasktable/handlers"
	"github.com/tasktable/tasktable/scheduled/internal/enginetest"
	"github.com/tasktable/tasktable/scheduled/scheduledtest"
	"github.com/tasktable/tasktable/store"
	"github.com/tasktable/tasktable/store/storetest"
)

// until waits for the end of a handler's context, and says that it ended too early or by something else. The time until
// then began a little before the handler.
func until(ctx context.Context, after time.Duration) error {
	began := time.Now()
	after /= 2
	select {
	case <-ctx.Done():
	case <-time.After(time.Minute):
		return errors.New("the context has not ended")
	}
	if took, cause := time.Since(began), context.Cause(ctx); took < after || !errors.Is(cause, handlers.ErrDeadline) {
		return errors.New("the context ended after " + took.String() + " by " + cause.Error())
	}
	if end, there := ctx.Deadline(); !there || end.Before(began.Add(after)) || end.After(time.Now()) {
		return errors.New("the context's deadline is " + end.String())
	}
	return ctx.Err()
}

// A handler's context ends at the sooner of the task's timeout and deadline, and the attempt has failed.
func TestContextEndsAtTimeoutAndDeadline(t *testing.T) {
	t.Parallel()
	const short = 300 * time.Millisecond
	for name, change := range map[string]func(*store.Task){
		"timeout":      func(task *store.Task) { task.Timeout = time.Second },
		"deadline":     func(task *store.Task) { task.Deadline = fivePM.Add(short) },
		"deadline too": func(task *store.Task) { task.Timeout, task.Deadline = time.Hour, fivePM.Add(short) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			task := store.Task{ID: "a", Payload: reminder{"a"}, At: fivePM}
			change(&task)
			l := newLimited(t, nil)
			h := scheduledtest.New(t, l.tx, registry(t,
				handlers.Handle(func(ctx context.Context, _ *handlers.Task[reminder]) error { return until(ctx, short) })))
			if _, err := tasks.Schedule(t.Context(), l.tx, task); err != nil {
				t.Fatal(err)
			}
			ran := h.RunDueAt(t.Context(), fivePM)
			if len(ran) != 1 || ran[0].Outcome != store.AttemptRetried || !errors.Is(ran[0].Err, context.Canceled) {
				t.Fatalf("ran %+v", ran)
			}
			row, err := tasks.Get(t.Context(), l.tx, "a")
			if err != nil || row.Message == nil || *row.Message != handlers.ErrDeadline.Error()+": context canceled" {
				t.Errorf("the task is %+v, %v", row, err)
			}
			if task.Deadline.IsZero() {
				return
			}
			l.Harness = h
			l.runs(10*time.Second, "a") // it expires
			if row, err := tasks.Get(t.Context(), l.tx, "a"); err != nil || row.Status != store.StatusExpired ||
				row.Attempt != 1 {
				t.Errorf("the task is %+v, %v", row, err)
			}
		})
	}
}

// A task past its deadline does not run, also if an earlier handler moves the deadline past all checks.
func TestTaskPastItsDeadlineDoesNotRun(t *testing.T) {
	t.Parallel()
	tx := begin(t, storetest.Pool(t))
	h := scheduledtest.New(t, tx, registry(t,
		handlers.HandleTx(func(ctx context.Context, tx pgx.Tx, task *handlers.Task[reminder]) error {
			if task.ID != "first" {
				t.Errorf("%s ran", task.ID)
			}
			for _, sql := range []string{
				`SET LOCAL session_replication_role = replica`, `UPDATE tasktable.scheduled_tasks SET deadline = '2030-05-01Z'
					WHERE id = 'moved'`, `SET LOCAL session_replication_role = origin`,
			} {
				if _, err := tx.Exec(ctx, sql); err != nil {
					return err
				}
			}
			return nil
		})))
	for id, at := range map[string]time.Duration{"late": -time.Hour, "first": -time.Minute, "moved": 0} {
		task := store.Task{ID: id, Payload: reminder{id}, At: fivePM.Add(at)}
		if id == "late" {
			task.Deadline = fivePM
		}
		schedule(t, tx, task)
	}
	outcomes := map[string]store.AttemptOutcome{}
	for _, one := range h.RunDueAt(t.Context(), fivePM) {
		outcomes[one.ID] = one.Outcome
	}
	if len(outcomes) != 3 || outcomes["late"] != store.AttemptExpired || outcomes["first"] != store.AttemptCompleted ||
		outcomes["moved"] != store.AttemptExpired {
		t.Errorf("outcomes %v", outcomes)
	}
}

// What a transactional handler writes is not kept if its context has ended, although it returns nil. The test's
// transaction goes on.
func TestWritesPastTheTimeoutAreNotKept(t *testing.T) {
	t.Parallel()
	pool := storetest.Pool(t)
	db := stdlib.OpenDBFromPool(pool)
	t.Cleanup(func() { _ = db.Close() })
	sqlTx, err := db.BeginTx(t.Context(), nil)
	enginetest.OK(t, err)
	defer func() { _ = sqlTx.Rollback() }()
	const create = `CREATE TABLE written ()`
	run := func(h *scheduledtest.Harness, db store.DB) {
		t.Helper()
		task := store.Task{Payload: reminder{"a"}, At: fivePM, Timeout: time.Second}
		schedule(t, db, task)
		if ran := h.RunDueAt(t.Context(), fivePM); len(ran) != 1 || ran[0].Outcome != store.AttemptRetried ||
			!errors.Is(ran[0].Err, handlers.ErrDeadline) {
			t.Errorf("ran %+v", ran)
		}
		if receipt, err := tasks.Cancel(t.Context(), db, "task-REMINDER-a"); err != nil ||
			receipt.Outcome != store.Cancelled {
			t.Errorf("the transaction does not go on: %+v, %v", receipt, err)
		}
	}
	run(scheduledtest.NewSQL(t, sqlTx, registry(t,
		handlers.HandleSQLTx(func(ctx context.Context, tx *sql.Tx, _ *handlers.Task[reminder]) error {
			_, err := tx.ExecContext(ctx, create)
			<-ctx.Done()
			return err
		}))), store.SQL(sqlTx))
	tx := begin(t, storetest.Pool(t))
	run(scheduledtest.New(t, tx, registry(t,
		handlers.HandleTx(func(ctx context.Context, tx pgx.Tx, _ *handlers.Task[reminder]) error {
			_, err := tx.Exec(ctx, create)
			<-ctx.Done()
			return err
		}))), tx)
	var written, writtenSQL bool
	const sql = `SELECT to_regclass('written') IS NOT NULL`
	if err := errors.Join(tx.QueryRow(t.Context(), sql).Scan(&written),
		sqlTx.QueryRowContext(t.Context(), sql).Scan(&writtenSQL)); err != nil || written || writtenSQL {
		t.Errorf("a write was kept: %t, %t, %v", written, writtenSQL, err)
	}
}
