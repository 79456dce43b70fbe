// Package rulestest evaluates the alert rules with Prometheus' own engine. It is a module of its own, because only these
// tests need Prometheus' server.
package rulestest

import (
	"context"
	"io"
	"log/slog"
	"net/http"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"

	"github.com/tasktable/tasktable/handlers"
	"github.com/tasktable/tasktable/scheduled"
	"github.com/tasktable/tasktable/scheduled/api"
	"github.com/tasktable/tasktable/store"
	"github.com/tasktable/tasktable/store/storetest"
	"github.com/tasktable/tasktable/store/storetest/leaks"
)

func TestMain(m *testing.M) { storetest.Main(m, leaks.Check) }

// scene is a database with a node, whose metrics are scraped.
type scene struct {
	*history
	t        *testing.T
	pool     *pgxpool.Pool
	tasks    *store.Store
	registry *prometheus.Registry
	stop     func()
}

func newScene(t *testing.T) *scene {
	t.Helper()
	s := &scene{
		history: newHistory(), t: t, pool: storetest.Pool(t), tasks: store.New(store.Config{Service: "test"}),
		registry: prometheus.NewRegistry(),
	}
	s.registry.MustRegister(
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
	)
	// The node's program serves the API, too, so that its series are there.
	if _, err := api.New(api.Config{Pool: s.pool, Metrics: s.registry, Authenticate: func(*http.Request) (api.Caller,
		error) {
		return api.Caller{}, api.ErrUnauthenticated
	}}); err != nil {
		t.Fatal(err)
	}
	return s
}

// recurs makes a recurring task of each hour that began so long ago, with occurrences an hour apart whose last one was
// an hour and two minutes ago.
func (s *scene) recurs(id string, ago time.Duration, statuses ...string) {
	s.t.Helper()
	task := store.Cron("JOB", "@every 1h")
	task.ID, task.Payload, task.At = id, payload{}, time.Now().Add(-ago-2*time.Minute)
	if _, err := s.tasks.Schedule(s.t.Context(), s.pool, task); err != nil {
		s.t.Fatal(err)
	}
	if len(statuses) == 0 {
		return
	}
	s.exec(`ALTER TABLE tasktable.scheduled_task_changes DISABLE TRIGGER USER;
		ALTER TABLE tasktable.scheduled_tasks DISABLE TRIGGER USER`)
	s.exec(`UPDATE tasktable.scheduled_task_changes SET changed_at = $2 WHERE task_id = $1`, id, task.At)
	s.exec(`INSERT INTO tasktable.scheduled_tasks (id, payload, type, revision, parent_id, status, scheduled_at,
			finished_at) SELECT $1 || '@' || i, '{"type": "JOB"}', 'JOB', i, $1, s, f.at, f.at + interval '1 minute'
		FROM unnest($2::text[]) WITH ORDINALITY AS o (s, i) CROSS JOIN LATERAL (SELECT clock_timestamp()
			- interval '2 minutes' - (cardinality($2::text[]) - i + 1) * interval '1 hour' AS at) AS f`, id, statuses)
	s.exec(`ALTER TABLE tasktable.scheduled_task_changes ENABLE TRIGGER USER;
		ALTER TABLE tasktable.scheduled_tasks ENABLE TRIGGER USER`)
}

type payload struct {
	Does string `json:"does"`
}

func (payload) TaskType() string { return "JOB" }

type transfer struct {
	Does string `json:"does"`
}

func (transfer) TaskType() string { return "TRANSFER" }

// node runs a node, with so many slots, until the test ends. It waits until the node leads and has counted.
func (s *scene) node(slots int) {
	s.t.Helper()
	over := make(chan struct{})
	do := func(ctx context.Context, does string) error {
		switch does {
		case "fail":
			return handlers.Permanent(io.ErrUnexpectedEOF)
		case "block":
			select {
			case <-over:
			case <-ctx.Done():
			}
		}
		return nil
	}
	registry, err := handlers.NewRegistry(handlers.Handle(func(ctx context.Context, t *handlers.Task[payload]) error {
		return do(ctx, t.Payload.Does)
	}), handlers.HandleTx(func(ctx context.Context, _ pgx.Tx, t *handlers.Task[transfer]) error {
		return do(ctx, t.Payload.Does)
	}))
	if err != nil {
		s.t.Fatal(err)
	}
	node, err := scheduled.New(scheduled.Config{
		Pool: s.pool, Handlers: registry, Service: "test", Version: "v1", Queues: map[string]int{"default": slots},
		TypeSlots: map[string]int{"JOB": slots}, // the metrics of such a type
		Metrics:   s.registry, Logger: slog.New(slog.NewTextHandler(io.Discard, nil)), ShutdownTimeout: 5 * time.Second,
	})
	if err != nil {
		s.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- node.Run(ctx) }()
	stopped := false
	s.stop = func() {
		s.t.Helper()
		if stopped {
			return
		}
		stopped = true
		close(over)
		cancel()
		if err := <-done; err != nil {
			s.t.Error(err)
		}
	}
	s.t.Cleanup(s.stop)
	s.until(`tasktable_river_jobs{state="available"}`)
	// What came before is another situation. On a busy machine it takes long until the node leads.
	*s.history = *newHistory()
	s.scrape(s.t, s.registry, scrapeEvery)
}

// led has a result as long as the node leads: on a machine that is busy it may not, for a moment, and what then is
// held for long is another situation.
const led = `tasktable_leader == 1 and on () tasktable_node_up == 1`

// waitLimit bounds each wait.
const waitLimit = time.Minute

// until scrapes until an expression has a result, and the node leads. Almost no time passes in the history while it
// waits, because on a slow machine an alert would fire meanwhile.
func (s *scene) until(expression string) {
	s.t.Helper()
	deadline := time.NewTimer(waitLimit)
	defer deadline.Stop()
	ticker := time.NewTicker(200 * time.Millisecond)
	defer ticker.Stop()
	for after := scrapeEvery; ; after = time.Millisecond {
		s.scrape(s.t, s.registry, after)
		if len(s.ask(s.t, expression, s.now)) > 0 && len(s.ask(s.t, led, s.now)) > 0 {
			return
		}
		select {
		case <-deadline.C:
			s.t.Fatalf("never: %s", expression)
		case <-ticker.C:
		}
	}
}

// schedule schedules so many tasks that do something, so long ago.
func (s *scene) schedule(n int, does string, ago time.Duration) {
	s.t.Helper()
	tasks := make([]store.Task, n)
	for i := range tasks {
		tasks[i] = store.Task{Payload: payload{does}, At: time.Now().Add(-ago)}
	}
	if _, err := s.tasks.ScheduleMany(s.t.Context(), s.pool, tasks); err != nil {
		s.t.Fatal(err)
	}
}

func (s *scene) exec(sql string, args ...any) {
	s.t.Helper()
	if _, err := s.pool.Exec(s.t.Context(), sql, args...); err != nil {
		s.t.Fatal(err)
	}
}
