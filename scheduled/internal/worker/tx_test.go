package worker

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tasktable/tasktable/handlers"
	"github.com/tasktable/tasktable/scheduled/internal/enginetest"
	"github.com/tasktable/tasktable/scheduled/internal/taskdb"
	"github.com/tasktable/tasktable/store"
)

// sqlJob is a job whose handler works in a database/sql transaction.
type sqlJob struct {
	Name string `json:"name"`
}

func (sqlJob) TaskType() string { return "SQL_JOB" }

// effectful starts a node whose handlers write a line in their transaction before the test steers them. The tasks of
// both kinds do the same; change gets the name of a task and its payload of that kind.
func effectful(
	t *testing.T, change func(*Config),
) (s *bench, both func(do func(kind string, schedule func(name string, change func(*store.Task))))) {
	t.Helper()
	s = benchOf(t)
	s.Exec(`CREATE TABLE effects (task_id text, attempt int, fence bigint)`)
	const insert = `INSERT INTO effects VALUES ($1, $2, $3)`
	s.node(change,
		handlers.HandleTx(func(ctx context.Context, tx pgx.Tx, task *handlers.Task[enginetest.Job]) error {
			if _, err := tx.Exec(ctx, insert, task.ID, task.Attempt, task.Fence); err != nil {
				return err
			}
			return s.Handle(ctx, task)
		}),
		handlers.HandleSQLTx(func(ctx context.Context, tx *sql.Tx, task *handlers.Task[sqlJob]) error {
			if _, err := tx.ExecContext(ctx, insert, task.ID, task.Attempt, task.Fence); err != nil {
				return err
			}
			return s.Handle(ctx, &handlers.Task[enginetest.Job]{
				Execution: task.Execution, Payload: enginetest.Job(task.Payload),
			})
		}))
	return s, func(do func(string, func(string, func(*store.Task)))) {
		do("pgx ", func(name string, change func(*store.Task)) { s.Add("pgx "+name, change) })
		do("sql ", func(name string, change func(*store.Task)) {
			s.Add("sql "+name, func(task *store.Task) {
				task.Payload = sqlJob{task.ID}
				if change != nil {
					change(task)
				}
			})
		})
	}
}

// effects is the attempts whose effects have been committed.
func (s *bench) effects(id string) string {
	s.T.Helper()
	var attempts []int
	s.OK(s.Pool.QueryRow(
		s.T.Context(), `SELECT coalesce(array_agg(attempt ORDER BY fence), '{}') FROM effects WHERE task_id = $1`, id,
	).Scan(&attempts))
	return fmt.Sprint(attempts)
}

// What a transactional handler writes is there exactly if its completion is.
func TestTransactionalHandlers(t *testing.T) {
	t.Parallel()
	s, both := effectful(t, nil)
	oops := errors.New("oops")
	both(func(kind string, schedule func(string, func(*store.Task))) {
		for _, name := range []string{
			"completes", "fails", "fails for good", "edited", "cancelled", "again", "bad effect",
		} {
			schedule(name, nil)
		}
		a := s.Begins(kind + "completes")
		if got := s.effects(a.ID); got != "[]" {
			t.Errorf("%s: seen before it is committed: %s", a.ID, got)
		}
		a.Note("done")
		a.FollowUp(store.Task{ID: kind + "next", Payload: enginetest.Job{Name: "next"}, At: time.Now().Add(time.Hour)})
		a.End <- nil
		if row := s.Is(a.ID, store.StatusCompleted, taskdb.OutcomeCompleted); taskdb.TextOf(row.Message) != "done" ||
			s.effects(a.ID) != "[1]" {
			t.Errorf("%s: message %q, effects %s", a.ID, taskdb.TextOf(row.Message), s.effects(a.ID))
		}
		enginetest.Await(t, s.Pool, kind+"next", patience, store.StatusQueued)

		s.Begins(kind + "fails").End <- oops
		s.Begins(kind + "fails").End <- nil
		s.Is(kind+"fails", store.StatusCompleted, taskdb.OutcomeRetried, taskdb.OutcomeCompleted)
		if got := s.effects(kind + "fails"); got != "[2]" {
			t.Errorf("effects of the attempts %s", got)
		}

		s.Begins(kind + "fails for good").End <- handlers.Permanent(oops)
		s.Is(kind+"fails for good", store.StatusFailed, taskdb.OutcomeFailed)
		if got := s.effects(kind + "fails for good"); got != "[]" {
			t.Errorf("effects of the attempts %s", got)
		}

		a = s.Begins(kind + "edited") // the run was right when it began: its effects stay
		if _, err := s.Tasks.Reschedule(t.Context(), s.Pool, a.ID, time.Now().Add(time.Hour)); err != nil {
			t.Fatal(err)
		}
		a.FollowUp(store.Task{
			ID: kind + "of the edited", Payload: enginetest.Job{Name: "next"}, At: time.Now().Add(time.Hour),
		})
		a.End <- nil
		s.Is(a.ID, store.StatusQueued, taskdb.OutcomeSuperseded)
		if got := s.effects(a.ID); got != "[1]" {
			t.Errorf("effects of the attempts %s", got)
		}
		enginetest.Await(t, s.Pool, kind+"of the edited", patience, store.StatusQueued)

		a = s.Begins(kind + "cancelled") // its context ends, so it does not commit
		if _, err := s.Tasks.Cancel(t.Context(), s.Pool, a.ID); err != nil {
			t.Fatal(err)
		}
		_ = a.Ends(t, patience)
		s.Is(a.ID, store.StatusCancelled, taskdb.OutcomeSuperseded)
		if got := s.effects(a.ID); got != "[]" {
			t.Errorf("effects of the attempts %s", got)
		}

		a = s.Begins(kind + "again")
		a.Again(time.Now().Add(time.Hour))
		a.End <- nil
		if row := s.Is(a.ID, store.StatusQueued, taskdb.OutcomeCompleted); time.Until(
			*row.NextAttemptAt,
		) < 59*time.Minute ||
			s.effects(a.ID) != "[1]" {
			t.Errorf("next at %s, effects %s", row.NextAttemptAt, s.effects(a.ID))
		}

		a = s.Begins(kind + "bad effect")
		a.FollowUp(store.Task{Payload: enginetest.Job{Name: ""}})
		a.End <- nil
		s.Is(a.ID, store.StatusFailed, taskdb.OutcomeFailed)
		if got := s.effects(a.ID); got != "[]" {
			t.Errorf("effects of the attempts %s", got)
		}
		s.Idle(
			kind+"completes", kind+"fails", kind+"fails for good", kind+"edited", kind+"cancelled", kind+"again",
			kind+"bad effect",
		)
	})
}

// A claim that was taken back while the handler ran rolls its transaction back: the next run's effects
// are the only ones.
func TestTransactionOfALostFenceRollsBack(t *testing.T) {
	t.Parallel()
	s, both := effectful(t, nil)
	both(func(kind string, schedule func(string, func(*store.Task))) {
		id := kind + "a"
		schedule("a", nil)
		first := s.Begins(id)
		claim := taskdb.Claim{ID: id, Fence: first.Fence, Revision: first.Revision, Attempt: 1, Due: first.DueAt}
		lost := []taskdb.Settlement{taskdb.Lost(claim, "it is lost")}
		if _, err := s.Settle(t.Context(), s.Pool, nil, nil, lost); err != nil {
			t.Fatal(err)
		}
		first.End <- nil
		second := s.Begins(id)
		if second.Attempt != 2 {
			t.Errorf("attempt %d", second.Attempt)
		}
		second.End <- nil
		s.Is(id, store.StatusCompleted, taskdb.OutcomeLost, taskdb.OutcomeCompleted)
		if got := s.effects(id); got != "[2]" {
			t.Errorf("effects of the attempts %s", got)
		}
		s.Idle(id)
	})
}

// An application's lock on the row makes the handler's own transaction wait, and nobody else.
func TestTransactionWaitsForALockedRow(t *testing.T) {
	t.Parallel()
	s, both := effectful(t, nil)
	both(func(kind string, schedule func(string, func(*store.Task))) {
		schedule("locked", nil)
		locked := s.Begins(kind + "locked")
		unlock := enginetest.Lock(t, s.Pool, kind+"locked")
		locked.End <- nil
		schedule("free", nil)
		s.Begins(kind + "free").End <- nil
		s.Is(kind+"free", store.StatusCompleted, taskdb.OutcomeCompleted)
		if got := s.effects(kind + "locked"); got != "[]" {
			t.Errorf("effects of the attempts %s", got)
		}
		unlock()
		s.Is(kind+"locked", store.StatusCompleted, taskdb.OutcomeCompleted)
		if got := s.effects(kind + "locked"); got != "[1]" {
			t.Errorf("effects of the attempts %s", got)
		}
	})
}

// An application's transaction that has locked the task's row, and then waits for what the handler has locked:
// Postgres ends one of the two, as it does everywhere, and both get on.
func TestTransactionInADeadlock(t *testing.T) {
	t.Parallel()
	s, both := effectful(t, nil)
	both(func(kind string, schedule func(string, func(*store.Task))) {
		schedule("a", nil)
		a := s.Begins(kind + "a")
		ended := make(chan error, 1)
		go func() { // it waits for the handler's line, which nobody can lock before the handler has ended
			ended <- pgx.BeginFunc(t.Context(), s.Pool, func(tx pgx.Tx) error {
				if _, err := s.Tasks.Reschedule(t.Context(), tx, kind+"a", time.Now().Add(time.Hour)); err != nil {
					return err
				}
				_, err := tx.Exec(t.Context(), `LOCK TABLE effects IN EXCLUSIVE MODE`)
				return err
			})
		}()
		s.Sees("the application waits",
			`SELECT count(*) = 1 FROM pg_locks WHERE NOT granted AND relation = 'effects'::regclass`)
		a.End <- nil
		err := enginetest.Receive(t, ended, patience, "the application's transaction ends")
		enginetest.Eventually(t, patience, "the attempt ends", func() bool {
			return len(enginetest.Outcomes(t, s.Pool, kind+"a")) > 0
		})
		row := enginetest.Await(t, s.Pool, kind+"a", patience, store.StatusQueued, store.StatusCompleted)
		switch got := fmt.Sprint(
			enginetest.Outcomes(t, s.Pool, kind+"a"), " ", s.effects(kind+"a"), " ", err == nil,
		); got {
		case "[COMPLETED] [1] false", "[SUPERSEDED] [] true":
			t.Logf("%s%s: %s", kind, row.Status, got)
		default:
			t.Errorf("%s%s: %s, %v", kind, row.Status, got, err)
		}
		s.Exec(`SELECT tasktable.cancel($1)`, kind+"a")
	})
}
