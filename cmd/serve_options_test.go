package cmd

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tasktable/tasktable/handlers"
	"github.com/tasktable/tasktable/scheduled"
	"github.com/tasktable/tasktable/store"
)

// The bounds are written twice, since a message must name the option; so they must stay the same.
func TestBoundsAreThoseOfTheConfig(t *testing.T) {
	pool, err := pgxpool.New(t.Context(), "postgres://127.0.0.1:1/x")
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	registry, err := handlers.NewRegistry(handlers.Func("NOTHING", func(context.Context) error { return nil }))
	if err != nil {
		t.Fatal(err)
	}
	accepts := func(config scheduled.Config) bool {
		config.Pool, config.Handlers, config.Logger = pool, registry, slog.New(slog.DiscardHandler)
		_, err := scheduled.New(config)
		return err == nil
	}
	for _, test := range []struct {
		flag        string
		least, most string
		below       func(*scheduled.Config)
		above       func(*scheduled.Config)
	}{
		{"poll-interval", "1s", "1h", func(c *scheduled.Config) { c.PollInterval = time.Second - 1 },
			func(c *scheduled.Config) { c.PollInterval = time.Hour + 1 }},
		{"look-ahead", "0", "10s", func(c *scheduled.Config) { c.LookAhead = -2 },
			func(c *scheduled.Config) { c.LookAhead = 10*time.Second + 1 }},
		{"start-allowance", "1s", "1h", func(c *scheduled.Config) { c.StartAllowance = time.Second - 1 },
			func(c *scheduled.Config) { c.StartAllowance = time.Hour + 1 }},
		{"shutdown-timeout", "0", "24h", func(c *scheduled.Config) { c.ShutdownTimeout = -2 },
			func(c *scheduled.Config) { c.ShutdownTimeout = 24*time.Hour + 1 }},
		{"engine-conns", "3", "100", func(c *scheduled.Config) { c.EngineConns = 2 },
			func(c *scheduled.Config) { c.EngineConns = 101 }},
		{"queue", "a=1", "a=10000", func(c *scheduled.Config) { c.Queues = map[string]int{"a": 0} },
			func(c *scheduled.Config) { c.Queues = map[string]int{"a": 10001} }},
		{"pause", "all", "queue:a,type:SEND:MAIL", func(c *scheduled.Config) { c.Paused = []store.Scope{{}} },
			func(c *scheduled.Config) { c.Paused = []store.Scope{store.Queue("A")} }},
		{"retention", "1m", "876600h", func(c *scheduled.Config) { c.Retention = time.Minute - 1 },
			func(c *scheduled.Config) { c.Retention = store.MaxRetention + 1 }},
		{"retention-type", "LOG=1m", "LOG=876600h,SEND_EMAIL=off",
			func(c *scheduled.Config) { c.RetentionByType = map[string]time.Duration{"LOG": time.Minute - 1} },
			func(c *scheduled.Config) { c.RetentionByType = map[string]time.Duration{"a,b": time.Hour} }},
	} {
		for _, given := range []string{test.least, test.most} {
			var settings engineSettings
			resolveArgs(t, settings.options(), nil, []string{"--" + test.flag + "=" + given})
			if !accepts(settings.Config) {
				t.Errorf("scheduled.New refuses --%s=%s", test.flag, given)
			}
		}
		for i, outside := range []func(*scheduled.Config){test.below, test.above} {
			var settings engineSettings
			resolveArgs(t, settings.options(), nil, nil)
			outside(&settings.Config)
			if accepts(settings.Config) {
				t.Errorf("scheduled.New accepts what --%s refuses (%d)", test.flag, i)
			}
		}
	}
}
