package scheduled

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	_ "github.com/lib/pq"

	"github.com/tasktable/tasktable/handlers"
	"github.com/tasktable/tasktable/scheduled/internal/enginetest"
	"github.com/tasktable/tasktable/scheduled/internal/pg"
	"github.com/tasktable/tasktable/scheduled/internal/taskdb"
	"github.com/tasktable/tasktable/store"
)

// rollout is a database that is migrated, and taken back, while nodes and applications work on it.
type rollout struct {
	*bench
	stop      chan struct{}
	producers sync.WaitGroup
	accepted  atomic.Int64
	refused   atomic.Int64 // calls of applications that failed
}

// moved is a task that applications edit.
type moved struct{ Name string }

func (moved) TaskType() string  { return "MOVED" }
func (m moved) TaskKey() string { return m.Name }

// apply runs a script step by step. Each gives way when it waits long for a lock, as migrations.Up does,
// and is tried again.
func (r *rollout) apply(script string) {
	r.T.Helper()
	content, err := os.ReadFile("../migrations/testdata/" + script)
	r.OK(err)
	conn, err := r.Pool.Acquire(r.T.Context())
	r.OK(err)
	defer conn.Release()
	settings := []string{"SET lock_timeout = '1s'", "SET check_function_bodies = off"}
	for _, step := range append(settings, strings.Split(string(content), "-- step\n")...) {
		enginetest.Eventually(r.T, 60*time.Second, script+" is applied", func() bool {
			_, err := conn.Exec(r.T.Context(), step)
			var refused *pgconn.PgError
			if errors.As(err, &refused) && (refused.Code == "55P03" || refused.Code == "40P01") {
				r.T.Logf("%s gave way: %s", script, refused.Message)
				return false
			}
			if err != nil {
				r.T.Fatalf("%v: %s", err, step)
			}
			return true
		})
	}
}

// produce has an application schedule and edit tasks until the rollout stops, in its own transactions.
func (r *rollout) produce(
	name string, open func(ctx context.Context) (db store.DB, commit func() error, rollback func(), err error),
) {
	own := store.New(store.Config{Service: name})
	r.producers.Go(func() {
		for i := 0; ; i++ {
			select {
			case <-r.stop:
				return
			default:
			}
			if err := r.produceOne(own, fmt.Sprint(name, " ", i), open); err != nil {
				r.refused.Add(1)
				r.T.Logf("%s %d: %v", name, i, err)
			} else {
				r.accepted.Add(4)
			}
		}
	})
}

func (r *rollout) produceOne(
	own *store.Store, name string, open func(ctx context.Context) (store.DB, func() error, func(), error),
) error {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	db, commit, rollback, err := open(ctx)
	if err != nil {
		return err
	}
	defer rollback()
	now := time.Now()
	later := store.Task{Payload: moved{name}, At: now.Add(time.Hour), Entity: "entity " + name}
	for _, do := range []func() error{
		func() error {
			_, err := own.Schedule(ctx, db, store.Task{Payload: enginetest.Job{Name: name + " plain"}})
			return err
		},
		func() error {
			_, err := own.ScheduleMany(ctx, db, []store.Task{
				{Payload: quick{name}, At: now.Add(50 * time.Millisecond)},
				{ID: "sql " + name, Payload: sqlJob{name}, Priority: 1},
			})
			return err
		},
		func() error { _, err := own.Schedule(ctx, db, later); return err },
		func() error { _, err := own.Pause(ctx, db, store.IDOf(later.Payload)); return err },
		func() error { _, err := own.Resume(ctx, db, store.IDOf(later.Payload)); return err },
		func() error { _, err := own.Get(ctx, db, store.IDOf(later.Payload)); return err },
		func() error { _, err := own.Sync(ctx, db, later.Entity, later); return err },
		func() error { _, err := own.History(ctx, db, store.IDOf(later.Payload)); return err },
		func() error { _, err := own.Reschedule(ctx, db, store.IDOf(later.Payload), now); return err },
		commit,
	} {
		if err := do(); err != nil {
			return err
		}
	}
	return nil
}

func (r *rollout) byPgx(pool *pgxpool.Pool) func(context.Context) (store.DB, func() error, func(), error) {
	return func(ctx context.Context) (store.DB, func() error, func(), error) {
		tx, err := pool.Begin(ctx)
		if err != nil {
			return nil, nil, nil, err
		}
		return tx, func() error { return tx.Commit(ctx) }, func() { _ = tx.Rollback(context.WithoutCancel(ctx)) }, nil
	}
}

func (r *rollout) bySQL() func(context.Context) (store.DB, func() error, func(), error) {
	db, err := sql.Open("postgres", r.Pool.Config().ConnString())
	r.OK(err)
	r.T.Cleanup(func() { _ = db.Close() })
	return func(ctx context.Context) (store.DB, func() error, func(), error) {
		tx, err := db.BeginTx(ctx, nil)
		if err != nil {
			return nil, nil, nil, err
		}
		return store.SQL(tx), tx.Commit, func() { _ = tx.Rollback() }, nil
	}
}

// sqlJob is a job whose handler works in a database/sql transaction.
type sqlJob struct {
	Name string `json:"name"`
}

func (sqlJob) TaskType() string { return "SQL_JOB" }

const insertEffectSQL = `INSERT INTO effects VALUES ($1)`

// serve starts a node with a handler of each kind, and a recurring task.
func (r *rollout) serve() (stop func()) {
	return startNode(r.T, r.nodes, func(c *Config) {
		c.Backoff = func(int, error) time.Duration { return 20 * time.Millisecond }
		c.Queues = map[string]int{"default": 20}
		c.Recurring = []store.Task{store.Cron("TICK", "* * * * * *")}
		c.Retention = time.Minute
	}, handlers.Handle(func(_ context.Context, t *handlers.Task[enginetest.Job]) error {
		if t.Attempt == 1 && rand.IntN(5) == 0 {
			return errors.New("oops")
		}
		if t.Payload.Name != "followed" {
			t.FollowUp(store.Task{Payload: moved{"after " + t.Payload.Name}})
		}
		return nil
	}), handlers.Handle(func(_ context.Context, t *handlers.Task[moved]) error {
		t.Result(t.Payload.Name)
		return nil
	}), handlers.HandleTx(func(ctx context.Context, tx pgx.Tx, t *handlers.Task[quick]) error {
		_, err := tx.Exec(ctx, insertEffectSQL, t.ID)
		return err
	}), handlers.HandleSQLTx(func(ctx context.Context, tx *sql.Tx, t *handlers.Task[sqlJob]) error {
		_, err := tx.ExecContext(ctx, insertEffectSQL, t.ID)
		return err
	}),
		handlers.Func("TICK", func(context.Context) error { return nil }))
}

// A schema that gets more columns, other functions and an index, and loses them again, twice, while two nodes
// work and applications schedule by three drivers: no node loses its session, no task is lost or fails, no effect comes
// twice, and what an application asks for in the midst of it is done.
func TestMigrationsUnderLoad(t *testing.T) {
	f := newBench(t)
	f.Exec(`CREATE TABLE effects (task_id text)`)
	r := &rollout{bench: f, stop: make(chan struct{})}
	r.serve()
	r.serve()
	f.Sees("both nodes are up", `SELECT count(*) = 2 FROM tasktable.nodes WHERE dead_at IS NULL`)
	r.produce("prepares", r.byPgx(r.poolOf(conns(10))))
	r.produce("describes", r.byPgx(r.poolOf(func(c *pgxpool.Config) {
		c.ConnConfig.DefaultQueryExecMode = pgx.QueryExecModeCacheDescribe
	})))
	r.produce("database/sql", r.bySQL())
	finish := sync.OnceFunc(func() { close(r.stop); r.producers.Wait() })
	defer finish()
	for range 2 {
		for _, script := range []string{"newer.sql", "newer_undone.sql"} {
			was := r.completed()
			enginetest.Eventually(t, patience, "tasks complete after a migration", func() bool {
				return r.completed() >= was+100
			})
			r.apply(script)
		}
	}
	r.apply("newer.sql")
	finish()
	const unfinished = `SELECT coalesce(string_agg(id || ' ' || status || ' ' || coalesce(message, ''), E'\n'), '')
		FROM tasktable.scheduled_tasks
		WHERE status NOT IN ('COMPLETED', 'SKIPPED') AND cron IS NULL`
	var left string
	deadline := time.Now().Add(45 * time.Second)
	enginetest.Eventually(t, patience, "all are completed", func() bool {
		left = enginetest.Ask[string](f.Bench, unfinished)
		return left == "" || time.Now().After(deadline)
	})
	if left != "" {
		t.Fatalf("not completed:\n%s", left)
	}
	t.Logf("%d tasks accepted, %d calls refused", r.accepted.Load(), r.refused.Load())
	const theirs = `SELECT count(*) FROM tasktable.scheduled_tasks
		WHERE scheduled_by IN ('prepares', 'describes', 'database/sql')
		AND spawned_by IS NULL`
	if n := int64(f.Count(theirs)); n != r.accepted.Load() {
		t.Errorf("%d tasks were accepted, and %d are there", r.accepted.Load(), n)
	}
	if n := r.refused.Load(); n != 0 {
		t.Errorf("%d calls of applications were refused", n)
	}
	f.Never("an effect is not there once", `SELECT count(*)
		FROM (SELECT t.id FROM tasktable.scheduled_tasks AS t LEFT JOIN effects AS e ON e.task_id = t.id
		WHERE t.type IN ('QUICK', 'SQL_JOB') GROUP BY t.id HAVING count(e.task_id) <> 1) AS x`)
	// A transaction of a handler's that a migration has cut across is retried, like any other. A node on a busy machine
	// hands tasks back that have waited for a second.
	rows, err := f.Pool.Query(t.Context(), `SELECT DISTINCT outcome || ': ' || coalesce(error, '')
		FROM tasktable.scheduled_task_executions
		WHERE outcome NOT IN ('COMPLETED', 'RETRIED') AND NOT (outcome = 'RELEASED' AND error LIKE 'it waited too long%')
			OR outcome = 'RETRIED' AND error <> 'oops'`)
	f.OK(err)
	others, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil || len(others) > 0 {
		t.Errorf("attempts came to what they did not ask for: %q, %v", others, err)
	}
	f.Counts("nodes: sessions were lost", 2, `SELECT count(*) FROM tasktable.nodes`)
	if n := f.Count(`SELECT count(*) FROM tasktable.scheduled_tasks WHERE parent_id IS NOT NULL
		AND status = 'COMPLETED'`); n == 0 {
		t.Error("the recurring task did not fire")
	}
	// Nodes that stop together may leave a claim to the next leader.
	f.Exec(`SELECT tasktable.cancel(id) FROM tasktable.scheduled_tasks WHERE cron IS NOT NULL`)
	f.Sees("no occurrence is claimed", `SELECT count(*) = 0 FROM tasktable.scheduled_tasks WHERE fence IS NOT NULL
		OR parent_id IS NOT NULL AND finished_at IS NULL`)
}

func (r *rollout) completed() int {
	return r.Count(`SELECT count(*) FROM tasktable.scheduled_task_executions WHERE outcome = 'COMPLETED'`)
}

// onceSQL has a statement of the engine's fail with an internal error, as often as the sequence says: as one does
// that is about to call a function which a migration makes anew.
const onceSQL = `
CREATE SEQUENCE failures MINVALUE 0;
CREATE FUNCTION fail_at_first() RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    IF current_setting('application_name') = 'tasktable engine' AND nextval('failures') < 2 THEN
        RAISE EXCEPTION 'cache lookup failed for function 1' USING ERRCODE = 'XX000';
    END IF;
END $$;
CREATE FUNCTION fail_insert() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN PERFORM fail_at_first(); RETURN new; END $$;`

// What fails but passes does not cost the task anything, wherever it comes.
func TestInternalErrorsThatPass(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		sql   string
		fails map[string]int // by the kind of task how often
	}{
		"gate": {`CREATE OR REPLACE FUNCTION tasktable.due_of(id text, scheduled_at timestamptz, run_now_at timestamptz,
			jitter interval) RETURNS timestamptz
			LANGUAGE plpgsql AS $$ BEGIN PERFORM fail_at_first();
				RETURN scheduled_at; END $$`, map[string]int{"plain": 1, "follows": 1}},
		"settle": {`CREATE TRIGGER once BEFORE INSERT ON tasktable.scheduled_task_executions FOR EACH ROW
			EXECUTE FUNCTION fail_insert()`,
			// A plain one is settled in another way when the first has failed.
			map[string]int{"plain": 2, "follows": 1}},
	} {
		t.Run(name, func(t *testing.T) {
			s := newBench(t)
			s.node(nil, handlers.Handle(workAtOnce))
			s.Add("first", nil)
			s.Is("first", store.StatusCompleted, taskdb.OutcomeCompleted)
			s.Exec(onceSQL)
			s.Exec(test.sql)
			for kind, fails := range test.fails {
				s.Exec(`SELECT setval('failures', 2 - $1::int, false)`, fails)
				s.Add(kind, func(task *store.Task) { task.Payload = enginetest.Job{Name: kind} })
				s.Is(kind, store.StatusCompleted, taskdb.OutcomeCompleted)
				if n := s.Count(`SELECT last_value FROM failures`); n <= 1 {
					t.Errorf("nothing has failed: %d", n)
				}
			}
			s.Is("task-JOB-follows followed", store.StatusCompleted, taskdb.OutcomeCompleted)
		})
	}
}

// A statement whose result a migration has changed is planned anew, and says nothing about the task it was for.
func TestStalePlanIsNoDataError(t *testing.T) {
	s := newBench(t)
	s.Exec(`CREATE TABLE narrow (a int)`)
	conn, err := s.Pool.Acquire(t.Context())
	s.OK(err)
	defer conn.Release()
	s.Did(conn.Conn().Prepare(t.Context(), "all", "SELECT * FROM narrow"))
	s.Did(conn.Exec(t.Context(), "all"))
	s.Exec(`ALTER TABLE narrow ADD COLUMN b int`)
	var stale *pgconn.PgError
	if _, err := conn.Exec(t.Context(), "all"); !errors.As(err, &stale) || stale.Code != "0A000" ||
		pg.IsDataError(err) {
		t.Errorf("%v, a data error: %t", err, pg.IsDataError(err))
	}
}
