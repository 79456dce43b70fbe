package worker

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"

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
