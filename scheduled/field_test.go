package scheduled

import (
	"context"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tasktable/tasktable/scheduled/internal/enginetest"
	"github.com/tasktable/tasktable/scheduled/internal/pg"
	"github.com/tasktable/tasktable/store/storetest"
)

// Tests with several nodes are heavy: only so many run at once, however many cores there are.
var fieldTests = make(chan struct{}, 3)

// field is the database of a test with several nodes, and the test's own view of it.
type field struct {
	t    *testing.T
	url  string
	pool *pgxpool.Pool
}

func newField(t *testing.T) *field {
	t.Helper()
	t.Parallel()
	fieldTests <- struct{}{}
	t.Cleanup(func() { <-fieldTests })
	f := &field{t: t, url: storetest.URL(t)}
	pool, err := openTestPool(context.Background(), f.url, "view", 5)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	f.pool = pool
	f.exec(recordsSQL)
	return f
}

func (f *field) exec(statement string, args ...any) {
	f.t.Helper()
	if _, err := f.pool.Exec(f.t.Context(), statement, args...); err != nil {
		f.t.Fatal(err)
	}
}

// count is the number, or any one value, that a query returns.
func (f *field) count(query string, args ...any) int {
	f.t.Helper()
	return ask[int](f, query, args...)
}

func ask[T any](f *field, query string, args ...any) (answer T) {
	f.t.Helper()
	if err := f.pool.QueryRow(f.t.Context(), query, args...).Scan(&answer); err != nil {
		f.t.Fatalf("%v: %s", err, query)
	}
	return answer
}

// until waits for a query to return true, and returns how long that took.
func (f *field) until(within time.Duration, what, query string, args ...any) time.Duration {
	f.t.Helper()
	begin := time.Now()
	enginetest.Eventually(f.t, within, what, func() bool { return ask[bool](f, query, args...) })
	return time.Since(begin)
}

// never fails the test when the query counts anything.
func (f *field) never(what, query string, args ...any) {
	f.t.Helper()
	if n := f.count(query, args...); n != 0 {
		f.t.Errorf("%d times: %s", n, what)
	}
}

// shut closes a gate, and returns what opens it.
func (f *field) shut(gate int64) (open func()) {
	f.t.Helper()
	conn, err := pgx.Connect(f.t.Context(), f.url)
	if err != nil {
		f.t.Fatal(err)
	}
	if _, err := conn.Exec(f.t.Context(), "SELECT pg_advisory_lock($1)", gate); err != nil {
		f.t.Fatal(err)
	}
	open = sync.OnceFunc(func() { _ = conn.Close(context.Background()) })
	f.t.Cleanup(open)
	return open
}

// leadingSQL names the node whose session has the leader's lock; $1 and $2 are the classes of the leader's and
// the nodes' locks.
const leadingSQL = `
SELECT n.number, substring(n.host FROM '[0-9]+$')::int
FROM pg_locks AS leader JOIN pg_locks AS own ON own.pid = leader.pid AND own.database = leader.database AND own.granted
JOIN tasktable.nodes AS n ON n.number = own.objid::bigint
WHERE leader.locktype = 'advisory' AND leader.granted AND leader.objsubid = 2 AND leader.classid::bigint = $1
    AND leader.objid::bigint = 0
    AND leader.database = (SELECT oid FROM pg_database WHERE datname = current_database())
    AND own.locktype = 'advisory' AND own.objsubid = 2 AND own.classid::bigint = $2`

// leading is the node that leads, and its process; 0 when none does.
func (f *field) leading() (number int64, pid int) {
	f.t.Helper()
	row := f.pool.QueryRow(
		f.t.Context(), leadingSQL, uint32(pg.LockClass("tasktable", "leader")),
		uint32(pg.LockClass("tasktable", "node")),
	)
	if err := row.Scan(&number, &pid); err != nil {
		return 0, 0
	}
	return number, pid
}

const completedSQL = `SELECT count(*) >= $1 FROM tasktable.scheduled_tasks WHERE status = 'COMPLETED'`

const notCompletedOnceSQL = `SELECT count(*) FROM (SELECT t.id FROM tasktable.scheduled_tasks AS t
	LEFT JOIN tasktable.scheduled_task_executions AS e ON e.task_id = t.id AND e.outcome = 'COMPLETED' GROUP BY t.id
		HAVING count(e.fence) <> 1) AS x`

// nothingLeft looks for what the server still has of nodes that have stopped gracefully.
func (f *field) nothingLeft() {
	f.t.Helper()
	// The server's side of a closed connection takes a moment to end.
	f.until(patience, "no connection is left", `SELECT count(*) = 0 FROM pg_stat_activity
		WHERE datname = current_database() AND (application_name LIKE 'tasktable%'
			OR application_name IN ('test handlers', 'test records'))`)
	f.never("an advisory lock is left", `SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND objsubid = 2
		AND database = (SELECT oid FROM pg_database WHERE datname = current_database())`)
	f.never("a node is not marked as gone", `SELECT count(*) FROM tasktable.nodes WHERE dead_at IS NULL`)
	f.never("a River job is left", `SELECT count(*) FROM tasktable.river_job
		WHERE state NOT IN ('completed', 'cancelled', 'discarded')`)
	f.never("a task is held", `SELECT count(*) FROM tasktable.scheduled_tasks WHERE fence IS NOT NULL
		OR status = 'EXECUTING'`)
}

// connections names the server's processes that serve connections of that application name.
func (f *field) connections(name string) []int32 {
	f.t.Helper()
	return ask[[]int32](f, `SELECT coalesce(array_agg(pid ORDER BY pid), '{}') FROM pg_stat_activity
		WHERE datname = current_database() AND application_name LIKE $1 || '%'`, name)
}

// cut ends the connections of that application name, from the server's side, and returns how many there were.
func (f *field) cut(name string) int {
	f.t.Helper()
	return f.count(`SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity
		WHERE datname = current_database() AND application_name LIKE $1 || '%'`, name)
}

// nodePool is a pool for a node in this process.
func (f *field) nodePool() *pgxpool.Pool {
	f.t.Helper()
	pool, err := openTestPool(context.Background(), f.url, "own", 10)
	if err != nil {
		f.t.Fatal(err)
	}
	f.t.Cleanup(pool.Close)
	return pool
}

// overWire is a pool for a node in this process, with a wire between.
func (f *field) overWire(w *enginetest.Wire) *pgxpool.Pool {
	f.t.Helper()
	settings := f.nodePool().Config()
	settings.ConnConfig.DialFunc = w.Dial
	settings.ConnConfig.AfterNetConnect = func(_ context.Context, _ *pgconn.Config, conn net.Conn) (net.Conn, error) {
		return &enginetest.Tripwire{Conn: conn, Wire: w}, nil
	}
	pool, err := pgxpool.NewWithConfig(context.Background(), settings)
	if err != nil {
		f.t.Fatal(err)
	}
	f.t.Cleanup(func() {
		w.End()
		pool.Close()
	})
	return pool
}
