package dashboard_test

import (
	"context"
	"fmt"
	"html"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tasktable/tasktable/scheduled/dashboard"
	"github.com/tasktable/tasktable/store"
)

const markup = `<script>alert("1")</script>`

// as lets everybody in as one person, without a page for signing in.
func as(name string, scopes dashboard.Scopes, tenant string) func(*dashboard.Config) {
	return func(c *dashboard.Config) {
		c.Authenticate = func(*http.Request) (dashboard.Person, error) {
			return dashboard.Person{Name: name, Scopes: scopes, Tenant: tenant}, nil
		}
	}
}

// node inserts a node, whose session holds its locks until the test ends.
func (b *board) node(service, version, queues, types string, leads bool) (number int64) {
	b.Helper()
	conn, err := pgx.ConnectConfig(b.Context(), b.pool.Config().ConnConfig.Copy())
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = conn.Close(b.Context()) })
	if err := conn.QueryRow(b.Context(), `INSERT INTO tasktable.nodes (service, version, host, queues, types, elected_at)
		VALUES ($1, $2, 'host/1', $3::text::jsonb, $4::text::text[], CASE WHEN $5 THEN clock_timestamp() END)
		RETURNING number`, service, version, queues, types, leads).Scan(&number); err != nil {
		b.Fatal(err)
	}
	for kind, key := range map[string]int64{"node": number, "leader": 0} {
		if kind == "leader" && !leads {
			continue
		}
		if _, err := conn.Exec(b.Context(), `SELECT pg_advisory_lock((class - CASE WHEN class >= 2147483648 THEN 4294967296
			ELSE 0 END)::int, $2::int) FROM tasktable.lock_class($1) AS class`, kind, key); err != nil {
			b.Fatal(err)
		}
	}
	return number
}

// execution adds an attempt that ended so long ago.
func (b *board) execution(fence int64, kind, outcome string, ago, delay time.Duration) {
	b.Helper()
	b.exec(`INSERT INTO tasktable.scheduled_task_executions (fence, task_id, type, revision, attempt, scheduled_at,
		due_at, started_at, finished_at, outcome)
		SELECT $1::bigint, 'x', $2::text, 1, 1, at - $5::interval, at - $5::interval, at, at, $3::text
		FROM (SELECT clock_timestamp() - $4::interval AS at) AS one`, fence, kind, outcome, ago, delay)
}

func task(id, kind string, at time.Time) store.Task {
	return store.Task{ID: id, Payload: store.JSON(`{"type": "` + kind + `"}`), At: at}
}

func TestOverviewOfNothing(t *testing.T) {
	t.Parallel()
	b := newAdmin(t)
	b.get("/").wants(t, http.StatusOK, "no node runs: nothing is claimed", "No attempt ended in this time.",
		"No task is dead.", "No recurring task is failing or overdue.", "No task waits for its time.").
		lacks(t, "Nothing needs you")
	b.node("events", "v1", `{"default": 1}`, `{TEST}`, true)
	eventually(t, "the page does not follow", func() bool { return strings.Contains(b.get("/").text, "Nothing needs you") })
	b.get("/").wants(t, http.StatusOK, "Nothing needs you. Node 1 of events leads").lacks(t, `data-tone="bad"`)
	b.get("/?window=3h").wants(t, http.StatusUnprocessableEntity, "Window must be 1h, 6h, 24h or 7d.")
}

func TestOverview(t *testing.T) {
	t.Parallel()
	b := newBoard(t, as("ann", dashboard.All, ""), func(c *dashboard.Config) { c.Prefix = "/admin/tasks" })
	b.node("events", "v1", `{"default": 1}`, `{TEST}`, true)
	now := time.Now()
	b.schedule(task("late/"+markup, "TEST", now.Add(-time.Hour)))
	for _, id := range []string{"dead", "paused", "stuck", "waits", "next"} {
		b.schedule(task(id, "TEST", now.Add(time.Hour)))
	}
	recurs := store.Cron("RECURS", "@every 1h")
	recurs.ID, recurs.At = "recurs", now.Add(-5*time.Hour)
	b.schedule(recurs)
	b.must(b.tasks.Pause(t.Context(), b.pool, "paused"))
	b.must(b.tasks.PauseScope(t.Context(), b.pool, store.Queue("mail"), time.Time{}, ""))
	b.asEngine(`UPDATE tasktable.scheduled_tasks SET status = 'FAILED', finished_at = clock_timestamp(), next_attempt_at = NULL,
		message = $1 WHERE id = 'dead'`, "no paper "+markup)
	b.asEngine(`UPDATE tasktable.scheduled_tasks SET status = 'EXECUTING', fence = 1, next_attempt_at = NULL,
		lease_expires_at = clock_timestamp() - interval '1 hour' WHERE id = 'stuck'`)
	b.asEngine(`UPDATE tasktable.scheduled_tasks SET waiting_since = clock_timestamp() WHERE id = 'waits'`)
	b.asEngine(`UPDATE tasktable.scheduled_tasks SET planned_revision = revision,
		next_attempt_at = clock_timestamp() + interval '10 minutes' WHERE id = 'recurs'`)
	overdue := recurs
	overdue.ID = "overdue"
	b.schedule(overdue)
	b.asEngine(`UPDATE tasktable.scheduled_tasks SET planned_revision = revision,
		next_attempt_at = clock_timestamp() - interval '4 days' WHERE id = 'overdue'`)
	b.asEngine(`INSERT INTO tasktable.scheduled_tasks (id, payload, type, revision, parent_id, status, scheduled_at,
		finished_at, message) SELECT 'recurs@1', '{"type": "RECURS"}', 'RECURS', 1, 'recurs', 'FAILED', at, at, 'out of toner'
		FROM (SELECT clock_timestamp() - interval '1 hour' AS at) AS one`)
	b.execution(1, "TEST", "COMPLETED", time.Hour, 20*time.Millisecond)
	b.execution(2, "VERY_BUSY", "COMPLETED", time.Hour, 3*time.Second)
	b.execution(3, "VERY_BUSY", "FAILED", time.Hour, 3*time.Second)
	page := b.get("/").wants(t, http.StatusOK, "Late 1", "Waiting 1", "Dead letters 2", "Paused tasks 1", "Paused scopes 1", "Stuck 1",
		`href="/admin/tasks/tasks/late%2F%3Cscript%3E`, `href="/admin/tasks/tasks?status=PAUSED"`,
		`href="/admin/tasks/queues#pauses"`, "Bars of the attempts that ended in the last 6h: 2 completed, 1 failed.",
		"95 of 100 attempts started within 3.00 s or less", "no paper &lt;script&gt;", "is due · TEST", "fires · RECURS",
		"out of toner", "test : pause, paused", "1 recurring task failing, 1 failures in a row, the first (recurs) since", "1 recurring task whose fire is late, the first (overdue)", "VERY_BUSY 1 0 1", "Node 1 of events leads").
		lacks(t, markup, "Nothing needs you", "style=")
	if busy, first := strings.Index(page.text, ">VERY_BUSY<"), strings.Index(page.text, ">TEST</a>"); busy < 0 || busy > first {
		t.Errorf("VERY_BUSY is at %d, and TEST at %d", busy, first)
	}
	waiting := regexp.MustCompile(`href="/admin/tasks(/tasks[^"]+)">Tasks put off<`).FindStringSubmatch(page.text)
	if waiting == nil || !slices.Equal(b.get(html.UnescapeString(waiting[1])).ids(), []string{"waits"}) {
		t.Errorf("the link of the tile %q does not show the tasks that wait", waiting)
	}
	_, next, _ := strings.Cut(page.words(), "What comes next")
	if next, _, _ = strings.Cut(next, "Recurring tasks in trouble"); strings.Contains(next, "overdue") {
		t.Errorf("a fire of days ago comes next: %s", next)
	}
	b.get("/?window=1h").wants(t, http.StatusOK, "No attempt ended in this time.", "No attempt ended")
}

// seriesReads has from when on the series was read, each time.
type seriesReads struct {
	mutex sync.Mutex
	from  []string
}

func (s *seriesReads) TraceQueryStart(ctx context.Context, _ *pgx.Conn, query pgx.TraceQueryStartData) context.Context {
	if strings.Contains(query.SQL, "AS delay_max") {
		s.mutex.Lock()
		defer s.mutex.Unlock()
		s.from = append(s.from, fmt.Sprint(query.Args[0]))
	}
	return ctx
}

func (*seriesReads) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}

// Buckets that have ended are read once. The newest bucket, which is still filled, is read again.
func TestOverviewFollows(t *testing.T) {
	t.Parallel()
	reads := &seriesReads{}
	b := newBoard(t, as("ann", dashboard.Read, ""), func(c *dashboard.Config) {
		config := c.Pool.Config()
		config.ConnConfig.Tracer = reads
		c.Pool = poolOf(t, config)
	})
	b.execution(1, "TEST", "COMPLETED", 0, time.Millisecond)
	began := time.Now()
	var pages sync.WaitGroup
	for range 8 {
		pages.Go(func() { b.get("/?window=1h").wants(t, http.StatusOK, "1 completed") })
	}
	pages.Wait()
	// A read is fresh for a second.
	if n, most := len(reads.from), 1+int(time.Since(began)/time.Second); n > most {
		t.Errorf("eight pages read %d times, want %d at most", n, most)
	}
	b.execution(2, "TEST", "COMPLETED", 0, time.Millisecond)
	eventually(t, "the chart does not follow", func() bool {
		page := b.get("/?window=1h").text
		if n := strings.Count(page, `<th scope="row">`); n < 12 || n > 60 {
			t.Fatalf("%d buckets", n)
		}
		return strings.Contains(page, "2 completed")
	})
	// Later reads begin almost an hour later.
	if first, last := reads.from[0], reads.from[len(reads.from)-1]; last <= first {
		t.Errorf("read from %s, and then again from %s", first, last)
	}
}
