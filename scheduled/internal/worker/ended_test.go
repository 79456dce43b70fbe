package worker

import (
	"context"
	"database/sql"
	"fmt"
	"log/slog"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tasktable/tasktable/handlers"
	"github.com/tasktable/tasktable/scheduled/internal/enginetest"
	"github.com/tasktable/tasktable/scheduled/internal/taskdb"
	"github.com/tasktable/tasktable/store"
)

// The log says of an attempt that was cancelled or edited what the history says.
func TestLogOfACancelledAttempt(t *testing.T) {
	t.Parallel()
	for name, part := range map[string]func(*bench) handlers.Part{
		"plain": func(s *bench) handlers.Part { return handlers.Handle(s.Handle) },
		"pgx": func(s *bench) handlers.Part {
			return handlers.HandleTx(func(ctx context.Context, _ pgx.Tx, task *handlers.Task[enginetest.Job]) error {
				return s.Handle(ctx, task)
			})
		},
		"sql": func(s *bench) handlers.Part {
			return handlers.HandleSQLTx(
				func(ctx context.Context, _ *sql.Tx, task *handlers.Task[enginetest.Job]) error {
					return s.Handle(ctx, task)
				},
			)
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := newBench(t)
			var log enginetest.LogText
			s.node(func(c *Config) { c.Log = slog.New(slog.NewTextHandler(&log, nil)) }, part(s))
			logged := func(id string) {
				enginetest.Eventually(t, patience, "it is logged", func() bool {
					return len(log.Lines("task="+id+" ", "outcome=")) > 0
				})
			}
			s.Add("edited", nil)
			a := s.Begins("edited")
			s.Add("edited", func(task *store.Task) { task.At = time.Now().Add(time.Hour) })
			a.End <- nil // the writes of its transaction commit
			s.Is("edited", store.StatusQueued, taskdb.OutcomeSuperseded)
			logged("edited")
			for i := range 6 {
				id := fmt.Sprint(i)
				s.Add(id, nil)
				a := s.Begins(id)
				s.Did(s.Tasks.Cancel(t.Context(), s.Pool, id))
				switch i % 3 {
				case 0:
					_ = a.Ends(t, patience)
				case 1:
					a.End <- nil
				default:
					a.End <- context.Canceled
				}
				s.Is(id, store.StatusCancelled, taskdb.OutcomeSuperseded)
				logged(id)
			}
			if n := len(log.Lines(
				"level=INFO", "type=JOB", "outcome=SUPERSEDED",
			)); n != 7 || len(log.Lines("outcome=")) != 7 {
				t.Errorf("%d lines of 7 say SUPERSEDED: %q", n, log.Lines("outcome="))
			}
		})
	}
}

// The log names the type of a claim that ended before its handler began, and what the history says of it.
func TestLogOfAClaimThatNeverStarted(t *testing.T) {
	s := newBench(t)
	s.ahead = 5 * time.Second
	var log enginetest.LogText
	s.node(func(c *Config) { c.Log = slog.New(slog.NewTextHandler(&log, nil)) })
	s.Add("second", func(task *store.Task) { task.At = time.Now().Add(4 * time.Second) })
	s.Sees("it is claimed", `SELECT status = 'EXECUTING' FROM tasktable.scheduled_tasks WHERE id = 'second'`)
	s.Did(s.Tasks.Cancel(t.Context(), s.Pool, "second"))
	s.Is("second", store.StatusCancelled, taskdb.OutcomeCancelled)
	enginetest.Eventually(t, patience, "it is logged", func() bool {
		return len(log.Lines("task=second ", "outcome=")) > 0
	})
	if len(log.Lines("level=INFO", "task=second ", "type=JOB", "outcome=CANCELLED")) != 1 {
		t.Errorf("the log has %q", log.Lines("task=second "))
	}
}

// Where the node learns only afterwards that its transaction was committed, the log has the outcome of the history.
func TestLogOfAnOutcomeThatWasRecordedBefore(t *testing.T) {
	s := newBench(t)
	var log enginetest.LogText
	s.node(func(c *Config) { c.Log = slog.New(slog.NewTextHandler(&log, nil)) })
	for id, recorded := range map[string]string{"superseded": taskdb.OutcomeSuperseded, "lost": taskdb.OutcomeLost} {
		s.Add(id, nil)
		a := s.Begins(id)
		s.Exec(`INSERT INTO tasktable.scheduled_task_executions (fence, task_id, type, revision, attempt, scheduled_at,
			finished_at, outcome)
			SELECT fence, id, type, revision, attempt, scheduled_at, now(), $2 FROM tasktable.scheduled_tasks
				WHERE id = $1`, id, recorded)
		s.Exec(`UPDATE tasktable.scheduled_tasks
			SET fence = NULL, lease_expires_at = NULL, status = 'CANCELLED', finished_at = now() WHERE id = $1`, id)
		a.End <- context.Canceled
		enginetest.Eventually(t, patience, "it is logged", func() bool {
			return len(log.Lines("task="+id+" ", "outcome=")) > 0
		})
	}
	if len(log.Lines("level=INFO", "task=superseded ", "outcome=SUPERSEDED")) != 1 ||
		len(log.Lines("level=WARN", "task=lost ", "outcome=LOST")) != 1 {
		t.Errorf("the log has %q", log.Lines("outcome="))
	}
}
