package worker

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tasktable/tasktable/handlers"
	"github.com/tasktable/tasktable/scheduled/internal/enginetest"
	"github.com/tasktable/tasktable/scheduled/internal/taskdb"
	"github.com/tasktable/tasktable/store"
)

// What a handler returns, attempt after attempt, and what becomes of its task.
func TestRetries(t *testing.T) {
	s := newBench(t)
	oops := errors.New("oops")
	scripts := map[string][]error{
		"fails twice":    {oops, oops, nil},
		"fails for ever": {oops, oops, oops, oops, oops},
		"permanent":      {handlers.Permanent(oops)},
		"later":          {handlers.RetryAfter(30*time.Millisecond, oops), nil},
		"snoozes": {
			handlers.Snooze(10 * time.Millisecond), handlers.Snooze(0), handlers.Snooze(10 * time.Millisecond), oops,
			nil,
		},
		"one attempt":  {oops},
		"two attempts": {oops, handlers.RetryAfter(0, oops)},
		"own backoff":  {oops, oops, nil},
		"panics":       {nil, nil},
		"exits":        {nil, nil},
	}
	var mu sync.Mutex
	attempts := map[string][]int{} // of handlers
	delays := map[string][]string{}
	backoff := func(name string) handlers.Backoff {
		return func(attempt int, err error) time.Duration {
			mu.Lock()
			defer mu.Unlock()
			delays[name] = append(delays[name], fmt.Sprint(attempt, " ", strings.SplitN(err.Error(), "\n", 2)[0]))
			return 10 * time.Millisecond
		}
	}
	run := func(e *handlers.Execution) error {
		mu.Lock()
		attempts[e.ID] = append(attempts[e.ID], e.Attempt)
		n := len(attempts[e.ID])
		mu.Unlock()
		switch {
		case e.ID == "panics" && n == 1:
			panic("boom")
		case e.ID == "exits" && n == 1:
			runtime.Goexit()
		case n > len(scripts[e.ID]):
			return handlers.Permanent(fmt.Errorf("run %d of task %s", n, e.ID))
		}
		e.Note("%s at run %d", e.ID, n)
		return scripts[e.ID][n-1]
	}
	s.node(func(c *Config) { c.Backoff = backoff("all") },
		handlers.Handle(func(_ context.Context, task *handlers.Task[enginetest.Job]) error {
			return run(task.Execution)
		}),
		handlers.Handle(
			func(_ context.Context, task *handlers.Task[quick]) error { return run(task.Execution) },
			handlers.WithBackoff(backoff("own")),
		))
	for name := range scripts {
		s.Add(name, func(task *store.Task) {
			switch name {
			case "one attempt":
				task.MaxAttempts = 1
			case "two attempts":
				task.MaxAttempts = 2
			case "fails for ever":
				task.MaxAttempts = 5
			case "own backoff":
				task.Payload = quick{}
			}
		})
	}
	for name, want := range map[string]struct {
		status   store.Status
		history  string
		attempts string // as the handler saw them
		attempt  int
		message  string
	}{
		"fails twice":    {store.StatusCompleted, "RETRIED RETRIED COMPLETED", "[1 2 3]", 3, "fails twice at run 3"},
		"fails for ever": {store.StatusFailed, "RETRIED RETRIED RETRIED RETRIED FAILED", "[1 2 3 4 5]", 5, "oops"},
		"permanent":      {store.StatusFailed, "FAILED", "[1]", 1, "oops"},
		"later":          {store.StatusCompleted, "RETRIED COMPLETED", "[1 2]", 2, "later at run 2"},
		"snoozes": {
			store.StatusCompleted, "SNOOZED SNOOZED SNOOZED RETRIED COMPLETED", "[1 1 1 1 2]", 2, "snoozes at run 5",
		},
		"one attempt":  {store.StatusFailed, "FAILED", "[1]", 1, "oops"},
		"two attempts": {store.StatusFailed, "RETRIED FAILED", "[1 2]", 2, "oops"},
		"own backoff":  {store.StatusCompleted, "RETRIED RETRIED COMPLETED", "[1 2 3]", 3, "own backoff at run 3"},
		"panics":       {store.StatusCompleted, "RETRIED COMPLETED", "[1 2]", 2, "panics at run 2"},
		"exits":        {store.StatusCompleted, "RETRIED COMPLETED", "[1 2]", 2, "exits at run 2"},
	} {
		row := s.Is(name, want.status, strings.Fields(want.history)...)
		mu.Lock()
		if got := fmt.Sprint(attempts[name]); got != want.attempts || row.Attempt != want.attempt ||
			taskdb.TextOf(row.Message) != want.message {
			t.Errorf(
				"%s: attempts %s, row's %d, message %q; want %+v", name, got, row.Attempt, taskdb.TextOf(row.Message),
				want,
			)
		}
		mu.Unlock()
		if row.FinishedAt == nil || row.StartedAt == nil || row.FinishedAt.Before(*row.StartedAt) {
			t.Errorf("%s: started %v, finished %v", name, row.StartedAt, row.FinishedAt)
		}
	}
	mu.Lock()
	if got := fmt.Sprint(delays["own"]); got != "[1 oops 2 oops]" {
		t.Errorf("the type's own backoff was asked for %s", got)
	}
	if got := len(delays["all"]); got != 2+4+1+1+1+1 {
		t.Errorf("the node's backoff was asked %d times: %q", got, delays["all"])
	}
	mu.Unlock()
	s.Counts("dead letters", 4, `SELECT count(*) FROM tasktable.dead_letters`)
	history, err := enginetest.Tasks.History(t.Context(), s.Pool, "panics")
	s.OK(err)
	if text := taskdb.TextOf(history.Executions[0].Error); !strings.HasPrefix(text, "handler panicked: boom\n") ||
		!strings.Contains(text, "outcomes_test.go") {
		t.Errorf("a panic is recorded as %q", text)
	}
	// A dead letter that is retried has all its attempts again.
	if receipt, err := s.Tasks.Retry(t.Context(), s.Pool, "one attempt"); err != nil ||
		receipt.Outcome != store.Queued {
		t.Fatalf("%+v, %v", receipt, err)
	}
	if row := s.Is("one attempt", store.StatusFailed, taskdb.OutcomeFailed, taskdb.OutcomeFailed); row.Attempt != 1 {
		t.Errorf("attempt %d after the retry", row.Attempt)
	}
}

// The expiration counts for each attempt: what fails until it has run out is EXPIRED, with its last error.
func TestExpiryBetweenAttempts(t *testing.T) {
	s := newBench(t)
	const expiration = 5 * time.Second // on a busy machine the first attempt takes a second to begin
	s.node(func(c *Config) { c.Backoff = func(int, error) time.Duration { return expiration } })
	s.Add("a", func(task *store.Task) { task.Expiration = expiration })
	s.Begins("a").End <- errors.New("mail server away")
	row := s.Is("a", store.StatusExpired, taskdb.OutcomeRetried, taskdb.OutcomeExpired)
	if got := taskdb.TextOf(row.Message); got != "expired before it could start; last error: mail server away" {
		t.Errorf("message %q", got)
	}
	s.Add("late", func(task *store.Task) { task.At, task.Expiration = time.Now().Add(-time.Minute), time.Second })
	s.Is("late", store.StatusExpired, taskdb.OutcomeExpired)
	s.Idle("a", "late")
}

// A task that waits for a slot beyond its expiry does not start.
func TestExpiryWhileWaitingForASlot(t *testing.T) {
	s := newBench(t)
	s.node(func(c *Config) { c.Slots = map[string]int{"default": 1} })
	s.Add("first", nil)
	first := s.Begins("first")
	const expiration = 5 * time.Second // on a busy machine it takes a second until the task is claimed
	s.Add("second", func(task *store.Task) { task.Expiration = expiration })
	row := enginetest.Await(t, s.Pool, "second", patience, store.StatusExecuting)
	enginetest.Eventually(t, patience, "it has expired", func() bool {
		return s.Count(`SELECT (clock_timestamp() > $1)::int`, row.ScheduledAt.Add(expiration)) == 1
	})
	first.End <- nil
	s.Is("first", store.StatusCompleted, taskdb.OutcomeCompleted)
	enginetest.Await(t, s.Pool, "second", patience, store.StatusExpired)
	// Each time that it had waited for a second, it went back.
	outcomes := slices.DeleteFunc(enginetest.Outcomes(t, s.Pool, "second"), func(outcome string) bool {
		return outcome == taskdb.OutcomeReleased
	})
	if !slices.Equal(outcomes, []string{taskdb.OutcomeExpired}) {
		t.Errorf("outcomes %v", outcomes)
	}
	s.Idle("second")
}

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

func TestDescribe(t *testing.T) {
	t.Parallel()
	settled := taskdb.SettleResult{Settled: true, Current: true}
	with := func(change func(*taskdb.SettleResult)) taskdb.SettleResult {
		state := settled
		change(&state)
		return state
	}
	died := with(func(s *taskdb.SettleResult) { s.Status = "FAILED" })
	const (
		lost     = "claim was taken back meanwhile; the outcome does not count"
		recorded = "outcome was recorded already"
		edited   = "task was edited or cancelled meanwhile; the outcome does not count"
		left     = "outcome not recorded; the leader takes the task back"
	)
	for name, test := range map[string]struct {
		outcome string
		state   taskdb.SettleResult
		err     error
		level   slog.Level
		why     string
	}{
		"done":             {taskdb.OutcomeCompleted, settled, nil, slog.LevelDebug, ""},
		"handed back":      {taskdb.OutcomeReleased, settled, nil, slog.LevelDebug, ""},
		"to be retried":    {taskdb.OutcomeRetried, settled, nil, slog.LevelWarn, ""},
		"dead":             {taskdb.OutcomeFailed, died, nil, slog.LevelError, ""},
		"expired":          {taskdb.OutcomeExpired, settled, nil, slog.LevelWarn, ""},
		"lost, runs again": {taskdb.OutcomeLost, settled, nil, slog.LevelWarn, ""},
		"lost for good":    {taskdb.OutcomeLost, died, nil, slog.LevelError, ""},
		"interrupted":      {taskdb.OutcomeInterrupted, settled, nil, slog.LevelInfo, ""},
		"snoozed":          {taskdb.OutcomeSnoozed, settled, nil, slog.LevelInfo, ""},
		"waits on": {
			taskdb.OutcomeSnoozed, with(func(s *taskdb.SettleResult) { s.Folded = true }), nil,
			slog.LevelDebug, "",
		},
		"edited meanwhile": {
			taskdb.OutcomeSuperseded, taskdb.SettleResult{Settled: true}, nil, slog.LevelInfo, edited,
		},
		"taken back": {taskdb.OutcomeLost, taskdb.SettleResult{}, nil, slog.LevelWarn, lost},
		"committed although there was an error": {
			taskdb.OutcomeCompleted, taskdb.SettleResult{}, nil, slog.LevelInfo, recorded,
		},
		"not recorded": {
			taskdb.OutcomeCompleted, taskdb.SettleResult{}, errors.New("no answer"), slog.LevelWarn, left,
		},
	} {
		level, why := describe(&taskdb.Settlement{Outcome: test.outcome}, test.state, test.err)
		if level != test.level || why != test.why {
			t.Errorf("%s: %s %q, want %s %q", name, level, why, test.level, test.why)
		}
	}
}
