//go:build unix

package scheduled

import (
	"fmt"
	"syscall"
	"testing"
	"time"

	"github.com/tasktable/tasktable/scheduled/internal/enginetest"
	"github.com/tasktable/tasktable/store"
)

// A new leader knows of the death after at most a second, and waits out the five that the dead node might still work.
const reclaimLimit = 12 * time.Second

func TestKilledLeadersTaskRunsElsewhere(t *testing.T) {
	f := newField(t)
	defer f.shut(1)()
	first := f.start(nil)
	first.leads(patience)
	receipt := enginetest.Schedule(t, f.pool, store.Task{Payload: gated{"a", 1}})
	first.runs(receipt.ID, patience)
	other := f.start(nil)
	f.killAndSee(first, other, receipt)
}

func TestKilledFollowersTaskRunsElsewhere(t *testing.T) {
	f := newField(t)
	defer f.shut(1)()
	leader := f.start(func(c *childConfig) { c.Types = []string{"QUICK"} })
	leader.leads(patience)
	first := f.start(nil)
	receipt := enginetest.Schedule(t, f.pool, store.Task{Payload: gated{"a", 1}})
	first.runs(receipt.ID, patience)
	other := f.start(nil)
	f.killAndSee(first, other, receipt)
}

// killAndSee kills the process that runs a gated task, and looks at how the other comes to complete it.
func (f *field) killAndSee(first, other *process, receipt store.Receipt) {
	t := f.t
	t.Helper()
	limit := enginetest.Limits(t, f.pool)
	dead, next := first.node(0), other.node(0)
	f.until(patience, "the start is written", `SELECT count(*) = 1 FROM tasktable.running_tasks
		WHERE id = $1 AND started_at IS NOT NULL AND node = $2`,
		receipt.ID, dead)
	first.kill()
	took := other.runs(receipt.ID, patience)
	t.Logf("killed task runs elsewhere after %s", took)
	if took > limit(reclaimLimit) {
		t.Errorf("killed task runs elsewhere after %s", took)
	}
	f.exec(`SELECT pg_terminate_backend(pid) FROM pg_locks WHERE locktype = 'advisory' AND objsubid = 1 AND granted
		AND database = (SELECT oid FROM pg_database WHERE datname = current_database())`) // opens the gate
	row := enginetest.Await(t, f.pool, receipt.ID, patience, store.StatusCompleted)
	if got := enginetest.Outcomes(t, f.pool, receipt.ID); fmt.Sprint(got) != "[LOST COMPLETED]" || row.Attempt != 2 ||
		row.Revision != receipt.Revision {
		t.Errorf("history %v, attempt %d, revision %d of %d", got, row.Attempt, row.Revision, receipt.Revision)
	}
	if n := f.count(`SELECT count(*) FROM tasktable.scheduled_task_executions WHERE task_id = $1 AND outcome = 'LOST'
		AND node = $2 AND started_at IS NOT NULL`,
		receipt.ID, dead); n != 1 {
		t.Errorf("the line of the lost attempt does not say when and where it started")
	}
	if n := f.count(`SELECT count(*) FROM runs WHERE task_id = $1`, receipt.ID); n != 2 {
		t.Errorf("%d runs", n)
	}
	if ran := ask[int64](f, `SELECT node FROM tasktable.scheduled_task_executions
		WHERE task_id = $1 AND outcome = 'COMPLETED'`, receipt.ID); ran != next {
		t.Errorf("completed on node %d, want %d", ran, next)
	}
	f.until(
		patience, "the killed node is marked dead",
		`SELECT dead_at IS NOT NULL FROM tasktable.nodes WHERE number = $1`, dead,
	)
}

func TestKilledLeaderIsFollowed(t *testing.T) {
	f := newField(t)
	limit := enginetest.Limits(t, f.pool)
	first := f.start(nil)
	first.leads(patience)
	second := f.start(nil)
	f.beat(60, 200*time.Millisecond)
	f.until(patience, "some beats ran", `SELECT count(*) >= 10 FROM runs`)
	killed := ask[time.Time](f, `SELECT clock_timestamp()`)
	first.kill()
	took, _ := second.leads(patience)
	t.Logf("another leads after %s", took)
	if took > limit(5*time.Second) {
		t.Errorf("another leads after %s", took)
	}
	f.beatsGoOn(killed, max(3*time.Second, took+time.Second), limit)
}

// beat schedules a task every so often, the first in a second.
func (f *field) beat(n int, every time.Duration) {
	f.t.Helper()
	now := ask[time.Time](f, `SELECT clock_timestamp() + interval '1 second'`)
	var list []store.Task
	for i := range n {
		list = append(list, store.Task{
			Payload: quick{Name: fmt.Sprintf("beat-%03d", i)}, At: now.Add(time.Duration(i) * every),
		})
	}
	if _, err := enginetest.Tasks.ScheduleMany(f.t.Context(), f.pool, list); err != nil {
		f.t.Fatal(err)
	}
}

// beatsGoOn checks the beats: each completes, none began early, and those due when a new leader should
// lead began in time.
func (f *field) beatsGoOn(stopped time.Time, gap time.Duration, limit func(time.Duration) time.Duration) {
	t := f.t
	t.Helper()
	f.until(60*time.Second, "all beats are completed", `SELECT bool_and(status = 'COMPLETED')
		FROM tasktable.scheduled_tasks WHERE type = 'QUICK'`)
	const late = `SELECT coalesce(extract(epoch FROM max(e.started_at - e.scheduled_at)), 0)::float8
		FROM tasktable.scheduled_task_executions AS e
		WHERE e.outcome = 'COMPLETED' AND e.type = 'QUICK' AND e.scheduled_at `
	t.Logf("latest start: before %.3f s, due in the gap %.3f s, after %.3f s; %d LOST",
		ask[float64](f, late+`< $1::timestamptz - interval '1 second'`, stopped),
		ask[float64](
			f, late+`BETWEEN $1::timestamptz - interval '1 second' AND $1::timestamptz + $2::interval`, stopped, gap,
		),
		ask[float64](f, late+`> $1::timestamptz + $2::interval`, stopped, gap),
		f.count(`SELECT count(*) FROM tasktable.scheduled_task_executions WHERE outcome = 'LOST'`))
	f.never("a beat began before its time", `SELECT count(*) FROM tasktable.scheduled_task_executions
		WHERE started_at < scheduled_at`)
	f.never("a beat of the new leader began a second late", `SELECT count(*) FROM tasktable.scheduled_task_executions
		WHERE scheduled_at > $1::timestamptz + $2::interval
			AND started_at > scheduled_at + $3::interval`, stopped, gap, limit(time.Second))
	f.never("a beat is recorded as completed not once", notCompletedOnceSQL)
}

func TestStoppedLeaderIsFollowedAndComesBackAsAnother(t *testing.T) {
	f := newField(t)
	limit := enginetest.Limits(t, f.pool)
	open := f.shut(1)
	first := f.start(nil)
	_, old := first.leads(patience)
	const n = 5
	for i := range n {
		first.runs(enginetest.Schedule(t, f.pool, store.Task{Payload: gated{fmt.Sprint(i), 1}}).ID, 10*time.Second)
	}
	second := f.start(nil)
	first.signal(syscall.SIGSTOP)
	took, _ := second.leads(patience)
	t.Logf("another leads after %s", took)
	if took > limit(8*time.Second) {
		t.Errorf("another leads after %s", took)
	}
	again := f.until(
		patience, "all tasks run elsewhere", `SELECT count(*) = $1 FROM runs WHERE pid = $2`, n, second.pid,
	)
	t.Logf("its %d tasks run elsewhere %s later", n, again)

	resumed := ask[time.Time](f, `SELECT clock_timestamp()`)
	first.signal(syscall.SIGCONT)
	f.until(
		patience, "the stopped process ends its handlers",
		`SELECT count(*) = $1 FROM runs WHERE pid = $2 AND ended_at IS NOT NULL`, n, first.pid,
	)
	t.Logf("its handlers ended %.3f s after it went on: %s",
		ask[float64](f, `SELECT extract(epoch FROM max(ended_at) - $1::timestamptz)::float8 FROM runs
			WHERE pid = $2`, resumed, first.pid),
		ask[string](f, `SELECT string_agg(DISTINCT coalesce(cause, 'none'), ', ') FROM runs WHERE pid = $1`, first.pid))
	f.never(
		"a handler of the stopped process ended without ErrLeaseLost",
		`SELECT count(*) FROM runs WHERE pid = $1 AND cause NOT LIKE '%lost its hold%'`, first.pid,
	)
	if number := first.node(old); number <= old {
		t.Errorf("it came back as node %d, it was %d", number, old)
	}
	if _, pid := f.leading(); pid != second.pid {
		t.Errorf("process %d leads, want %d", pid, second.pid)
	}
	f.never(
		"a task of the new process was ended by the old one",
		`SELECT count(*) FROM runs WHERE pid = $1 AND ended_at IS NOT NULL`, second.pid,
	)
	open()
	f.until(patience, "all are completed", `SELECT bool_and(status = 'COMPLETED') FROM tasktable.scheduled_tasks`)
	f.never("a task has another history than LOST, COMPLETED", `SELECT count(*)
		FROM (SELECT task_id FROM tasktable.scheduled_task_executions
		GROUP BY task_id HAVING array_agg(outcome ORDER BY fence) <> '{LOST,COMPLETED}') AS x`)
	// The stopped process's handlers overlap with the new ones while it is stopped, and no longer.
	overlaps := f.count(overlapsSQL)
	t.Logf("%d overlaps, of which the stopped process is part of %d", overlaps, n)
	if overlaps != n {
		t.Errorf("%d overlaps, want %d: those of the stopped process", overlaps, n)
	}
	f.comesBackToWork(first)
}

// overlapsSQL counts the pairs of runs of one task that were under way at one time.
const overlapsSQL = `SELECT count(*) FROM runs AS a JOIN runs AS b ON a.task_id = b.task_id AND a.number < b.number
	WHERE b.began_at < coalesce(a.ended_at, 'infinity') AND a.began_at < coalesce(b.ended_at, 'infinity')`

// comesBackToWork schedules tasks until the process runs one.
func (f *field) comesBackToWork(p *process) {
	f.t.Helper()
	before := f.count(`SELECT count(*) FROM runs WHERE pid = $1`, p.pid)
	n := 0
	enginetest.Eventually(f.t, patience, fmt.Sprintf("process %d works again", p.pid), func() bool {
		n++
		enginetest.Schedule(f.t, f.pool, store.Task{Payload: quick{Name: fmt.Sprintf("back-%d", n), Millis: 20}})
		return f.count(`SELECT count(*) FROM runs WHERE pid = $1`, p.pid) > before
	})
}
