package sizes

import (
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tasktable/tasktable/handlers"
	"github.com/tasktable/tasktable/scheduled/internal/enginetest"
	"github.com/tasktable/tasktable/store"
)

// rows are the sizes, in the order of the log.
var rows = []row{
	{name: "pairs", of: "pairs of a queue and a type that a node works", short: 3_000, long: 30_000,
		before: func(s *site, n int) { s.spread(n/typesEach, typesEach) }},
	{name: "lanes", of: "lanes with a task for tomorrow", short: 3_000, long: 10_000, before: lanes},
	{name: "missed fires", of: "recurring tasks that missed each minute of a year", short: 20, long: 200,
		before: func(s *site, n int) {
			s.recur(n, 365*24*time.Hour, "", store.Recurrence{Cron: "* * * * *", TimeZone: "Europe/Berlin"})
		}},
	{name: "fires to catch up", of: "missed fires of a task of each second that all run", short: 1_000, long: 10_000,
		before: func(s *site, n int) {
			s.recur(1, time.Duration(n)*time.Second, side, store.Recurrence{
				Cron: everySecond, CatchUp: store.CatchUpAll, CatchUpLimit: n, Overlap: store.OverlapAllow,
			})
		}},
	{name: "past under a snapshot", of: "dead entries behind tasks for the past", short: 60_000, long: 600_000,
		before: func(s *site, n int) { s.dead(n, s.plainKinds[0], nil) }, during: pastTasks},
	{name: "fires under a snapshot", of: "dead entries before the fires of a task", short: 60_000, long: 600_000,
		before: func(s *site, n int) {
			s.dead(n, tick, new(everySecond))
			s.schedule(s.pool, plainTick)
		}},
	{name: "hung handlers", of: "slots that hang, one is left", short: 10, long: 100,
		before: func(s *site, n int) {
			slots(s, n)
			s.config.StartAllowance = time.Second // leases end soon
		}, during: hang},
	{name: "running handlers", of: "handlers that run for long", short: 1_000, long: 10_000, before: slots,
		during: run},
	{name: "open writer", of: "due tasks of a transaction that commits late", short: 100, long: 1_000,
		during: openWriter},
	{name: "locked schedules", of: "due recurring tasks that are locked, one is free", short: 200, long: 2_000,
		before: lockedSchedules, during: func(s *site, _ int) {
			s.sees("the free task fires", 3, `WHERE parent_id IS NOT NULL AND status = 'COMPLETED'`)
		}},
	{name: "pauses that end", of: "pauses of single tasks that end together", short: 1_000, long: 10_000,
		during: pauses},
	{name: "follow-ups", of: "follow-ups of one attempt", short: 1_000, long: handlers.MaxFollowUps,
		during: func(s *site, n int) {
			s.schedule(s.pool, store.Task{ID: "fan", Payload: fan{n}})
			s.sees("all have run", n, sideIsDone)
		}},
	{name: "nodes come and go", of: "nodes that start and stop, one after the other", short: 3, long: 30,
		during: comeAndGo},
}

const (
	typesEach   = 30 // of a node with many pairs
	everySecond = "* * * * * *"
	sideIsDone  = `WHERE queue = 'side' AND status = 'COMPLETED'`
)

// plainTick is a recurring task whose occurrences count as plain tasks.
var plainTick = store.Task{
	ID: plainID + "tick", Payload: payload(tick), Recurrence: &store.Recurrence{Cron: everySecond},
}

// spread makes the nodes work so many queues and types, and spreads the plain tasks over them.
func (s *site) spread(queues, kinds int) {
	s.plainQueues, s.plainKinds, s.config.Queues = nil, nil, map[string]int{}
	for i := range queues {
		name := fmt.Sprint("customer-", i)
		s.plainQueues, s.config.Queues[name] = append(s.plainQueues, name), 2
	}
	for i := range kinds {
		s.plainKinds = append(s.plainKinds, fmt.Sprint("KIND_", i))
	}
}

// lanes fills the lanes of 150 pairs, each of as many priorities as it takes.
func lanes(s *site, n int) {
	s.spread(10, 15)
	s.exec(`INSERT INTO tasktable.scheduled_tasks (id, payload, queue, priority, scheduled_at)
		SELECT 'lane ' || i, jsonb_build_object('type', 'KIND_' || i % 15), 'customer-' || i / 15 % 10, i / 150 - 100,
			clock_timestamp() + interval '1 day'
		FROM generate_series(0, $1::int - 1) AS i`, n)
}

// recur makes recurring tasks whose next fire was to come so long ago.
func (s *site) recur(n int, ago time.Duration, queue string, recurrence store.Recurrence) {
	s.schedule(s.pool, many(n, store.Task{Payload: payload(tick), Queue: queue, Recurrence: &recurrence})...)
	s.untriggered(`UPDATE tasktable.scheduled_tasks SET planned_revision = revision, next_attempt_at = at.at,
		scheduled_at = at.at, started_at = at.at
		FROM (SELECT date_trunc('minute', clock_timestamp() - $1::interval) AS at) AS at`, ago)
}

// dead inserts rows, and deletes them under a snapshot that still sees them.
func (s *site) dead(n int, kind string, cron *string) {
	s.untriggered(`INSERT INTO tasktable.scheduled_tasks (id, payload, type, cron, revision, next_attempt_at)
		SELECT 'dead ' || i, jsonb_build_object('type', $2::text), $2, $3, i, clock_timestamp() - i * interval '1 ms'
		FROM generate_series(1, $1::int) AS i`, n, kind, cron)
	s.open(pgx.RepeatableRead, `SELECT count(*) FROM tasktable.nodes`)
	s.untriggered(`DELETE FROM tasktable.scheduled_tasks`)
}

// pastTasks schedules tasks for times before the dead entries.
func pastTasks(s *site, _ int) {
	for i := range 5 {
		s.more(10)
		task := s.plain(i)
		task.ID, task.At = fmt.Sprint(plainID, "past-", i), s.now().AddDate(-1, 0, -i)
		s.schedule(s.pool, task)
	}
}

// slots makes a node with so many slots of the plain tasks' queue, and of the other.
func slots(s *site, n int) {
	s.config.Queues = map[string]int{store.DefaultQueue: n, side: n}
	s.config.ShutdownTimeout = time.Second
}

// hang has handlers hang in all slots but one, until their leases have ended.
func hang(s *site, n int) {
	task := store.Task{Payload: payload(hangs), ExpectedExecutionTime: time.Second, MaxAttempts: 1}
	s.schedule(s.pool, many(n-1, task)...)
	s.sees("all attempts are lost", n-1, `WHERE status = 'FAILED'`)
}

// run has handlers run in all of these slots.
func run(s *site, n int) {
	s.schedule(s.pool, many(n, store.Task{Payload: payload(hangs), Queue: side})...)
	enginetest.Eventually(s.t, enginetest.Patience, "all handlers run", func() bool { return s.running.Load() == int64(n) })
}

// many are so many tasks that differ in their ids alone.
func many(n int, like store.Task) []store.Task {
	tasks := make([]store.Task, n)
	for i := range tasks {
		tasks[i] = like
		tasks[i].ID = fmt.Sprint("many-", i)
	}
	return tasks
}

// openWriter schedules due tasks in a transaction that commits after many plain tasks have run. They wait from then on.
func openWriter(s *site, n int) {
	tx := s.open(pgx.ReadCommitted, `SELECT 1`)
	s.schedule(tx, many(n, s.plain(0))...)
	s.more(60)
	s.must(tx.Commit(s.t.Context()))
	s.others = s.settled("many-", s.now()).Worst
}

// lockedSchedules makes recurring tasks that are due, and locks them as an import does. Another one is free.
func lockedSchedules(s *site, n int) {
	s.recur(n, time.Hour, "", store.Recurrence{Cron: "* * * * *"})
	s.open(pgx.ReadCommitted, `SELECT FROM tasktable.scheduled_tasks FOR UPDATE`)
	s.schedule(s.pool, plainTick)
}

// pauses makes due tasks whose pauses end at one time, and waits until they have run.
func pauses(s *site, n int) {
	s.exec(`INSERT INTO tasktable.scheduled_tasks (id, payload, queue, status, scheduled_at, paused_until)
		SELECT 'paused ' || i, jsonb_build_object('type', $2::text), $3, 'PAUSED', clock_timestamp() - interval '1 hour',
			statement_timestamp() + $1 * interval '200 us' + interval '1 s' FROM generate_series(1, $1::int) AS i`,
		n, work, side)
	s.sees("all have run", n, sideIsDone)
}

// comeAndGo starts nodes, and stops the one before each, which leads. Many others have gone before.
func comeAndGo(s *site, n int) {
	s.exec(`INSERT INTO tasktable.nodes OVERRIDING SYSTEM VALUE
		SELECT (jsonb_populate_record(live.node, jsonb_build_object('number', -i, 'dead_at', clock_timestamp()))).*
		FROM (SELECT n AS node FROM tasktable.nodes AS n LIMIT 1) AS live, generate_series(1, 300 * $1::int) AS i`, n)
	for range n {
		next := s.start()
		s.more(5)
		s.stop()
		s.stop = next
	}
}
