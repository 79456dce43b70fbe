package scheduled

import (
	"context"
	"fmt"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river"

	"github.com/tasktable/tasktable/handlers"
	"github.com/tasktable/tasktable/scheduled/internal/enginetest"
	"github.com/tasktable/tasktable/scheduled/internal/riverjobs"
	"github.com/tasktable/tasktable/scheduled/internal/taskdb"
	"github.com/tasktable/tasktable/store/storetest"
	"github.com/tasktable/tasktable/store/storetest/leaks"
)

func TestMain(m *testing.M) { storetest.Main(m, leaks.Check) }

const patience = enginetest.Patience

// bench is a database with nodes of this process.
type bench struct {
	*enginetest.Bench
	nodes *pgxpool.Pool // its nodes' and their handlers'
	cut   bool          // connections have been cut: it takes some seconds until all that was theirs is cleared away
}

// newBench makes a bench for a test that runs beside others.
func newBench(t *testing.T) *bench {
	t.Helper()
	t.Parallel()
	return benchOf(t)
}

// benchOf is newBench for a test that has said so before, or runs alone.
func benchOf(t *testing.T) *bench {
	t.Helper()
	b := &bench{Bench: enginetest.New(t)}
	b.nodes = b.poolOf(nil)
	t.Cleanup(b.nothingIsLeft) // after the nodes have stopped: they are started later
	return b
}

// quick is a payload of another type than that of most tests.
type quick struct {
	Name string `json:"name"`
}

func (quick) TaskType() string  { return "QUICK" }
func (p quick) TaskKey() string { return p.Name }

// poolOf makes a pool with other settings than the test's.
func (b *bench) poolOf(change func(*pgxpool.Config)) *pgxpool.Pool {
	b.T.Helper()
	settings := b.Pool.Config()
	if change != nil {
		change(settings)
	}
	pool, err := pgxpool.NewWithConfig(context.Background(), settings)
	b.OK(err)
	b.T.Cleanup(pool.Close)
	return pool
}

// conns limits the connections of a pool.
func conns(most int32) func(*pgxpool.Config) {
	return func(c *pgxpool.Config) { c.MaxConns = most }
}

// overWire is a pool for a node, with a wire between.
func (b *bench) overWire(w *enginetest.Wire) *pgxpool.Pool {
	b.T.Helper()
	b.cut = true
	pool := b.poolOf(func(c *pgxpool.Config) {
		c.ConnConfig.DialFunc = w.Dial
		c.ConnConfig.AfterNetConnect = func(_ context.Context, _ *pgconn.Config, conn net.Conn) (net.Conn, error) {
			return &enginetest.Tripwire{Conn: conn, Wire: w}, nil
		}
	})
	b.T.Cleanup(w.End)
	return pool
}

// startNode runs a node until the test ends, or until the returned function stops it.
func startNode(t *testing.T, pool *pgxpool.Pool, change func(*Config), parts ...handlers.Part) (stop func()) {
	t.Helper()
	_, stop = runNode(t, pool, change, parts...)
	return stop
}

// runNode is startNode for a test that asks the node something.
func runNode(t *testing.T, pool *pgxpool.Pool, change func(*Config), parts ...handlers.Part) (node *Node, stop func()) {
	t.Helper()
	node = makeNode(t, pool, change, parts...)
	return node, keepRunning(t, node)
}

// makeNode makes a node that does not run yet.
func makeNode(t *testing.T, pool *pgxpool.Pool, change func(*Config), parts ...handlers.Part) *Node {
	t.Helper()
	registry, err := handlers.NewRegistry(parts...)
	enginetest.OK(t, err)
	config := Config{
		Pool: pool, Handlers: registry, Service: "test", Logger: enginetest.Logger(), StartAllowance: 30 * time.Second,
		Backoff: func(int, error) time.Duration { return 10 * time.Millisecond },
	}
	if change != nil {
		change(&config)
	}
	node, err := New(config)
	enginetest.OK(t, err)
	return node
}

// keepRunning runs a node until the test ends, or until the returned function stops it.
func keepRunning(t *testing.T, node *Node) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- node.Run(ctx) }()
	stop = sync.OnceFunc(func() {
		t.Helper()
		cancel()
		if err := <-done; err != nil {
			t.Errorf("node: %v", err)
		}
	})
	t.Cleanup(stop)
	return stop
}

// node starts a node until the test ends. Without parts it has the handler that the test steers.
func (b *bench) node(change func(*Config), parts ...handlers.Part) (stop func()) {
	b.T.Helper()
	_, stop = b.member(change, parts...)
	return stop
}

// member is node for a test that asks the node something.
func (b *bench) member(change func(*Config), parts ...handlers.Part) (node *Node, stop func()) {
	b.T.Helper()
	if len(parts) == 0 {
		parts = []handlers.Part{handlers.Handle(b.Handle)}
	}
	node, stop = runNode(b.T, b.nodes, change, parts...)
	b.T.Cleanup(b.LetGo)
	return node, stop
}

// leading is the number of the node that leads, or 0.
func (b *bench) leading() int64 {
	b.T.Helper()
	return enginetest.Ask[int64](b.Bench,
		`SELECT coalesce(max(number), 0) FROM tasktable.node_states WHERE state = 'leads'`)
}

// end ends the connections of that application name, from the server's side, and returns how many there were.
func (b *bench) end(name string) int {
	b.T.Helper()
	b.cut = true
	return b.Count(`SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity
		WHERE datname = current_database() AND application_name LIKE $1 || '%'`, name)
}

const completedSQL = `SELECT count(*) >= $1 FROM tasktable.scheduled_tasks WHERE status = 'COMPLETED'`

// nothingIsLeft looks for what nodes that have stopped must not leave: held tasks, River jobs to be done, themselves,
// their connections and locks.
func (b *bench) nothingIsLeft() {
	if b.T.Failed() {
		return // then there may well be something
	}
	ask := func(sql string) (left *string) {
		if err := b.Pool.QueryRow(context.Background(), sql).Scan(&left); err != nil {
			b.T.Error(err)
		}
		return left
	}
	for what, sql := range map[string]string{
		"held tasks": `SELECT string_agg(id || ' ' || status || ' ' || lease_expires_at, ', ')
			FROM tasktable.scheduled_tasks WHERE fence IS NOT NULL OR status = 'EXECUTING'`,
		"River jobs": `SELECT string_agg(state || ' ' || kind || ' ' || (args ->> 'tasks'), ', ')
			FROM tasktable.river_job WHERE state NOT IN ('completed', 'cancelled', 'discarded')`,
		"live nodes": `SELECT string_agg(number::text, ', ') FROM tasktable.nodes WHERE dead_at IS NULL`,
	} {
		if left := ask(sql); left != nil && (what == "held tasks" || !b.cut) {
			b.T.Errorf("%s are left: %s", what, *left)
		}
	}
	const connections = `SELECT string_agg(application_name, ', ') FROM pg_stat_activity
		WHERE datname = current_database() AND application_name LIKE 'tasktable%'`
	if !b.cut { // the server's side of a closed connection takes a moment to end
		enginetest.Eventually(b.T, patience, "no connection is left", func() bool { return ask(connections) == nil })
	}
}

// prepared is a node that has not begun to run, so that the test can prepare its parts.
type prepared struct {
	*bench
	*instance
	done chan error
}

// prepare makes a node that claims nothing yet, and stops when the test ends.
func (b *bench) prepare(change func(*Config), parts ...handlers.Part) *prepared {
	b.T.Helper()
	life, err := makeNode(b.T, b.nodes, change, parts...).begin(b.T.Context(), &sync.WaitGroup{})
	b.OK(err)
	// Nobody pings before the node runs, and a busy machine may take long until then.
	b.Did(life.session.Conn.Exec(b.T.Context(), "SET idle_session_timeout = 0"))
	b.T.Cleanup(func() { // also of a node that never runs
		life.worker.Finish()
		life.worker.AwaitEnd()
	})
	return &prepared{bench: b, instance: life, done: make(chan error, 1)}
}

// run begins the node's work; it stops when the test ends.
func (p *prepared) run() {
	ctx, cancel := context.WithCancel(context.Background())
	_ = p.session.Ask(ctx, false) // it may be long since the node was prepared
	go func() { p.done <- p.instance.run(ctx) }()
	p.T.Cleanup(func() {
		cancel()
		if err := <-p.done; err != nil {
			p.T.Errorf("node: %v", err)
		}
	})
	p.T.Cleanup(p.LetGo)
}

// oneBatch claims all that is due and hands it to River as a single job, in the order of the ids.
func (p *prepared) oneBatch(queue string, n int) {
	p.T.Helper()
	err := pgx.BeginFunc(p.T.Context(), p.Pool, func(tx pgx.Tx) error {
		if _, err := tx.Exec(p.T.Context(), taskdb.EnterSQL); err != nil {
			return err
		}
		lane := taskdb.Grant{Lane: taskdb.Lane{Queue: queue, Type: "JOB"}, Tasks: n}
		taken, err := p.statements.Claim(p.T.Context(), tx, nil, 0, time.Minute, []taskdb.Grant{lane})
		if err != nil {
			return err
		}
		holds := enginetest.ClaimsOf(taken)
		if len(holds) != n {
			return fmt.Errorf("claimed %d tasks, want %d", len(holds), n)
		}
		_, err = p.river.InsertManyFastTx(p.T.Context(), tx, []river.InsertManyParams{
			riverjobs.JobOf(taskdb.LaneKey{Queue: queue, Type: "JOB"}, 0, false, holds),
		})
		return err
	})
	p.OK(err)
}
