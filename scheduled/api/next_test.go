package api_test

import (
	"context"
	"os"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tasktable/tasktable/scheduled/api"
	"github.com/tasktable/tasktable/store"
)

// The answer of an edit tells when the task is due or fires next, also before a leader has planned the fire.
func TestNextAttemptAt(t *testing.T) {
	t.Parallel()
	s := newService(t)
	const noon, fire = "2100-01-01T12:00:00Z", "2100-01-02T08:00:00Z"
	const plain = `{"id": "plain", "payload": {"type": "TEST"}, "scheduled_at": "` + noon + `"}`
	const recurs = `{"id": "recurs", "payload": {"type": "TEST"}, "cron": "0 9 * * *", "time_zone": "Europe/Vienna",
		"scheduled_at": "` + noon + `"}`
	s.make("done", store.StatusCompleted)
	for _, c := range []struct {
		method, path, body, want string
		status                   int
	}{
		{"POST", "/v1/tasks", plain, noon, 201}, {"PUT", "/v1/tasks/plain", plain, noon, 200},
		{"PATCH", "/v1/tasks/plain", `{"scheduled_at": "` + fire + `"}`, fire, 200},
		{"POST", "/v1/tasks", recurs, fire, 201}, {"PUT", "/v1/tasks/recurs", recurs, fire, 200},
		{"PATCH", "/v1/tasks/recurs", `{"cron": "30 9 * * *"}`, "2100-01-02T08:30:00Z", 200},
		{"PATCH", "/v1/tasks/recurs", `{"ends_at": "2100-01-01T13:00:00Z"}`, "", 200},
		{"PUT", "/v1/tasks/done", base, "", 200}, {"POST", "/v1/tasks/plain/pause", "", "", 200},
	} {
		got := s.wants(c.status, "scheduler", c.method, c.path, c.body)
		if got.field("next_attempt_at") != c.want {
			t.Errorf("%s %s %s: %s, want next_attempt_at %q", c.method, c.path, c.body, got.text, c.want)
		}
	}
}

// The body for those who come from another scheduler works as the page shows it.
func TestBodyOfReadme(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	_, after, _ := strings.Cut(string(page), "```json\n")
	body, _, found := strings.Cut(after, "```")
	if !found {
		t.Fatal("the page has no body in JSON")
	}
	s := newService(t)
	got := s.wants(201, "all", "PUT", "/v1/tasks/daily-report", body)
	if next := got.field("next_attempt_at"); !strings.HasSuffix(next, "T08:00:00Z") {
		t.Errorf("next_attempt_at %q, want eight o'clock: %s", next, got.text)
	}
	body = strings.Replace(body, `"if_dead": [{`, `"if_dead": [{"queue": "default", `, 1)
	sameContent(t, "the task", contentOf(s, "daily-report"), strings.Replace(body, `"cron"`, `"queue": "default",
		"scheduled_at": "`+s.wants(200, "all", "GET", "/v1/tasks/daily-report", "").field("scheduled_at")+`",
		"expected_execution_time": 300, "overlap": "skip", "catch_up": "latest", "catch_up_paused": "none",
		"catch_up_limit": 100, "cron"`, 1))
}

// roundTrips counts the statements and batches that go to Postgres, but for the look at nodes and defaults every few seconds.
type roundTrips struct{ n atomic.Int64 }

func (r *roundTrips) TraceQueryStart(ctx context.Context, _ *pgx.Conn, data pgx.TraceQueryStartData) context.Context {
	if !strings.Contains(data.SQL, "node_states") && !strings.Contains(data.SQL, "task_defaults") {
		r.n.Add(1)
	}
	return ctx
}

func (r *roundTrips) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}

func (r *roundTrips) TraceBatchStart(ctx context.Context, _ *pgx.Conn, _ pgx.TraceBatchStartData) context.Context {
	r.n.Add(1)
	return ctx
}

func (r *roundTrips) TraceBatchQuery(context.Context, *pgx.Conn, pgx.TraceBatchQueryData) {}

func (r *roundTrips) TraceBatchEnd(context.Context, *pgx.Conn, pgx.TraceBatchEndData) {}

// A call that schedules one plain task costs one round trip, and another one if its id could be that of a task.
func TestRoundTripsOfOneTask(t *testing.T) {
	t.Parallel()
	var trips roundTrips
	s := newService(t, func(c *api.Config) {
		config := c.Pool.Config()
		config.ConnConfig.Tracer = &trips
		pool, err := pgxpool.NewWithConfig(t.Context(), config)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(pool.Close)
		c.Pool = pool
	})
	for _, c := range []struct {
		method, path, body string
		status             int
		want               int64
	}{
		{"POST", "/v1/tasks", hello, 201, 1},
		{"POST", "/v1/tasks", strings.Replace(hello, "{", `{"id": "a", `, 1), 201, 1},
		{"PUT", "/v1/tasks/a", hello, 200, 1},
		{"PUT", "/v1/tasks/a", strings.Replace(hello, "hi", "ho", 1), 200, 1},
		{"PUT", "/v1/tasks/a", strings.Replace(hello, "{", `{"if_finished": "never", `, 1), 422, 0},
	} {
		before := trips.n.Load()
		s.wants(c.status, "all", c.method, c.path, c.body)
		if took := trips.n.Load() - before; took != c.want {
			t.Errorf("%s %s %s: %d round trips, want %d", c.method, c.path, c.body, took, c.want)
		}
	}
}
