package scheduled

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"github.com/tasktable/tasktable/handlers"
	"github.com/tasktable/tasktable/scheduled/internal/enginetest"
	"github.com/tasktable/tasktable/store"
)

// A node with other zone data plans anew when it begins to lead.
func TestLeaderWithOtherZoneData(t *testing.T) {
	s := newBench(t)
	var log enginetest.LogText
	start := func(posix string) (stop func()) {
		return s.node(func(c *Config) {
			c.zones, c.Logger = enginetest.ZonesOf(posix), slog.New(slog.NewTextHandler(&log, nil))
		}, handlers.Handle(func(context.Context, *handlers.Task[enginetest.Job]) error { return nil }))
	}
	yearly := store.Recurrence{Cron: "0 9 20 3 *", TimeZone: enginetest.Havana}
	s.recur("yearly", yearly)
	next := func() int {
		return s.Count(`SELECT coalesce(max(extract(hour FROM next_attempt_at AT TIME ZONE 'UTC')), 0)::int
			FROM tasktable.scheduled_tasks
			WHERE planned_revision = revision AND planned_zone_data <> ''`)
	}
	stop := start(enginetest.SummerFromMarch)
	enginetest.Eventually(t, patience, "it is planned by the first data", func() bool { return next() == 13 })
	start(enginetest.SummerFromApril)
	stop()
	enginetest.Eventually(
		t, 20*time.Second, "the other node leads, and plans anew", func() bool { return next() == 14 },
	)
	enginetest.Eventually(t, patience, "it says so", func() bool { return len(log.Lines("planning anew")) > 0 })
	if n := s.Count(`SELECT count(*)::int FROM tasktable.scheduled_tasks WHERE parent_id = 'yearly'`); n != 0 {
		t.Errorf("it has fired %d times", n)
	}
}
