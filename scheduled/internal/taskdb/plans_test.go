package taskdb_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgtype"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tasktable/tasktable/migrations"
	"github.com/tasktable/tasktable/scheduled/internal/enginetest"
	"github.com/tasktable/tasktable/scheduled/internal/leader"
	"github.com/tasktable/tasktable/scheduled/internal/metrics"
	"github.com/tasktable/tasktable/scheduled/internal/pg"
	"github.com/tasktable/tasktable/scheduled/internal/taskdb"
	"github.com/tasktable/tasktable/store/storetest"
)

const (
	planTasks = 20000
	planHolds = 500 // that a statement is about; where few tasks are unfinished, most of them have been lost
	planMost  = 100 // that a claim takes
)

// ANALYZE comes when it comes: when the table was empty, before all of it was finished, or never. The statements
// that run all the time read no more than what they are about all the same, planned with a look at their
// parameters or without.
func TestPlansUnderStaleStatistics(t *testing.T) {
	t.Parallel()
	for _, statistics := range []string{
		"never taken", "of few tasks", "of an emptied table", "of finished tasks", "of unfinished tasks",
		"emptied under an old snapshot",
	} {
		t.Run(statistics, func(t *testing.T) {
			b := newBench(t)
			b.fill(statistics)
			for _, unfinished := range []int{planTasks / 1000, planTasks / 2, planTasks} {
				b.revive(unfinished)
				b.explainAll(fmt.Sprintf("%d of %d tasks unfinished", unfinished, planTasks), b.Pool)
			}
		})
	}
}

// Row level security costs the engine nothing: with its policy, too, its statements read no more than what they are
// about. (Its condition has no effect, but keeps the planner from some statistics.)
func TestPlansWithTheEnginesRights(t *testing.T) {
	t.Parallel()
	roles := migrations.Roles{ // before the database, in which they have rights
		Owner: storetest.Role(t), Engine: storetest.Role(t), Application: storetest.Role(t), Auditor: storetest.Role(t),
		Tenant: storetest.Role(t), Services: []string{"test"},
	}
	b := benchOf(t)
	var script strings.Builder
	b.OK(migrations.PrintRoles(&script, "", roles))
	b.Exec(script.String())
	b.fill("of few tasks")
	b.revive(planTasks / 2)
	settings := b.Pool.Config()
	settings.ConnConfig.User, settings.ConnConfig.Password = roles.Engine, storetest.RolePassword
	engine, err := pgxpool.NewWithConfig(t.Context(), settings)
	b.OK(err)
	defer engine.Close()
	b.explainAll("as the engine", engine)
}

// explainAll looks at the plans of all hot statements, with a look at their parameters and without.
func (b *bench) explainAll(what string, pool *pgxpool.Pool) {
	b.T.Helper()
	// Of its own: what follows on the pool's would have the engine's settings, and join all rows with all.
	conn, err := pgx.ConnectConfig(b.T.Context(), pool.Config().ConnConfig)
	b.OK(err)
	defer func() { _ = conn.Close(context.WithoutCancel(b.T.Context())) }()
	b.Did(conn.Exec(b.T.Context(), pg.PlanSettingsSQL))
	for _, one := range b.hotStatements() {
		for _, mode := range []string{"force_generic_plan", "force_custom_plan"} {
			plan := explainPrepared(b.T, conn, mode, one)
			if fault := one.faultOf(plan); fault != "" {
				b.T.Errorf("%s, %s, %s: %s\n%s", what, one.name, mode, fault, plan.text("  "))
			}
		}
	}
}

// fill makes planTasks finished tasks, past the triggers, with statistics of what the table was at another time.
// Autovacuum brings no others.
func (b *bench) fill(statistics string) {
	b.T.Helper()
	insert := func(from, to int) {
		b.Exec(`INSERT INTO tasktable.scheduled_tasks (id, payload, type, queue, priority, revision, status,
			finished_at, limit_key)
			SELECT 'task-JOB-' || i, jsonb_build_object('type', 'TYPE_' || lane % 3, 'about', 'number ' || i), 'TYPE_'
				|| lane % 3, 'queue' || lane / 3 % 2, lane / 6, i, 'COMPLETED', clock_timestamp(),
				CASE WHEN i % 4 = 0 THEN 'g:' || i % 100 ELSE 'g:big' END
			FROM generate_series($1::int, $2::int) AS i CROSS JOIN mod(abs(hashint4(i)), 12) AS lane`, from, to)
	}
	b.Exec(`ALTER TABLE tasktable.scheduled_tasks DISABLE TRIGGER USER, SET (autovacuum_enabled = false)`)
	b.Exec(`INSERT INTO tasktable.river_job (kind, state, finalized_at, max_attempts, queue, args)
		SELECT 'tasks', 'completed', now(), 1, 'n7.default', '{}' FROM generate_series(1, $1::int)`, planTasks)
	switch statistics {
	case "never taken":
		insert(1, planTasks)
	case "of few tasks":
		insert(1, 3)
		b.Exec(`ANALYZE tasktable.scheduled_tasks`)
		insert(4, planTasks)
	case "of an emptied table", "emptied under an old snapshot":
		// Retention leaves its pages, which the planner then takes for empty.
		insert(1, planTasks)
		if strings.HasSuffix(statistics, "snapshot") { // VACUUM then leaves the dead rows, too
			snapshot, err := b.Pool.BeginTx(b.T.Context(), pgx.TxOptions{IsoLevel: pgx.RepeatableRead})
			b.OK(err)
			defer func() { _ = snapshot.Rollback(context.WithoutCancel(b.T.Context())) }()
			b.Did(snapshot.Exec(b.T.Context(), "SELECT 1 FROM tasktable.scheduled_tasks LIMIT 1"))
		}
		b.Exec(`DELETE FROM tasktable.scheduled_tasks WHERE revision < $1`, planTasks)
		b.Exec(`VACUUM ANALYZE tasktable.scheduled_tasks`)
		insert(1, planTasks-1)
	case "of finished tasks":
		insert(1, planTasks)
		b.Exec(`ANALYZE tasktable.scheduled_tasks`)
	case "of unfinished tasks":
		insert(1, planTasks)
		b.revive(planTasks)
		b.Exec(`ANALYZE tasktable.scheduled_tasks`)
	}
}

// revive makes so many tasks unfinished, past the triggers, and the others finished: of eleven thousand a
// thousand are held, a thousand recur, a thousand are paused until a time, and the others wait in 12 lanes; half
// of what waits is due.
func (b *bench) revive(unfinished int) {
	b.T.Helper()
	b.Exec(`ALTER TABLE tasktable.scheduled_tasks DISABLE TRIGGER USER`)
	b.Exec(`UPDATE tasktable.scheduled_tasks AS t
		SET status = k.status, attempt = 1, cron = CASE WHEN t.revision / 1000 % 11 = 1 THEN '0 0 * * *' END,
			next_attempt_at = CASE WHEN k.status = 'QUEUED'
			THEN clock_timestamp() + (t.revision - $2::int / 2) * interval '1 second' END,
			fence = CASE WHEN k.status = 'EXECUTING' THEN t.revision END,
			lease_expires_at = CASE WHEN k.status = 'EXECUTING' THEN clock_timestamp() + interval '1 hour' END,
			paused_until = CASE WHEN k.status = 'PAUSED' THEN clock_timestamp() + interval '1 hour' END,
			finished_at = CASE WHEN k.status = 'COMPLETED' THEN clock_timestamp() END
		FROM (
			SELECT i AS revision, CASE WHEN i % $1::int <> 0 THEN 'COMPLETED' WHEN i / 1000 % 11 = 0 THEN 'EXECUTING'
				WHEN i / 1000 % 11 = 2 THEN 'PAUSED' ELSE 'QUEUED' END AS status
			FROM generate_series(1, $2::int) AS i
		) AS k
		WHERE t.revision = k.revision AND t.status <> k.status`, planTasks/unfinished, planTasks)
	b.Exec(`ALTER TABLE tasktable.scheduled_tasks ENABLE TRIGGER USER`)
}

// hotStatement is one of the engine's, with parameters as the engine gives them.
type hotStatement struct {
	name string
	sql  string
	most int // rows of tasks and jobs that it may read; a probe that finds none counts as one
	args []any
}

// hotStatements are put together by the engine's own methods.
func (b *bench) hotStatements() []hotStatement {
	b.T.Helper()
	ctx := b.T.Context()
	holdsOf := func(which string, most int) []taskdb.Claim {
		b.T.Helper()
		rows, err := b.Pool.Query(ctx, `SELECT t.id::text AS id, coalesce(t.fence, -t.revision) AS fence, t.revision,
			t.attempt, clock_timestamp() AS due
			FROM tasktable.scheduled_tasks AS t WHERE `+which+` ORDER BY t.fence IS NULL, hashtext(t.id) LIMIT $1`,
			most)
		b.OK(err)
		holds, err := pgx.CollectRows(rows, pgx.RowToStructByName[taskdb.Claim])
		if err != nil || len(holds) == 0 {
			b.T.Fatalf("%d holds: %v", len(holds), err)
		}
		return holds
	}
	holds := holdsOf("t.cron IS NULL", planHolds)
	var done, agains []taskdb.Settlement
	for _, h := range holds {
		one := enginetest.Completed(h)
		done = append(done, one)
		one.Effects.Again = new(time.Now().Add(time.Hour))
		agains = append(agains, one)
	}
	var advanced []taskdb.Advanced
	var recurringHeads []taskdb.LaneHead
	for i, h := range holdsOf("t.cron IS NOT NULL AND t.status = 'QUEUED'", taskdb.MaxForks) {
		recurringHeads = append(recurringHeads, taskdb.LaneHead{ID: h.ID})
		advanced = append(advanced, taskdb.Advanced{ID: h.ID, Next: new(h.Due.Add(time.Hour)), Last: &h.Due, Count: i})
	}
	found, err := b.Lanes(ctx, b.Pool, nil)
	if err != nil || len(found.Tasks) < 4 || len(found.Recurring) == 0 {
		b.T.Fatalf("%d lanes, %d of recurring tasks: %v", len(found.Tasks), len(found.Recurring), err)
	}
	var grants []taskdb.Grant
	var peeks []taskdb.Peek
	var known []taskdb.LaneAt
	for _, l := range found.Tasks {
		grants = append(grants, taskdb.Grant{Lane: l, Tasks: planMost, Near: true})
		peeks = append(peeks, taskdb.Peek{Lane: l, Most: planMost, Near: true})
		key := taskdb.LaneKey{Queue: l.Queue, Type: l.Type, Priority: l.Priority}
		known = append(known, taskdb.LaneAt{LaneKey: key, At: l.Head})
	}
	var gaps []taskdb.Gap // the first lane is yet to be found
	low, high, other := known[0].LaneKey, known[0].LaneKey, known[0].LaneKey
	low.Priority--
	high.Priority++
	other.Type += "X"
	gaps = append(gaps, taskdb.Gap{Low: low, High: high}, taskdb.Gap{Low: low, High: other})
	var recurringGaps []taskdb.Gap
	for _, l := range found.Recurring {
		recurringGaps = append(recurringGaps, taskdb.Gap{
			Low: taskdb.LaneKey{Queue: l.Queue}, High: taskdb.LaneKey{Queue: l.Queue, Type: taskdb.PastTypes},
		})
	}
	recurringGaps = slices.Compact(recurringGaps)
	overlooked := slices.Repeat([]taskdb.Overlooked{{ID: "task 1", Until: time.Now()}}, planHolds)

	always := time.Date(9999, time.December, 31, 0, 0, 0, 0, time.UTC)
	lanes, recurring := len(found.Tasks), len(found.Recurring)
	var hot []hotStatement
	add := func(name string, most int, run func(r *recorder)) {
		var r recorder // gives each statement an error
		if run(&r); len(r.QueuedQueries) == 0 {
			b.T.Fatalf("%s: not run", name)
		}
		for i, query := range r.QueuedQueries {
			name := fmt.Sprint(name, " ", i)
			// On a busy machine the scan of a lane would run into its time, and step over the rest.
			sql := strings.ReplaceAll(query.SQL, "interval '250 ms' AS max_scan", "interval '1 hour' AS max_scan")
			hot = append(hot, hotStatement{name: name, sql: sql, most: most, args: query.Arguments})
		}
	}
	// Those that it locks, by averages that are rounded, and updates.
	add("claim", 2*lanes*planMost+lanes, func(r *recorder) {
		_, _ = b.Claim(ctx, r, nil, time.Second, time.Minute, grants)
	})
	add("peek", lanes*planMost+lanes, func(r *recorder) { _, _ = b.Peek(ctx, r, nil, time.Second, peeks) })
	b.addKeyed(add, found.Tasks)
	add("gate", planHolds, func(r *recorder) { _, _ = b.Gate(ctx, r, nil, holds, true) })
	add("recheck", planHolds, func(r *recorder) { _, _ = b.Recheck(ctx, r, holds) })
	add("extend", 2, func(r *recorder) { _, _, _ = b.Extend(ctx, r, holds[0], time.Minute, nil) })
	add("complete", planHolds, func(r *recorder) { _, _ = b.Complete(ctx, r, nil, new(int64(7)), done) })
	add("settle", 2*planHolds, func(r *recorder) { _, _ = b.Settle(ctx, r, nil, new(int64(7)), done) })
	add("again", 2*planHolds, func(r *recorder) { _, _ = b.Again(ctx, r, nil, new(int64(7)), agains) })
	add("lanes", max(lanes, recurring)+1, func(r *recorder) { _, _ = b.Lanes(ctx, r, nil) })
	add("look", 2*lanes, func(r *recorder) { b.QueueLook(&r.Batch, false, known[1:], gaps, planMost, always) })
	add("look at recurring tasks", 2*recurring+2, func(r *recorder) {
		b.QueueLook(&r.Batch, true, nil, recurringGaps, planMost, always)
	})
	add("overlooked", lanes, func(r *recorder) { _, _ = b.Overlooked(ctx, r, false, known) })
	add("requeue", 2*planHolds, func(r *recorder) { _, _ = b.Requeue(ctx, r, overlooked) })
	add("pick fires", (recurring+1)*taskdb.MaxForks, func(r *recorder) {
		_, _ = b.PickFires(ctx, r, nil, found.Recurring, taskdb.MaxForks)
	})
	add("fork", taskdb.MaxForks, func(r *recorder) { _, _ = b.DueFires(ctx, r, nil, recurringHeads, taskdb.MaxForks) })
	add("advance", taskdb.MaxForks, func(r *recorder) { _ = b.Advance(ctx, r, advanced) })
	add("abandoned", planMost, func(r *recorder) {
		r.Queue(b.Schema.SQL(leader.AbandonedSQL), time.Minute, planMost, []string{})
	})
	add("stray jobs", 1, func(r *recorder) { b.QueueStrayJobs(&r.Batch, 7, []int64{1}) })
	add("census", max(lanes, recurring)*planMost, func(r *recorder) { b.queueCensus(&r.Batch, found) })
	return hot
}

// addKeyed adds the statements for lanes with a limit that counts each group by itself.
func (b *bench) addKeyed(add func(name string, most int, run func(r *recorder)), lanes []taskdb.Lane) {
	ctx := b.T.Context()
	var grants []taskdb.Grant
	var peeks []taskdb.Peek
	var from []taskdb.KeysFrom
	var keys []taskdb.HeadOf
	for _, l := range lanes {
		plain := taskdb.LaneAt{LaneKey: l.Key(), At: l.Head}
		from = append(from, taskdb.KeysFrom{LaneAt: plain, Prefix: "g:"})
		for _, l.LimitKey = range []string{"g:big", "g:8"} {
			grants = append(grants, taskdb.Grant{Lane: l, Tasks: planMost, Near: true})
			peeks = append(peeks, taskdb.Peek{Lane: l, Most: planMost, Near: true})
			keys = append(keys, taskdb.HeadOf{LaneAt: taskdb.LaneAt{LaneKey: l.Key(), At: l.Head}})
		}
	}
	ordered, orderedKeys := slices.Clone(grants), slices.Clone(keys)
	for i := range ordered {
		ordered[i].InOrder, ordered[i].Tasks, orderedKeys[i].InOrder = "queue type", 1, "queue type"
	}
	n := len(keys)
	add("claim in order", 4*n, func(r *recorder) { _, _ = b.Claim(ctx, r, nil, 0, time.Minute, ordered) })
	add("heads of keys in order", 2*n, func(r *recorder) { b.QueueHeads(&r.Batch, orderedKeys) })
	add("lock the head of a key in order", 3, func(r *recorder) {
		_, _ = b.LockHead(ctx, r, ordered[0].Lane, time.Second)
	})
	add("claim of keys", 2*n*planMost+n, func(r *recorder) {
		_, _ = b.Claim(ctx, r, nil, time.Second, time.Minute, grants)
	})
	add("peek at keys", n*planMost+n, func(r *recorder) { _, _ = b.Peek(ctx, r, nil, time.Second, peeks) })
	add("heads of keys", n, func(r *recorder) { b.QueueHeads(&r.Batch, keys) })
	add("lock the head of a key", 1, func(r *recorder) { _, _ = b.LockHead(ctx, r, grants[0].Lane, time.Second) })
	add("keys", len(from)*planMost, func(r *recorder) { b.QueueKeys(&r.Batch, from, time.Now(), planMost) })
	add("set keys", 2*planMost, func(r *recorder) {
		_, _ = b.SetKeys(ctx, r, from[0].LaneKey, lanes[0].Head, time.Now(), "t:", planMost)
	})
	add("walk through keys", 2*taskdb.MaxKeysWalked, func(r *recorder) { _, _ = b.WalkKeys(ctx, r, from[0], true) })
}

// queueCensus queues what is counted for the metrics.
func (b *bench) queueCensus(batch *pgx.Batch, lanes taskdb.ListedLanes) {
	var queues, kinds []string
	var priorities []int
	var heads []time.Time
	for _, l := range slices.Concat(lanes.Recurring, lanes.Tasks) {
		queues, kinds, priorities, heads = append(queues, l.Queue), append(kinds, l.Type), append(
			priorities, l.Priority,
		), append(heads, l.Head)
	}
	n := len(lanes.Recurring)
	batch.Queue(b.Schema.SQL(metrics.CountFiresSQL), queues[:n], kinds[:n], priorities[:n], heads[:n], planMost)
	batch.Queue(b.Schema.SQL(metrics.CountDueSQL), queues[n:], kinds[n:], priorities[n:], heads[n:], planMost)
	batch.Queue(b.Schema.SQL(metrics.CountDeadSQL), planMost)
}

// recorder notes statements, and runs none.
type recorder struct{ pgx.Batch }

var errRecorded = errors.New("recorded")

func (r *recorder) Exec(_ context.Context, sql string, args ...any) (tag pgconn.CommandTag, err error) {
	r.Queue(sql, args...)
	return tag, errRecorded
}

func (r *recorder) Query(_ context.Context, sql string, args ...any) (pgx.Rows, error) {
	r.Queue(sql, args...)
	return nil, errRecorded
}

func (r *recorder) SendBatch(_ context.Context, batch *pgx.Batch) pgx.BatchResults {
	r.QueuedQueries = append(r.QueuedQueries, batch.QueuedQueries...)
	return unanswered{}
}

type unanswered struct{ pgx.BatchResults }

func (unanswered) Exec() (tag pgconn.CommandTag, err error) { return tag, errRecorded }
func (unanswered) Close() error                             { return nil }

// explainPrepared runs a statement prepared, as the driver does, and takes back what it did.
func explainPrepared(t *testing.T, conn *pgx.Conn, mode string, one hotStatement) planNode {
	t.Helper()
	tx, err := conn.Begin(t.Context())
	enginetest.OK(t, err)
	defer func() { _ = tx.Rollback(context.WithoutCancel(t.Context())) }()
	for _, sql := range []string{taskdb.EnterSQL, "SET LOCAL plan_cache_mode = " + mode} {
		if _, err := tx.Exec(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}
	prepared, err := tx.Prepare(t.Context(), one.name, one.sql)
	enginetest.OK(t, err)
	values := make([]string, len(one.args)) // EXECUTE takes no parameters from outside
	for i, arg := range one.args {
		text, err := conn.TypeMap().Encode(prepared.ParamOIDs[i], pgtype.TextFormatCode, arg, nil)
		enginetest.OK(t, err)
		if values[i] = "NULL"; text != nil {
			values[i] = "'" + strings.ReplaceAll(string(text), "'", "''") + "'"
		}
	}
	return explain(t, tx, "EXECUTE "+pgx.Identifier{one.name}.Sanitize()+" ("+strings.Join(values, ", ")+")")
}

// faultOf says what is wrong with a plan.
func (s hotStatement) faultOf(plan planNode) string {
	var faults []string
	read := 0.0
	var walk func(planNode)
	walk = func(n planNode) {
		ours := strings.HasPrefix(n.Relation, "scheduled_task")
		if n.NodeType == "Hash Join" || n.NodeType == "Merge Join" || n.NodeType == "Seq Scan" && ours {
			faults = append(faults, strings.TrimSpace(n.NodeType+" "+n.Relation))
		}
		if (n.Relation == "scheduled_tasks" || n.Relation == "river_job") && strings.HasSuffix(n.NodeType, " Scan") {
			read += n.Loops * max(n.Rows+n.Removed, 1)
		}
		for _, child := range n.Plans {
			walk(child)
		}
	}
	walk(plan)
	if read > float64(s.most) {
		faults = append(faults, fmt.Sprintf("%v rows of tasks or jobs read, not at most %d", read, s.most))
	}
	return strings.Join(faults, "; ")
}

// planNode is what the test reads of EXPLAIN's JSON.
type planNode struct {
	NodeType string     `json:"Node Type"`
	Index    string     `json:"Index Name"`
	Relation string     `json:"Relation Name"`
	Rows     float64    `json:"Actual Rows"`
	Loops    float64    `json:"Actual Loops"`
	Removed  float64    `json:"Rows Removed by Filter"`
	Plans    []planNode `json:"Plans"`
}

func explain(t *testing.T, tx pgx.Tx, sql string, args ...any) planNode {
	t.Helper()
	var text string
	enginetest.OK(t, tx.QueryRow(t.Context(), "EXPLAIN (ANALYZE, FORMAT JSON) "+sql, args...).Scan(&text))
	var plans []struct{ Plan planNode }
	enginetest.OK(t, json.Unmarshal([]byte(text), &plans))
	return plans[0].Plan
}

func (n planNode) text(indent string) string {
	text := fmt.Sprintf(
		"%s%s %s %s: %v loops, rows %v, removed %v\n", indent, n.NodeType, n.Relation, n.Index, n.Loops, n.Rows,
		n.Removed,
	)
	for _, child := range n.Plans {
		text += child.text(indent + "  ")
	}
	return text
}
