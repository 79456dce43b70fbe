package scheduled

import (
	"context"
	"errors"
	"maps"
	"math"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/tasktable/tasktable/handlers"
	"github.com/tasktable/tasktable/scheduled/internal/enginetest"
	"github.com/tasktable/tasktable/scheduled/internal/taskdb"
	"github.com/tasktable/tasktable/store"
)

// counted is what a query returns: labels, and a number.
func (s *bench) counted(sql string, args ...any) map[string]float64 {
	s.T.Helper()
	rows, err := s.Pool.Query(s.T.Context(), sql, args...)
	s.OK(err)
	found := map[string]float64{}
	var labels string
	var n float64
	s.Did(pgx.ForEachRow(rows, []any{&labels, &n}, func() error { found[labels] = n; return nil }))
	return found
}

type txJob struct{}

func (txJob) TaskType() string { return "TX_JOB" }

// script is what the handlers of a known run do; some runs the test steers.
func (s *bench) script(ctx context.Context, e *handlers.Execution, snoozed *atomic.Bool) error {
	switch e.ID {
	case "fails once":
		if e.Attempt == 1 {
			return errors.New("oops")
		}
	case "fails", "tx fails":
		return handlers.Permanent(errors.New("oops"))
	case "panics":
		panic("boom")
	case "snoozes":
		if !snoozed.Swap(true) {
			return handlers.Snooze(10 * time.Millisecond)
		}
	case "again":
		e.Again(time.Now().Add(time.Hour))
	case "follows":
		e.FollowUp(store.Task{ID: "followed", Payload: enginetest.Job{Name: "followed"}})
	case "edited", "tx edited", "cancelled", "occupies":
		return s.Handle(ctx, &handlers.Task[enginetest.Job]{Execution: e})
	}
	return nil
}

// After a run in which all kinds of things have happened the counters say what the history says, line by line.
func TestMetricsOfAKnownRun(t *testing.T) {
	s := newBench(t)
	registry := prometheus.NewPedanticRegistry()
	s.Add("lost", func(task *store.Task) { task.Queue = "one" })
	s.Exec(`UPDATE tasktable.scheduled_tasks
		SET status = 'EXECUTING', attempt = 1, fence = 1000000, lease_expires_at = now() - interval '1 second',
			next_attempt_at = NULL`)
	s.set(store.Limit{Name: "mine", Of: store.Type("JOBS"), MaxRunning: 7, Rate: 3, Interval: time.Hour})
	var snoozed atomic.Bool
	s.node(func(c *Config) {
		c.Metrics, c.censusEvery, c.Queues = registry, 50*time.Millisecond, map[string]int{"default": 10, "one": 1}
		c.abandonedAfter, c.TypeSlots = 100*time.Millisecond, map[string]int{"TX_JOB": 3}
	}, handlers.Handle(func(ctx context.Context, task *handlers.Task[enginetest.Job]) error {
		return s.script(ctx, task.Execution, &snoozed)
	}),
		handlers.HandleTx(func(ctx context.Context, _ pgx.Tx, task *handlers.Task[txJob]) error {
			return s.script(ctx, task.Execution, &snoozed)
		}))
	enginetest.Eventually(t, patience, "the leader has counted", func() bool {
		return enginetest.Has(enginetest.Scraped(t, registry), "river_jobs available")
	})

	s.knownRun()

	want := map[string]map[string]float64{
		"executions_total": s.counted(`SELECT outcome || ' ' || type, count(*)
			FROM tasktable.scheduled_task_executions GROUP BY 1`),
		"tasks_dead_total": s.counted(`SELECT status || ' ' || type, count(*) FROM tasktable.dead_letters GROUP BY 1`),
		"dead_letters":     s.counted(`SELECT status || ' ' || type, count(*) FROM tasktable.dead_letters GROUP BY 1`),
		"tasks_claimed_total": s.counted(`SELECT type, count(*) FROM tasktable.scheduled_task_executions
			WHERE node IS NOT NULL GROUP BY 1`),
		"tasks_started_total": s.counted(`SELECT type, count(*) FROM tasktable.scheduled_task_executions
			WHERE started_at IS NOT NULL GROUP BY 1`),
	}
	want["start_delay_seconds_count"], want["task_duration_seconds_count"] = want["tasks_started_total"],
		want["tasks_started_total"]
	for _, outcome := range []string{
		taskdb.OutcomeCompleted, taskdb.OutcomeFailed, taskdb.OutcomeRetried, taskdb.OutcomeSnoozed, taskdb.OutcomeLost,
		taskdb.OutcomeSuperseded, taskdb.OutcomeExpired, taskdb.OutcomeCancelled,
	} {
		if want["executions_total"][outcome+" JOB"] == 0 {
			t.Errorf("there is no line %s to be counted: %v", outcome, want["executions_total"])
		}
	}
	for name := range want { // a line is counted after its commit, and what the leader counts later
		t.Run(name, func(t *testing.T) {
			var got map[string]float64
			t.Cleanup(func() {
				if t.Failed() {
					t.Errorf("%v, want %v", got, want[name])
				}
			})
			enginetest.Eventually(t, patience, "it is as in the tables", func() bool {
				got = enginetest.Some(enginetest.Scraped(t, registry), name)
				return maps.Equal(got, want[name])
			})
		})
	}
	enginetest.Eventually(t, patience, "the leader has looked again, and counted", func() bool {
		all := enginetest.Scraped(t, registry)
		return all["lanes"] == 2 && enginetest.Has(all, "lane_depth 0 default JOB") &&
			all["lane_oldest_due_age_seconds 0 default JOB"] == 0
	})
	s.compareSums(enginetest.Scraped(t, registry))
}

// knownRun schedules tasks each of which ends in a way of its own, and waits for their ends.
func (s *bench) knownRun() {
	s.T.Helper()
	for _, id := range []string{
		"completes", "fails once", "fails", "panics", "snoozes", "again", "follows", "tx completes", "tx fails",
		"tx edited", "too late", "edited", "cancelled",
	} {
		s.Add(id, func(task *store.Task) {
			switch {
			case strings.HasPrefix(id, "tx "):
				task.Payload = txJob{}
			case id == "too late":
				task.At, task.Expiration = time.Now().Add(-time.Hour), time.Minute
			case id == "panics":
				task.MaxAttempts = 1
			}
		})
	}
	for _, id := range []string{"edited", "tx edited"} { // while they run
		run := s.Begins(id)
		s.Did(s.Tasks.Reschedule(s.T.Context(), s.Pool, id, time.Now().Add(time.Hour)))
		run.End <- nil
	}
	s.Begins("cancelled")
	s.Exec(`SELECT tasktable.cancel('cancelled')`)
	s.Add("occupies", func(task *store.Task) { task.Queue = "one" })
	occupies := s.Begins("occupies")
	s.Add("waits", func(task *store.Task) { task.Queue = "one" }) // for the slot, and is cancelled then
	enginetest.Await(s.T, s.Pool, "waits", patience, store.StatusExecuting)
	s.Exec(`SELECT tasktable.cancel('waits')`)
	occupies.End <- nil
	s.Sees("all have ended", `SELECT count(*) = 0 FROM tasktable.scheduled_tasks WHERE fence IS NOT NULL
			OR next_attempt_at < now() + interval '1 minute'`)
}

// compareSums compares what is not counted line by line.
func (s *bench) compareSums(got map[string]float64) {
	s.T.Helper()
	delays := s.counted(`SELECT type, extract(epoch FROM sum(started_at - due_at))::float8
		FROM tasktable.scheduled_task_executions
		WHERE started_at IS NOT NULL GROUP BY type`)
	for kind, want := range delays {
		if delay := got["start_delay_seconds_sum "+kind]; math.Abs(delay-want) > .001 {
			s.T.Errorf("%s: a delay of %v s in all, want %v", kind, delay, want)
		}
	}
	// The settler records what this node's transactions have not.
	settled := s.Count(`SELECT count(*) FROM tasktable.scheduled_task_executions WHERE node IS NOT NULL
		AND (type <> 'TX_JOB' OR outcome = 'FAILED')`)
	claimed := s.Count(`SELECT count(*) FROM tasktable.scheduled_task_executions WHERE node IS NOT NULL`)
	for name, want := range map[string]float64{
		"settle_batch_tasks_sum": float64(settled), "river_job_tasks_sum": float64(claimed),
		"river_inserted_jobs_total": got["river_job_tasks_count"],
		"river_fetched_jobs_total default": got["river_job_tasks_count"] - got["river_fetched_jobs_total one"] -
			got["river_fetched_jobs_total type|0"],
		"type_slots TX_JOB": 3, "type_slots_used TX_JOB": 0,
		"limit_max_running mine": 7, "limit_running mine": 0, "limit_tokens mine": 1,
		"limit_waiting mine": 0, "limit_oldest_due_age_seconds mine": 0,
		"node_up": 1, "leader": 1, "node_lives_total": 1, "nodes": 1, "lanes": 2,
		"settle_failures_total": 0, "census_failures_total": 0, "look_failures_total tick": 0,
		"look_failures_total pass": 0, "tasks_in_hand": 0, "slots default": 10, "slots one": 1, "slots_used default": 0,
		"slots_used one": 0, "lane_depth 0 default JOB": 0, "lane_oldest_due_age_seconds 0 default JOB": 0,
		"lane_nodes 0 default JOB": 1, "lane_paused 0 default JOB": 0, "node_info tasktable test unknown": 1,
		"pool_connections engine": DefaultEngineConns - 1,
		"node_number":             float64(s.Count(`SELECT max(number) FROM tasktable.nodes`)),
	} {
		if value, ok := got[name]; !ok || value != want {
			s.T.Errorf("%s is %v (%t), want %v", name, value, ok, want)
		}
	}
	for _, name := range []string{
		"gate_duration_seconds_count", "settle_duration_seconds_count", "pass_duration_seconds_count",
		"river_fetch_duration_seconds_count", "river_insert_duration_seconds_count", "session_answer_age_seconds",
		"lane_depth_limit", "pool_connections handlers", "transactions", "river_fetched_jobs_total type|0",
	} {
		if got[name] <= 0 {
			s.T.Errorf("%s is %v", name, got[name])
		}
	}
}
