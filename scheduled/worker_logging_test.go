package scheduled

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tasktable/tasktable/handlers"
	"github.com/tasktable/tasktable/scheduled/internal/taskdb"
	"github.com/tasktable/tasktable/store"
)

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

// journal is a log that a test reads while it is written.
type journal struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (j *journal) Write(line []byte) (int, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.text.Write(line)
}

// lines are those that contain all parts.
func (j *journal) lines(parts ...string) (found []string) {
	j.mu.Lock()
	defer j.mu.Unlock()
lines:
	for line := range strings.Lines(j.text.String()) {
		for _, part := range parts {
			if !strings.Contains(line, part) {
				continue lines
			}
		}
		found = append(found, line)
	}
	return found
}

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
			s := newStage(t)
			var log journal
			s.node(func(c *Config) {
				c.Logger = slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: test.level}))
				test.change(c)
			}, handlers.Handle(func(_ context.Context, task *handlers.Task[job]) error {
				switch {
				case task.Payload.Name == "panics":
					panic("no such luck")
				case task.Attempt == 1:
					return errors.New("421 try\nlater")
				}
				return handlers.Permanent(errors.New("550 no such mailbox"))
			}))
			s.schedule("fails", nil)
			s.schedule("panics", func(task *store.Task) { task.MaxAttempts = 1 })
			s.is("fails", store.StatusFailed, taskdb.OutcomeRetried, taskdb.OutcomeFailed)
			s.is("panics", store.StatusFailed, taskdb.OutcomeFailed)
			for _, parts := range [][]string{
				{"level=WARN", "task=fails", "outcome=RETRIED", `error="421 try later"`},
				{"level=ERROR", "task=fails", "outcome=FAILED", `error="550 no such mailbox"`},
				{"level=ERROR", "task=panics", "outcome=FAILED", `error="handler panicked: no such luck"`},
			} {
				eventually(t, 15*time.Second, strings.Join(parts[:3], " "), func() bool {
					return len(log.lines(parts[:3]...)) == 1
				})
				if there := len(log.lines(parts...)) == 1; there != test.there {
					t.Errorf("there is %s: %v; want %v, in %s", parts, there, test.there, log.lines(parts[:3]...))
				}
			}
			stacks := len(log.lines("level=DEBUG", "the stack of the panic", "worker_logging_test.go"))
			if want := test.there && test.level == slog.LevelDebug; (stacks == 1) != want {
				t.Errorf("%d stacks are logged", stacks)
			}
			if !test.there && len(log.lines("mailbox"))+len(log.lines("try"))+len(log.lines("luck")) > 0 {
				t.Errorf("the log has: %s", log.text.String())
			}
		})
	}
}
