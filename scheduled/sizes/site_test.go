package sizes

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tasktable/tasktable/handlers"
	"github.com/tasktable/tasktable/scheduled"
	"github.com/tasktable/tasktable/scheduled/internal/enginetest"
	"github.com/tasktable/tasktable/store"
	"github.com/tasktable/tasktable/store/storetest"
)

const (
	feedEvery = 50 * time.Millisecond // 20 tasks a second
	plainID   = "plain-"              // the ids of the tasks that are measured begin with it
	side      = "side"                // the queue of tasks that must not take the slots of the plain ones
	tick      = "TICK"                // the type of the recurring tasks
	work      = "WORK"                // the type of tasks that end at once
	hangs     = "HANGS"               // the type of tasks that do not end before the test does
)

// site is a database with nodes of this process, and plain tasks, 20 a second.
type site struct {
	t     *testing.T
	pool  *pgxpool.Pool // the test's
	nodes *pgxpool.Pool // its nodes' and their handlers'
	tasks *store.Store  // its own: the debounce of its notifications is not shared with other sites
	log   enginetest.LogText

	config      scheduled.Config
	plainQueues []string
	plainKinds  []string

	stop        func()          // stops the first node
	running     atomic.Int64    // handlers that hang
	fed         atomic.Int64    // how many plain tasks are scheduled
	stopFeeding func()          // returns when no more will be
	others      time.Duration   // the worst start of tasks that are measured apart
	over        context.Context // of handlers that hang: it ends before the nodes stop
	end         func()
}

func newSite(t *testing.T) *site {
	t.Helper()
	s := &site{
		t: t, pool: storetest.Pool(t), tasks: store.New(store.Config{Service: "test"}),
		plainQueues: []string{store.DefaultQueue}, plainKinds: []string{"PLAIN"}, stopFeeding: func() {},
	}
	s.over, s.end = context.WithCancel(context.Background())
	var err error
	s.nodes, err = pgxpool.NewWithConfig(context.Background(), s.pool.Config())
	s.must(err)
	t.Cleanup(s.nodes.Close)
	s.config = scheduled.Config{
		Pool: s.nodes, Service: "test", Queues: map[string]int{store.DefaultQueue: 100, side: 100},
		Logger: slog.New(slog.NewTextHandler(&s.log, &slog.HandlerOptions{Level: slog.LevelError})),
	}
	return s
}

// hang does not mind its context.
func (s *site) hang(context.Context) error {
	s.running.Add(1)
	<-s.over.Done()
	return nil
}

// fan is the payload of a task that asks for so many follow-ups.
type fan struct{ N int }

// TaskType is FAN.
func (fan) TaskType() string { return "FAN" }

func fanOut(_ context.Context, t *handlers.Task[fan]) error {
	for _, task := range many(t.Payload.N, store.Task{Payload: payload(work), Queue: side}) {
		t.FollowUp(task)
	}
	return nil
}

// start starts a node, and returns when it is ready. It runs until the test ends, or until stop is called.
func (s *site) start() (stop func()) {
	s.t.Helper()
	parts := []handlers.Part{handlers.Func(hangs, s.hang), handlers.Handle(fanOut)}
	for _, kind := range append(s.plainKinds, tick, work) {
		parts = append(parts, handlers.Func(kind, func(context.Context) error { return nil }))
	}
	var err error
	s.config.Handlers, err = handlers.NewRegistry(parts...)
	s.must(err)
	node, err := scheduled.New(s.config)
	s.must(err)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- node.Run(ctx) }()
	stop = sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			s.t.Errorf("node: %v", err)
		}
	})
	s.t.Cleanup(stop)
	s.t.Cleanup(s.end)
	enginetest.Eventually(s.t, enginetest.Patience, "the node is ready", func() bool { return node.Ready().OK })
	return stop
}

// plain is the plain task with this number. They are spread over all queues and types.
func (s *site) plain(i int) store.Task {
	return store.Task{
		ID: fmt.Sprint(plainID, i), Queue: s.plainQueues[i*7919%len(s.plainQueues)],
		Payload: payload(s.plainKinds[i*104729%len(s.plainKinds)]),
	}
}

func payload(kind string) store.Payload { return store.JSON(`{"type":"` + kind + `"}`) }

// feed begins to schedule plain tasks.
func (s *site) feed() {
	ctx, stop := context.WithCancel(s.t.Context())
	var feeding sync.WaitGroup
	feeding.Go(func() {
		ticker := time.NewTicker(feedEvery)
		defer ticker.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-ticker.C:
			}
			n := int(s.fed.Load())
			if _, err := s.tasks.Schedule(context.WithoutCancel(ctx), s.pool, s.plain(n)); err != nil {
				s.t.Error(err)
				return
			}
			s.fed.Add(1)
		}
	})
	s.stopFeeding = func() { stop(); feeding.Wait() }
	s.t.Cleanup(s.stopFeeding)
}

// more waits until so many more plain tasks are scheduled.
func (s *site) more(n int) {
	s.t.Helper()
	want := s.fed.Load() + int64(n)
	within := enginetest.Patience + 4*time.Duration(n)*feedEvery
	enginetest.Eventually(s.t, within, "more plain tasks are scheduled", func() bool { return s.fed.Load() >= want })
}

func (s *site) must(err error) {
	s.t.Helper()
	if err != nil {
		s.t.Fatal(err)
	}
}

func (s *site) exec(sql string, args ...any) {
	s.t.Helper()
	_, err := s.pool.Exec(s.t.Context(), sql, args...)
	s.must(err)
}

// untriggered runs statements whose rows the triggers do not see, before any node runs.
func (s *site) untriggered(sql string, args ...any) {
	s.t.Helper()
	s.exec(`ALTER TABLE tasktable.scheduled_tasks DISABLE TRIGGER USER`)
	s.exec(sql, args...)
	s.exec(`ALTER TABLE tasktable.scheduled_tasks ENABLE TRIGGER USER`)
}

// sees waits until there are at least so many of some tasks.
func (s *site) sees(what string, n int, where string) {
	s.t.Helper()
	enginetest.Eventually(s.t, enginetest.Patience+time.Duration(n)*10*time.Millisecond, what, func() bool {
		var found int
		s.must(s.pool.QueryRow(s.t.Context(), "SELECT count(*) FROM tasktable.scheduled_tasks "+where).Scan(&found))
		return found >= n
	})
}

func (s *site) schedule(db store.DB, tasks ...store.Task) {
	s.t.Helper()
	_, err := s.tasks.ScheduleMany(s.t.Context(), db, tasks)
	s.must(err)
}

// open begins a transaction, which is rolled back when the test ends, unless it has ended by then.
func (s *site) open(level pgx.TxIsoLevel, sql string) pgx.Tx {
	s.t.Helper()
	tx, err := s.pool.BeginTx(s.t.Context(), pgx.TxOptions{IsoLevel: level})
	s.must(err)
	s.t.Cleanup(func() { _ = tx.Rollback(context.Background()) })
	_, err = tx.Exec(s.t.Context(), sql)
	s.must(err)
	return tx
}

// now is the database's time.
func (s *site) now() (now time.Time) {
	s.t.Helper()
	s.must(s.pool.QueryRow(s.t.Context(), "SELECT clock_timestamp()").Scan(&now))
	return now
}

// lateness is how long tasks have waited for their starts.
type lateness struct {
	Tasks, Waiting int // Waiting: those that have not started
	Median, Worst  time.Duration
}

// A task that is scheduled for a time in the past waits from when it was scheduled. An occurrence waits from its fire
// time, also if it was made late or skipped.
const latenessSQL = `
SELECT count(*), count(*) FILTER (WHERE t.started_at IS NULL AND t.finished_at IS NULL),
    coalesce(percentile_disc(0.5) WITHIN GROUP (ORDER BY one.late), '0'), greatest(max(one.late), '0')
FROM tasktable.scheduled_tasks AS t CROSS JOIN LATERAL (
    SELECT coalesce(t.started_at, t.finished_at, clock_timestamp()) - greatest(t.scheduled_at::timestamptz,
        $2::timestamptz, CASE WHEN t.parent_id IS NULL THEN t.created_at END) AS late
) AS one
WHERE starts_with(t.id, $1) AND t.cron IS NULL`

// lateness measures the tasks whose ids begin with a text. A wait counts from the given time at the earliest.
func (s *site) lateness(id string, from time.Time) (found lateness) {
	s.t.Helper()
	row := s.pool.QueryRow(s.t.Context(), latenessSQL, id, from)
	s.must(row.Scan(&found.Tasks, &found.Waiting, &found.Median, &found.Worst))
	return found
}

// settled is lateness once all these tasks have started, or after some time.
func (s *site) settled(id string, from time.Time) (found lateness) {
	s.t.Helper()
	end := time.Now().Add(enginetest.Patience)
	enginetest.Eventually(s.t, 2*enginetest.Patience, "the tasks start", func() bool {
		found = s.lateness(id, from)
		return found.Waiting == 0 || time.Now().After(end)
	})
	return found
}
