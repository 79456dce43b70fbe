package worker

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tasktable/tasktable/handlers"
	"github.com/tasktable/tasktable/scheduled/internal/enginetest"
	"github.com/tasktable/tasktable/scheduled/internal/failures"
	"github.com/tasktable/tasktable/scheduled/internal/loop"
	"github.com/tasktable/tasktable/scheduled/internal/metrics"
	"github.com/tasktable/tasktable/scheduled/internal/quiet"
	"github.com/tasktable/tasktable/scheduled/internal/riverjobs"
	"github.com/tasktable/tasktable/scheduled/internal/session"
	"github.com/tasktable/tasktable/scheduled/internal/taskdb"
	"github.com/tasktable/tasktable/store/storetest"
	"github.com/tasktable/tasktable/store/storetest/leaks"
)

func TestMain(m *testing.M) { storetest.Main(m, leaks.Check) }

const patience = enginetest.Patience

// bench is a database with workers that no leader and no River serve: the test claims for them.
type bench struct {
	*enginetest.Bench
	txPool *pgxpool.Pool // for transactional handlers
	ahead  time.Duration // how long before their time a node's tasks are claimed
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
	var err error
	if b.txPool, err = pgxpool.NewWithConfig(context.Background(), b.Pool.Config()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.txPool.Close)
	return b
}

// quick is a payload of another type than that of most tests.
type quick struct {
	Name string `json:"name"`
}

func (quick) TaskType() string { return "QUICK" }

// ownWorker is a worker, and the batches that it works.
type ownWorker struct {
	*Worker
	b       *bench
	batches sync.WaitGroup
}

// prepare makes a worker that does not work yet. Without parts it has the handler that the test steers.
func (b *bench) prepare(change func(*Config), parts ...handlers.Part) *ownWorker {
	b.T.Helper()
	if len(parts) == 0 {
		parts = []handlers.Part{handlers.Handle(b.Handle)}
	}
	registry, err := handlers.NewRegistry(parts...)
	b.OK(err)
	number := enginetest.Ask[int64](b.Bench, `INSERT INTO tasktable.nodes (service, version, host, queues, types)
		VALUES ('', '', '', '{}', '{}') RETURNING number`)
	engine, err := session.NewPool(b.T.Context(), session.PoolConfig{Settings: b.Pool.Config(), Conns: 6})
	b.OK(err)
	b.T.Cleanup(engine.Close)
	config := Config{
		EnginePool: engine, Pool: b.txPool, Statements: b.Queries, Number: number, Service: "test", Handlers: registry,
		Slots: map[string]int{"default": 100}, Places: 8, StartAllowance: 30 * time.Second, HungAfter: HungAfter,
		Backoff:   func(int, error) time.Duration { return 10 * time.Millisecond },
		LogErrors: true, Clock: session.NewClock(), Quiet: quiet.New(), Metrics: metrics.New(metrics.Config{}),
		Failures: failures.New(failures.Config{Log: enginetest.Logger()}), Log: enginetest.Logger(),
		Stuck: func(string) {}, Alive: func() bool { return true }, Frees: loop.NewSignal(), DueSoon: func() {},
		Answered: func(error) {},
	}
	sent := time.Now()
	config.Clock.Learn(b.Now(), sent, time.Now())
	if change != nil {
		change(&config)
	}
	return &ownWorker{Worker: New(b.T.Context(), config), b: b}
}

// begin has the worker work until the test ends.
func (w *ownWorker) begin() {
	ctx, cancel := context.WithCancel(context.Background())
	var telling sync.WaitGroup
	w.Start(ctx)
	telling.Go(func() { w.config.Failures.Run(ctx) })
	w.b.T.Cleanup(func() {
		w.b.LetGo()
		w.Halt(handlers.ErrInterrupted)
		w.batches.Wait()
		w.Finish()
		cancel()
		w.AwaitEnd()
		telling.Wait()
	})
}

// batch claims due tasks of a queue and has the worker work them as one River job, in the order of their ids. window is
// that of the job, see riverjobs.Metadata.
func (w *ownWorker) batch(n, window int) {
	w.b.T.Helper()
	claims := w.b.claim(w.config.StartAllowance, taskdb.Lane{Queue: "default", Type: "JOB"})
	if len(claims) != n {
		w.b.T.Fatalf("claimed %d tasks, want %d", len(claims), n)
	}
	job := riverjobs.Job{ID: w.b.insertJob(claims), Queue: "default", Kind: "JOB", Window: window}
	w.batches.Go(func() { w.Work(job, claims) })
}

// claim claims the due tasks of lanes, in the order of their ids.
func (b *bench) claim(allowance time.Duration, lanes ...taskdb.Lane) (claims []taskdb.Claim) {
	claims = enginetest.ClaimsOf(b.claimTasks(allowance, lanes...))
	slices.SortFunc(claims, func(a, b taskdb.Claim) int { return strings.Compare(a.ID, b.ID) })
	return claims
}

// claimTasks is claim for what a leader knows of the tasks.
func (b *bench) claimTasks(allowance time.Duration, lanes ...taskdb.Lane) (taken []taskdb.ClaimedLane) {
	if len(lanes) == 0 {
		return nil
	}
	var grants []taskdb.Grant
	for _, lane := range lanes {
		grants = append(grants, taskdb.Grant{Lane: lane, Tasks: 1000, Near: true})
	}
	ctx := context.WithoutCancel(b.T.Context())
	err := pgx.BeginFunc(ctx, b.Pool, func(tx pgx.Tx) error {
		_, err := tx.Exec(ctx, taskdb.EnterSQL)
		if err == nil {
			taken, err = b.Claim(ctx, tx, nil, b.ahead, allowance, grants)
		}
		return err
	})
	if err != nil {
		b.T.Error(err)
	}
	return taken
}

// insertJob inserts the River job of claims, which River is not to fetch, and returns its id.
func (b *bench) insertJob(claims []taskdb.Claim) (id int64) {
	b.T.Helper()
	return enginetest.Ask[int64](b.Bench, `INSERT INTO tasktable.river_job
		(state, kind, args, metadata, max_attempts, queue, attempted_by, attempted_at)
		VALUES ('running', 'JOB', jsonb_build_object('tasks', $1::text), '{}', 1, 'default', ARRAY['test'], now())
		RETURNING id`, riverjobs.EncodeClaims(claims))
}

// node is a worker that works what is due, until the test ends.
func (b *bench) node(change func(*Config), parts ...handlers.Part) *ownWorker {
	b.T.Helper()
	w := b.prepare(change, parts...)
	w.begin()
	w.serve()
	return w
}

// serve brings each due task that the worker has a handler of by itself, and its changes, until the test ends.
func (w *ownWorker) serve() {
	b := w.b
	ctx, cancel := context.WithCancel(context.Background())
	var serving sync.WaitGroup
	serving.Go(func() {
		tick := time.NewTicker(20 * time.Millisecond)
		defer tick.Stop()
		for ctx.Err() == nil {
			for _, lane := range b.claimTasks(w.config.StartAllowance, w.lanes()...) {
				for _, c := range lane.Tasks {
					job := riverjobs.Job{ID: c.Fence, Queue: lane.Grant.Queue, Kind: lane.Grant.Type}
					w.batches.Go(func() { w.Work(job, []taskdb.Claim{c.Claim}) })
				}
			}
			<-tick.C
		}
	})
	serving.Go(func() {
		session.Listener{
			Connect: func(ctx context.Context) (*pgx.Conn, error) {
				return pgx.ConnectConfig(ctx, b.Pool.Config().ConnConfig)
			},
			Log:       enginetest.Logger(),
			Channels:  map[string]func(context.Context, string){b.Schema.String() + ".held": w.Recheck},
			Listening: func(context.Context, bool) {},
		}.Run(ctx)
	})
	b.T.Cleanup(func() { cancel(); serving.Wait() })
}

// lanes lists those with due tasks that the worker has a handler of.
func (w *ownWorker) lanes() (lanes []taskdb.Lane) {
	listed, err := w.b.Lanes(context.WithoutCancel(w.b.T.Context()), w.b.Pool, nil)
	if err != nil {
		w.b.T.Error(err)
	}
	return slices.DeleteFunc(listed.Tasks, func(l taskdb.Lane) bool {
		return l.DueIn > w.b.ahead || w.config.Handlers.Variant(l.Type) == nil
	})
}

// slotsOf limits the slots of the queue default.
func slotsOf(n int) func(*Config) {
	return func(c *Config) { c.Slots = map[string]int{"default": cmp.Or(n, 1)} }
}
