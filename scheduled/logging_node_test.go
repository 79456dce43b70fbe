package scheduled

import (
	"context"
	"log/slog"
	"testing"

	"github.com/tasktable/tasktable/handlers"
	"github.com/tasktable/tasktable/scheduled/internal/enginetest"
	"github.com/tasktable/tasktable/scheduled/internal/taskdb"
	"github.com/tasktable/tasktable/store"
)

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
