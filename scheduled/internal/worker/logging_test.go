package worker

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tasktable/tasktable/handlers"
	"github.com/tasktable/tasktable/scheduled/internal/enginetest"
	"github.com/tasktable/tasktable/scheduled/internal/taskdb"
	"github.com/tasktable/tasktable/store"
)

// Whoever reads the log learns why a task failed, unless somebody wants it otherwise.
func TestErrorsOfAttemptsAreLogged(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		level slog.Level
		there bool
	}{
		"at info": {slog.LevelInfo, true}, "at debug": {slog.LevelDebug, true}, "turned off": {slog.LevelDebug, false},
	} {
		t.Run(name, func(t *testing.T) {
			s := newBench(t)
			var log enginetest.LogText
			s.node(func(c *Config) {
				c.Log = slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: test.level}))
				c.LogErrors = test.there
			}, handlers.Handle(func(_ context.Context, task *handlers.Task[enginetest.Job]) error {
				switch {
				case task.Payload.Name == "panics":
					panic("no such luck")
				case task.Attempt == 1:
					return errors.New("421 try\nlater")
				}
				return handlers.Permanent(errors.New("550 no such mailbox"))
			}))
			s.Add("fails", nil)
			s.Add("panics", func(task *store.Task) { task.MaxAttempts = 1 })
			s.Is("fails", store.StatusFailed, taskdb.OutcomeRetried, taskdb.OutcomeFailed)
			s.Is("panics", store.StatusFailed, taskdb.OutcomeFailed)
			for _, parts := range [][]string{
				{"level=WARN", "task=fails", "outcome=RETRIED", `error="421 try later"`},
				{"level=ERROR", "task=fails", "outcome=FAILED", `error="550 no such mailbox"`},
				{"level=ERROR", "task=panics", "outcome=FAILED", `error="handler panicked: no such luck"`},
			} {
				enginetest.Eventually(t, patience, strings.Join(parts[:3], " "), func() bool {
					return len(log.Lines(parts[:3]...)) == 1
				})
				if there := len(log.Lines(parts...)) == 1; there != test.there {
					t.Errorf("there is %s: %v; want %v, in %s", parts, there, test.there, log.Lines(parts[:3]...))
				}
			}
			stacks := len(log.Lines("level=DEBUG", "the stack of the panic", "logging_test.go"))
			if want := test.there && test.level == slog.LevelDebug; (stacks == 1) != want {
				t.Errorf("%d stacks are logged", stacks)
			}
			if !test.there && len(log.Lines("mailbox"))+len(log.Lines("try"))+len(log.Lines("luck")) > 0 {
				t.Errorf("the log has: %s", log.Text.String())
			}
		})
	}
}

func TestOneLine(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct{ text, line, stack string }{
		"plain":            {"421 try later", "421 try later", ""},
		"empty":            {"", "", ""},
		"of several lines": {" no mail\r\n\tno pigeon\n", "no mail   no pigeon", ""},
		"terminal codes":   {"\x1b[31mred\x07\x00", "\uFFFD[31mred\uFFFD\uFFFD", ""},
		"broken UTF-8":     {"a\xffb", "a\uFFFDb", ""},
		"a panic": {
			"handler panicked: oops\ngoroutine 7 [running]:\nmain.main()\n", "handler panicked: oops",
			"7 [running]:\nmain.main()\n",
		},
		"as long as may be": {strings.Repeat("x", maxLoggedError), strings.Repeat("x", maxLoggedError), ""},
		"too long":          {strings.Repeat("ü", maxLoggedError), strings.Repeat("ü", maxLoggedError/2) + "…", ""},
		"cut in a character": {
			"x" + strings.Repeat("ü", maxLoggedError), "x" + strings.Repeat("ü", maxLoggedError/2-1) + "…", "",
		},
	} {
		if line, stack := oneLine(test.text); line != test.line || stack != test.stack {
			t.Errorf("%s: %q and %q, want %q and %q", name, line, stack, test.line, test.stack)
		}
	}
}

const startWrittenSQL = `SELECT count(*) FROM tasktable.running_tasks WHERE id = $1 AND started_at IS NOT NULL
	AND node IS NOT NULL`

// A short attempt costs no statement but its settle, so its row does not say where it ran.
func TestStartsOfShortAttemptsAreNotWritten(t *testing.T) {
	s := newBench(t)
	s.node(nil, handlers.Handle(s.Handle))
	s.Add("long", nil)
	long := s.Begins("long")
	s.Add("short", nil)
	s.Begins("short").End <- nil
	enginetest.Eventually(t, patience, "the start of the long one is written", func() bool {
		return s.Count(startWrittenSQL, "long") == 1
	})
	if row := s.Is("short", store.StatusCompleted, taskdb.OutcomeCompleted); row.StartedFence != nil ||
		row.Node != nil ||
		row.StartedAt == nil {
		t.Errorf("the short one: %+v", row)
	}
	long.End <- nil
	if row := s.Is("long", store.StatusCompleted, taskdb.OutcomeCompleted); row.StartedFence == nil ||
		row.Node == nil ||
		!row.StartedAt.Equal(long.StartedAt) {
		t.Errorf("the long one: %+v", row)
	}
}

// A transactional handler that waits for its connection has not started.
func TestStartOfATransactionalHandlerIsThatOfItsCall(t *testing.T) {
	s := newBench(t)
	called := make(chan time.Time, 1)
	end := make(chan struct{})
	tr := s.prepare(
		nil, handlers.HandleTx(func(ctx context.Context, _ pgx.Tx, task *handlers.Task[enginetest.Job]) error {
			select {
			case called <- task.StartedAt:
			default: // a test that has failed receives no more
			}
			select {
			case <-end:
				return nil
			case <-ctx.Done():
				return context.Cause(ctx)
			}
		}),
	)
	release := enginetest.Exhaust(t, s.txPool)
	s.Add("one", nil)
	tr.begin()
	tr.batch(1, 0)
	enginetest.Eventually(t, patience, "it waits for its connection", func() bool {
		runs := tr.inHand(0)
		return len(runs) == 1 && runs[0].begun() != nil && time.Since(runs[0].since) > 2*longRun
	})
	tr.writeStarts(t.Context(), tr.inHand(0))
	if s.Count(startWrittenSQL, "one") != 0 {
		t.Error("it has a start, although its handler was not called")
	}
	release()
	startedAt := enginetest.Receive(t, called, patience, "its handler is called")
	enginetest.Eventually(t, patience, "the start is written", func() bool {
		return s.Count(startWrittenSQL, "one") == 1
	})
	close(end)
	if row := s.Is("one", store.StatusCompleted, taskdb.OutcomeCompleted); !row.StartedAt.Equal(startedAt) {
		t.Errorf("it started at %s, but its row says %s", startedAt, row.StartedAt)
	}
}
