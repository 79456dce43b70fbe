package scheduled

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/tasktable/tasktable/handlers"
	"github.com/tasktable/tasktable/migrations"
	"github.com/tasktable/tasktable/scheduled/internal/enginetest"
	"github.com/tasktable/tasktable/scheduled/internal/maintenance"
	"github.com/tasktable/tasktable/scheduled/internal/pg"
	"github.com/tasktable/tasktable/scheduled/internal/session"
	"github.com/tasktable/tasktable/scheduled/internal/taskdb"
	"github.com/tasktable/tasktable/store"
	"github.com/tasktable/tasktable/store/inspect"
	"github.com/tasktable/tasktable/store/storetest"
)

// bound makes the nodes of a stage connect as the engine's role, and returns a pool of an application's that is bound
// to the service "test": with row level security, and all that the script of the roles has.
func bound(t *testing.T) (s *bench, application *pgxpool.Pool) {
	t.Helper()
	roles := migrations.Roles{ // before the database, in which they have rights
		Owner: storetest.Role(t), Engine: storetest.Role(t), Application: storetest.Role(t), Auditor: storetest.Role(t),
		Tenant: storetest.Role(t), Services: []string{"test"},
	}
	s = benchOf(t)
	var script strings.Builder
	enginetest.OK(t, migrations.PrintRoles(&script, "", roles))
	if _, err := s.Pool.Exec(t.Context(), script.String(), pgx.QueryExecModeSimpleProtocol); err != nil {
		t.Fatal(err)
	}
	pool := func(role string) *pgxpool.Pool {
		config := s.Pool.Config()
		config.ConnConfig.User, config.ConnConfig.Password = role, storetest.RolePassword
		made, err := pgxpool.NewWithConfig(t.Context(), config)
		enginetest.OK(t, err)
		t.Cleanup(made.Close)
		return made
	}
	s.nodes = pool(roles.Engine)
	return s, pool(roles.Application)
}

// busyNode is a node with all kinds of handlers, two queues and a recurring task that fires each second. It returns
// where its metrics are.
func (s *bench) busyNode(recurring store.Task) prometheus.Gatherer {
	s.T.Helper()
	registry := prometheus.NewRegistry()
	s.node(func(c *Config) {
		c.Recurring, c.declareEvery = []store.Task{recurring}, 10*time.Millisecond
		c.Queues = map[string]int{"default": 20, "slow": 20}
		c.Metrics, c.censusEvery = registry, 50*time.Millisecond
	}, handlers.Handle(func(_ context.Context, task *handlers.Task[enginetest.Job]) error {
		switch name := task.Payload.Name; {
		case name == "fails":
			return handlers.Permanent(errors.New("no such event"))
		case name == "retried" && task.Attempt == 1:
			return errors.New("oops")
		case name == "follows":
			task.FollowUp(store.Task{ID: "followed", Payload: enginetest.Job{Name: "followed"}})
			task.Result(map[string]int{"n": 1})
		}
		return nil
	}), handlers.HandleTx(func(ctx context.Context, tx pgx.Tx, _ *handlers.Task[quick]) error {
		_, err := enginetest.Tasks.Schedule(ctx, tx, store.Task{ID: "in tx", Payload: enginetest.Job{Name: "in tx"}})
		return err
	}), handlers.Func("TICK", func(context.Context) error { return nil }))
	return registry
}

// A node needs no more than the engine's role, whatever becomes of its tasks.
func TestANodeWithTheEnginesRights(t *testing.T) {
	t.Parallel()
	s, application := bound(t)
	secondly := store.Cron("TICK", "* * * * * *")
	metrics := s.busyNode(secondly)
	s.Did(enginetest.Tasks.PauseScope(t.Context(), s.nodes, store.Queue("slow"), time.Time{}, "first the others"))
	put := func(name string, change func(*store.Task)) {
		task := store.Task{ID: name, Payload: enginetest.Job{Name: name}}
		if change != nil {
			change(&task)
		}
		enginetest.Schedule(t, application, task)
	}
	put("good", nil)
	put("fails", nil)
	put("retried", nil)
	put("follows", nil)
	put("slow", func(task *store.Task) { task.Queue = "slow" })
	put("late", func(task *store.Task) { task.At, task.Expiration = time.Now().Add(-time.Hour), time.Minute })
	put("transactional", func(task *store.Task) { task.Payload = quick{"transactional"} })
	put("undecodable", func(task *store.Task) { task.Payload = store.JSON(`{"type": "JOB", "name": []}`) })
	put("bad cron", func(task *store.Task) { task.At = time.Now().Add(time.Hour) })
	_, err := s.nodes.Exec(t.Context(), `UPDATE tasktable.scheduled_tasks SET cron = '0 0 30 2 *'
		WHERE id = 'bad cron'`)
	s.OK(err)
	s.Is("good", store.StatusCompleted, "COMPLETED")
	s.Is("fails", store.StatusFailed, "FAILED")
	s.Is("retried", store.StatusCompleted, "RETRIED", "COMPLETED")
	s.Is("follows", store.StatusCompleted, "COMPLETED")
	s.Is("followed", store.StatusCompleted, "COMPLETED")
	s.Is("late", store.StatusExpired, "EXPIRED")
	s.Is("transactional", store.StatusCompleted, "COMPLETED")
	s.Is("in tx", store.StatusCompleted, "COMPLETED")
	s.Is("undecodable", store.StatusFailed, "FAILED")
	enginetest.Await(t, s.Pool, "bad cron", patience, store.StatusFailed)
	s.Sees("the recurring task fires twice", `SELECT count(*) >= 2 FROM tasktable.scheduled_tasks
			WHERE parent_id = $1 AND status = 'COMPLETED'`, taskdb.IDOf(secondly))
	if got := enginetest.Outcomes(t, s.Pool, "slow"); len(got) != 0 {
		t.Errorf("the paused task has run: %v", got)
	}
	s.Did(enginetest.Tasks.ResumeScope(t.Context(), s.nodes, store.Queue("slow")))
	s.Is("slow", store.StatusCompleted, "COMPLETED")
	s.Did(enginetest.Tasks.Retry(t.Context(), application, "fails"))
	s.Is("fails", store.StatusFailed, "FAILED", "FAILED")
	enginetest.Eventually(t, patience, "all is counted for the metrics", func() bool {
		got := enginetest.Scraped(t, metrics)
		return got["dead_letters FAILED JOB"] == 3
	})
	if got := enginetest.Scraped(t, metrics); got["lane_depth_limit"] == 0 || got["census_failures_total"] != 0 {
		t.Errorf("up to %v, failures %v", got["lane_depth_limit"], got["census_failures_total"])
	}
	// The application sees its own tasks alone. The follow-ups of its tasks are among them.
	if rows, err := inspect.New(store.Config{}).List(
		t.Context(), application, inspect.Filter{Type: "JOB"},
	); err != nil || len(rows) != 10 {
		t.Errorf("the application sees %d tasks: %v", len(rows), err)
	}
}

// A role with rights that somebody has granted by hand runs nodes, until row level security hides the tasks from it.
// Then its node stops, because as the leader it would find nothing to claim, and a node with the engine's role leads.
func TestANodeThatSeesNoTasks(t *testing.T) {
	t.Parallel()
	byHand := storetest.Role(t)
	s, _ := bound(t)
	good := s.nodes
	config := s.Pool.Config()
	config.ConnConfig.User, config.ConnConfig.Password = byHand, storetest.RolePassword
	hand, err := pgxpool.NewWithConfig(t.Context(), config)
	s.OK(err)
	t.Cleanup(hand.Close)
	security := func(is string) {
		for _, table := range []string{"tasks", "task_executions", "task_changes"} {
			s.Exec(`ALTER TABLE tasktable.scheduled_` + table + ` ` + is + ` ROW LEVEL SECURITY`)
		}
	}
	security("DISABLE")
	s.Exec(`GRANT USAGE ON SCHEMA tasktable TO ` + byHand)
	for _, all := range []string{"TABLES", "SEQUENCES", "FUNCTIONS"} {
		s.Exec(`GRANT ALL ON ALL ` + all + ` IN SCHEMA tasktable TO ` + byHand)
	}
	s.nodes = hand
	s.node(nil, handlers.Handle(workAtOnce))
	s.Sees("the node leads", `SELECT count(elected_at) = 1 FROM tasktable.nodes`)
	s.nodes = good
	s.node(nil, handlers.Handle(workAtOnce))
	s.Add("before", nil)
	s.Is("before", store.StatusCompleted, "COMPLETED")

	security("ENABLE")
	s.Add("after", nil)
	s.Is("after", store.StatusCompleted, "COMPLETED")
	registry, err := handlers.NewRegistry(handlers.Handle(workAtOnce))
	s.OK(err)
	node, err := New(Config{Pool: hand, Handlers: registry, Logger: enginetest.Logger()})
	s.OK(err)
	if err := node.Run(t.Context()); !errors.Is(err, pg.ErrHidden) {
		t.Errorf("a node that begins: %v", err)
	}
	s.Sees("the first node is dead", `SELECT count(dead_at) = 1 AND count(*) = 2 FROM tasktable.nodes`)
}

// What the leader does of its own accord, and erasure, need no more either.
func TestRetentionAndErasureWithTheEnginesRights(t *testing.T) {
	t.Parallel()
	s, application := bound(t)
	enginetest.Schedule(t, application, store.Task{ID: "old", Payload: enginetest.Job{Name: "old"}})
	enginetest.Schedule(t, application, store.Task{
		ID: "erased", Payload: enginetest.Job{Name: "erased"}, Entity: "member:7", At: time.Now().Add(time.Hour),
	})
	tr := s.prepare(nil, handlers.Handle(func(context.Context, *handlers.Task[enginetest.Job]) error { return nil }))
	tr.run()
	s.Is("old", store.StatusCompleted, "COMPLETED")
	retention := maintenance.NewRetention(maintenance.RetentionConfig{
		Config: maintenance.Config{
			Housekeeping: session.NewHousekeeping(tr.pool), Statements: tr.statements, Log: enginetest.Logger(),
		},
		Period: time.Microsecond,
	})
	for at := (maintenance.Place{}); ; {
		next, _, err := retention.RunOnce(t.Context(), at)
		s.OK(err)
		if at = next; at == (maintenance.Place{}) {
			break
		}
	}
	erased, err := enginetest.Tasks.EraseEntity(t.Context(), s.nodes, "member:7")
	if err != nil || erased.Tasks != 1 || erased.Changes != 1 {
		t.Errorf("erased %+v, %v", erased, err)
	}
	if left := s.Count(`SELECT (SELECT count(*) FROM tasktable.scheduled_tasks)
		+ (SELECT count(*) FROM tasktable.scheduled_task_executions)
		+ (SELECT count(*) FROM tasktable.scheduled_task_changes)`); left != 0 {
		t.Errorf("%d rows are left", left)
	}
	for _, statement := range []string{
		`UPDATE tasktable.scheduled_task_executions SET outcome = 'COMPLETED'`,
		`UPDATE tasktable.scheduled_task_changes SET changed_by = 'me'`, `TRUNCATE tasktable.scheduled_tasks`,
		`DROP TABLE tasktable.scheduled_tasks`, `ALTER TABLE tasktable.scheduled_tasks DISABLE TRIGGER ALL`,
		`CREATE TABLE tasktable.mine ()`, `DELETE FROM tasktable.goose_db_version`,
	} {
		var refused *pgconn.PgError
		if _, err := s.nodes.Exec(t.Context(), statement); !errors.As(err, &refused) || refused.Code != "42501" {
			t.Errorf("%s: got %v, want permission denied", statement, err)
		}
	}
}

// A node that has lost its session begins again, and runs the task that it had to give up.
func TestReclaimWithTheEnginesRights(t *testing.T) {
	t.Parallel()
	s, application := bound(t)
	s.cut = true
	s.node(func(c *Config) { c.StartAllowance = time.Second })
	enginetest.Schedule(t, application, store.Task{ID: "cut", Payload: enginetest.Job{Name: "cut"}})
	s.Begins("cut")
	s.Exec(`SELECT pg_terminate_backend(pid) FROM pg_stat_activity
		WHERE datname = current_database() AND application_name LIKE 'tasktable session%'`)
	s.Begins("cut").End <- nil
	s.Is("cut", store.StatusCompleted, "INTERRUPTED", "COMPLETED")
}
