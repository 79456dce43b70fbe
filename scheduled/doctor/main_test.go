package doctor

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tasktable/tasktable/handlers"
	"github.com/tasktable/tasktable/scheduled"
	"github.com/tasktable/tasktable/store"
	"github.com/tasktable/tasktable/store/storetest"
	"github.com/tasktable/tasktable/store/storetest/leaks"
)

func TestMain(m *testing.M) { storetest.Main(m, leaks.Check) }

// limit bounds each wait of a test.
const limit = 2 * time.Minute

// patient is a deployment of a test's own, in which something is made to be wrong.
type patient struct {
	t    *testing.T
	ctx  context.Context
	url  string
	pool *pgxpool.Pool
}

func newPatient(t *testing.T) *patient {
	t.Helper()
	t.Parallel()
	return at(t, storetest.URL(t))
}

func at(t *testing.T, url string) *patient {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	t.Cleanup(cancel)
	return &patient{t, ctx, url, poolOf(t, url+"&pool_max_conns=4", nil)}
}

// ok ends the test if a call has failed.
func ok(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// poolOf is a pool that is closed with the test.
func poolOf(t *testing.T, url string, change func(*pgxpool.Config)) *pgxpool.Pool {
	t.Helper()
	config, err := pgxpool.ParseConfig(url)
	ok(t, err)
	if change != nil {
		change(config)
	}
	pool, err := pgxpool.NewWithConfig(context.Background(), config)
	ok(t, err)
	t.Cleanup(pool.Close)
	return pool
}

// ask is the answer of a query that has one value.
func ask[T any](p *patient, query string, args ...any) (answer T) {
	p.t.Helper()
	if err := p.pool.QueryRow(p.ctx, query, args...).Scan(&answer); err != nil {
		p.t.Fatalf("%s: %v", query, err)
	}
	return answer
}

func (p *patient) exec(statement string, args ...any) {
	p.t.Helper()
	if _, err := p.pool.Exec(p.ctx, statement, args...); err != nil {
		p.t.Fatalf("%s: %v", statement, err)
	}
}

// until waits for a query to be true.
func (p *patient) until(what, query string, args ...any) {
	p.t.Helper()
	for {
		if ask[bool](p, query, args...) {
			return
		}
		select {
		case <-p.ctx.Done():
			p.t.Fatalf("in vain: %s", what)
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// connect opens a connection that is closed with the test.
func (p *patient) connect() *pgx.Conn {
	p.t.Helper()
	conn, err := pgx.Connect(p.ctx, p.url)
	ok(p.t, err)
	p.t.Cleanup(func() { _ = conn.Close(context.Background()) })
	return conn
}

// on runs statements on a connection that stays open.
func (p *patient) on(conn *pgx.Conn, statements ...string) {
	p.t.Helper()
	for _, statement := range statements {
		if _, err := conn.Exec(p.ctx, statement); err != nil {
			p.t.Fatalf("%s: %v", statement, err)
		}
	}
}

// node runs a node with a handler of TEST, until the test ends, and returns when it leads.
func (p *patient) node() {
	p.t.Helper()
	registry, err := handlers.NewRegistry(handlers.Func("TEST", func(context.Context) error { return nil }))
	ok(p.t, err)
	pool, err := pgxpool.New(p.ctx, p.url)
	ok(p.t, err)
	node, err := scheduled.New(scheduled.Config{Pool: pool, Handlers: registry, Service: "test", Version: "v1",
		Logger: slog.New(slog.DiscardHandler)})
	ok(p.t, err)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- node.Run(ctx) }()
	p.t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			p.t.Error(err)
		}
		pool.Close()
	})
	p.until("a node leads", `SELECT EXISTS (SELECT 1 FROM pg_locks AS l WHERE l.locktype = 'advisory'
		AND l.classid::bigint = tasktable.lock_class('leader') AND l.objid::bigint = 0
		AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database()))`)
}

// fakeNode is a row of nodes whose lock somebody holds; it returns the number and the connection that holds it.
func (p *patient) fakeNode(service, version, declares string) (int64, *pgx.Conn) {
	p.t.Helper()
	number := ask[int64](p, `INSERT INTO tasktable.nodes (service, version, host, queues, types, declaration_hash)
		VALUES ($1, $2, 'host/1', '{"default": 100}', '{TEST}', nullif($3, '')) RETURNING number`,
		service, version, declares)
	conn := p.connect()
	p.on(conn, fmt.Sprintf("SELECT pg_advisory_lock(tasktable.lock_class('node')::bit(32)::int, %d)", number))
	return number, conn
}

// Locks are taken by a key that has a sign, and shown without.
const leaderLock = `SELECT pg_advisory_lock(tasktable.lock_class('leader')::bit(32)::int, 0)`

var tasks = store.New(store.Config{Service: "test"})

// put schedules a task of a type in a queue, due so long ago.
func (p *patient) put(id, kind, queue string, ago time.Duration) {
	p.t.Helper()
	task := store.Task{ID: id, Payload: store.JSON(`{"type":"` + kind + `"}`), Queue: queue, At: time.Now().Add(-ago)}
	if _, err := tasks.Schedule(p.ctx, p.pool, task); err != nil {
		p.t.Fatal(err)
	}
	p.exec(`UPDATE tasktable.scheduled_tasks SET next_attempt_at = due_at, due_at = NULL
		WHERE due_at IS NOT NULL AND next_attempt_at IS NOT NULL`) // as if it had waited
}

// examine makes the checks that are named, with the limits changed.
func (p *patient) examine(change func(*limits), only ...string) Report {
	p.t.Helper()
	return p.examineBy(func(c *Config) {
		c.Only = only
		if change != nil {
			change(&c.limits)
		}
	})
}

func (p *patient) examineBy(change func(*Config)) Report {
	p.t.Helper()
	config := Config{Pool: p.pool, limits: defaultLimits}
	config.limits.roundTrip = time.Second // the tests' machine may have much to do
	change(&config)
	report, err := Examine(p.ctx, config)
	ok(p.t, err)
	return report
}

// finds demands exactly one finding of a check and level that contains the texts, and returns it.
func (p *patient) finds(report Report, check string, level Level, texts ...string) Finding {
	p.t.Helper()
	var found []Finding
	for _, one := range report.Findings {
		if one.Check == check && one.Level == level && containsAll(one.Found, texts) {
			found = append(found, one)
		}
	}
	if len(found) != 1 {
		p.t.Fatalf("%d findings of %s at %s with %q among:\n%s", len(found), check, level, texts, list(report))
	}
	if found[0].Level != OK && found[0].Level != Info && found[0].Do == "" {
		p.t.Errorf("it does not say what to do: %+v", found[0])
	}
	return found[0]
}

// finding examines by one check, and demands exactly one finding of a level that contains the texts.
func (p *patient) finding(check string, level Level, texts ...string) Finding {
	p.t.Helper()
	return p.finds(p.examine(nil, check), check, level, texts...)
}

// cures demands such a finding, does what it says, and then demands that all is well.
func (p *patient) cures(check string, level Level, texts ...string) {
	p.t.Helper()
	finding := p.finding(check, level, texts...)
	conn := p.connect() // a new one: it has what is set for new sessions
	if _, err := conn.Exec(p.ctx, finding.Do); err != nil {
		// CREATE INDEX CONCURRENTLY and its like are statements by themselves.
		p.on(conn, strings.Split(finding.Do, "\n")...)
	}
	p.well(p.examine(nil, check))
}

// well demands that a report has nothing that is worse than info.
func (p *patient) well(report Report) {
	p.t.Helper()
	if report.Worst() != OK && report.Worst() != Info {
		p.t.Errorf("not well:\n%s", list(report))
	}
	if len(report.Findings) == 0 {
		p.t.Error("nothing was looked at")
	}
}

func containsAll(text string, parts []string) bool {
	for _, part := range parts {
		if !strings.Contains(text, part) {
			return false
		}
	}
	return true
}

func list(report Report) string {
	var out strings.Builder
	for _, one := range report.Findings {
		fmt.Fprintf(&out, "%-8s %-14s %s\n", one.Level, one.Check, one.Found)
		if one.Do != "" {
			fmt.Fprintf(&out, "%24s-> %s\n", "", one.Do)
		}
	}
	return out.String()
}
