package scheduled

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
	_, codec := sealing(t)
	for name, test := range map[string]struct {
		change func(*Config)
		level  slog.Level
		there  bool
	}{
		"by default":              {func(*Config) {}, slog.LevelInfo, true},
		"at debug":                {func(*Config) {}, slog.LevelDebug, true},
		"turned off":              {func(c *Config) { c.LogErrors = new(false) }, slog.LevelDebug, false},
		"with a codec":            {func(c *Config) { c.Codec = codec }, slog.LevelDebug, false},
		"with a codec, turned on": {func(c *Config) { c.Codec, c.LogErrors = codec, new(true) }, slog.LevelInfo, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newBench(t)
			var log enginetest.LogText
			s.node(func(c *Config) {
				c.Logger = slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: test.level}))
				test.change(c)
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
			stacks := len(log.Lines("level=DEBUG", "the stack of the panic", "logging_node_test.go"))
			if want := test.there && test.level == slog.LevelDebug; (stacks == 1) != want {
				t.Errorf("%d stacks are logged", stacks)
			}
			if !test.there && len(log.Lines("mailbox"))+len(log.Lines("try"))+len(log.Lines("luck")) > 0 {
				t.Errorf("the log has: %s", log.Text.String())
			}
		})
	}
}

// At debug the log of a claim names the tasks.
func TestClaimsAreLoggedWithIDs(t *testing.T) {
	t.Parallel()
	s := newBench(t)
	var log enginetest.LogText
	s.node(func(c *Config) {
		c.Logger = slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	}, handlers.Handle(func(context.Context, *handlers.Task[enginetest.Job]) error { return nil }))
	s.Add("invoice-7", nil)
	s.Is("invoice-7", store.StatusCompleted, taskdb.OutcomeCompleted)
	enginetest.Eventually(t, patience, "the line of the claim", func() bool {
		return len(log.Lines("level=DEBUG", "msg=claimed", "tasks=1", "expired=0", "ids=[invoice-7]")) == 1
	})
}
