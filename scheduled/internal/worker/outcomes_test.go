package worker

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

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
