package scheduled

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tasktable/tasktable/handlers"
	"github.com/tasktable/tasktable/scheduled/internal/enginetest"
	"github.com/tasktable/tasktable/store"
)

func TestWarningsOfAConfig(t *testing.T) {
	t.Parallel()
	plain := handlers.Handle(func(context.Context, *handlers.Task[enginetest.Job]) error { return nil })
	transactional := handlers.HandleTx(
		func(context.Context, pgx.Tx, *handlers.Task[enginetest.Job]) error { return nil },
	)
	declared := func(payload store.Payload) []store.Task {
		return []store.Task{{ID: "nightly", Payload: payload, Recurrence: &store.Recurrence{Cron: "@daily"}}}
	}
	const connections = `msg="transactional handlers have far fewer connections than slots; ` +
		`give Pool more connections, or the queues fewer slots" `
	const noHandler = `msg="this node has no handler for the type of a declared recurring task; ` +
		`the occurrences wait for another node" `
	twenty := func(c *Config) { c.Queues = map[string]int{"default": 20} }
	for name, test := range map[string]struct {
		part   handlers.Part
		conns  int32
		change func(*Config)
		want   string
	}{
		"plain handlers": {plain, 4, twenty, ""},
		"twenty slots, a pool of four": {
			transactional, 4, twenty, connections + "slots=20 pool=4 at_once=2 types=[JOB]",
		},
		"a pool of one":               {transactional, 1, twenty, connections + "slots=20 pool=1 at_once=1 types=[JOB]"},
		"one connection too few":      {transactional, 6, twenty, connections + "slots=20 pool=6 at_once=4 types=[JOB]"},
		"a connection for four slots": {transactional, 7, twenty, ""},
		"several queues": {transactional, 3, func(c *Config) { c.Queues = map[string]int{"a": 4, "b": 4} },
			connections + "slots=8 pool=3 at_once=1 types=[JOB]"},
		"declares what it runs": {plain, 4, func(c *Config) { c.Recurring = declared(enginetest.Job{Name: "x"}) }, ""},
		"declares what it has no handler of": {
			plain, 4, func(c *Config) { c.Recurring = declared(quick{}) },
			noHandler + "task=nightly type=QUICK handlers=[JOB]",
		},
	} {
		var log bytes.Buffer
		settings, err := pgxpool.ParseConfig("postgres://localhost/x")
		enginetest.OK(t, err)
		settings.MaxConns = test.conns
		pool, err := pgxpool.NewWithConfig(t.Context(), settings) // connects to nothing yet
		enginetest.OK(t, err)
		registry, err := handlers.NewRegistry(test.part)
		enginetest.OK(t, err)
		config := Config{Pool: pool, Handlers: registry, Logger: slog.New(slog.NewTextHandler(&log, nil))}
		if test.change != nil {
			test.change(&config)
		}
		config.withDefaults().warn()
		pool.Close()
		_, got, _ := strings.Cut(strings.TrimSpace(log.String()), "level=WARN ")
		if got != test.want {
			t.Errorf("%s: got %s, want %s", name, got, test.want)
		}
	}
}

// The log says how many transactional handlers a node runs at once, because nothing in its own settings does.
func TestNodeSaysItsPlaces(t *testing.T) {
	s := newBench(t)
	var log enginetest.LogText
	startNode(t, s.poolOf(conns(4)), func(c *Config) { c.Logger = slog.New(slog.NewTextHandler(&log, nil)) },
		handlers.HandleTx(func(context.Context, pgx.Tx, *handlers.Task[enginetest.Job]) error { return nil }))
	enginetest.Eventually(t, patience, "the node is up", func() bool {
		return len(log.Lines(`msg="node is up"`)) == 1
	})
	if len(log.Lines(`msg="node is up"`, " transactions=2 ")) != 1 {
		t.Errorf("the log has %q", log.Lines("node is up"))
	}
	if len(log.Lines("level=WARN", "far fewer connections than slots", "at_once=2")) != 1 {
		t.Error("the log does not warn of two connections for a hundred slots")
	}
}
