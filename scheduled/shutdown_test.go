//go:build unix

package scheduled

import (
	"context"
	"fmt"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/tasktable/tasktable/scheduled/internal/enginetest"
	"github.com/tasktable/tasktable/store"
)

func TestTwoProcessesRunEachTaskOnce(t *testing.T) {
	f := newField(t)
	first, second := f.start(nil), f.start(nil)
	const n = 5000
	var list []store.Task
	for i := range n {
		list = append(list, store.Task{Payload: quick{Name: fmt.Sprint(i)}})
	}
	begin := time.Now()
	if _, err := enginetest.Tasks.ScheduleMany(t.Context(), f.pool, list); err != nil {
		t.Fatal(err)
	}
	t.Logf("scheduled in %s", time.Since(begin))
	f.until(90*time.Second, "all are completed", completedSQL, n)
	t.Logf(
		"%d tasks scheduled and run in %s: %d by one, %d by the other", n, time.Since(begin), f.ran(first),
		f.ran(second),
	)
	if f.ran(first) < n/20 || f.ran(second) < n/20 {
		t.Error("they did not share the work")
	}
	f.eachRanOnce(n)
	// A machine that is too busy to begin a claimed task within two seconds has it go back.
	f.never("a task has a history other than COMPLETED",
		`SELECT count(*) FROM tasktable.scheduled_task_executions WHERE outcome NOT IN ('COMPLETED', 'RELEASED')`)
	f.stopAndSeeNothingLeft(first, second)
}

func (f *field) ran(p *process) int {
	f.t.Helper()
	return f.count(`SELECT count(*) FROM runs WHERE pid = $1`, p.pid)
}

// eachRanOnce checks that there are so many tasks, each with one run and one line that says COMPLETED.
func (f *field) eachRanOnce(n int) {
	f.t.Helper()
	if completed := f.count(`SELECT count(*) FROM tasktable.scheduled_tasks WHERE status = 'COMPLETED' AND attempt = 1
		AND fence IS NULL`); completed != n {
		f.t.Errorf("%d of %d tasks are completed at the first attempt", completed, n)
	}
	f.never("a task ran not once", `SELECT count(*) FROM (SELECT t.id FROM tasktable.scheduled_tasks AS t
		LEFT JOIN runs AS r ON r.task_id = t.id GROUP BY t.id HAVING count(r.number) <> 1) AS x`)
	f.never("a task is recorded as completed not once", notCompletedOnceSQL)
}

// stopAndSeeNothingLeft stops all processes of a test gracefully, and looks at what the server still has of them.
func (f *field) stopAndSeeNothingLeft(processes ...*process) {
	f.t.Helper()
	for _, p := range processes {
		p.signal(syscall.SIGTERM)
	}
	for _, p := range processes {
		if code := p.ends(30 * time.Second); code != 0 {
			f.t.Errorf("exit code %d of process %d", code, p.pid)
		}
	}
	f.nothingLeft()
}

// load schedules a task each few milliseconds until it is stopped; stop returns how many.
func (f *field) load(every time.Duration, millis int) (stop func() int) {
	ctx, cancel := context.WithCancel(context.Background())
	var n int
	var err error
	var wg sync.WaitGroup
	wg.Go(func() {
		ticker := time.NewTicker(every)
		defer ticker.Stop()
		for ; err == nil; n++ {
			select {
			case <-ctx.Done():
				return
			case <-ticker.C:
				_, err = enginetest.Tasks.Schedule(context.Background(), f.pool, store.Task{
					Payload: quick{Name: fmt.Sprint(n), Millis: millis},
				})
			}
		}
	})
	stop = sync.OnceValue(func() int {
		cancel()
		wg.Wait()
		if err != nil {
			f.t.Error(err)
		}
		return n
	})
	f.t.Cleanup(func() { stop() })
	return stop
}

// TestSIGTERMLosesNothing stops the leader under steady load, then, after another has come, the node that led after it.
func TestSIGTERMLosesNothing(t *testing.T) {
	f := newField(t)
	first := f.start(nil)
	first.leads(10 * time.Second)
	second := f.start(nil)
	stop := f.load(5*time.Millisecond, 30)
	for i, p := range []*process{first, second} {
		f.until(patience, "it has work", `SELECT count(*) >= 50 FROM runs WHERE pid = $1`, p.pid)
		if i == 1 {
			f.start(nil)
		}
		begin := time.Now()
		p.signal(syscall.SIGTERM)
		if code := p.ends(20 * time.Second); code != 0 {
			t.Errorf("exit code %d", code)
		}
		t.Logf("ended %s after SIGTERM", time.Since(begin))
		_, pid := f.leading()
		ran := f.count(`SELECT count(*) FROM runs`)
		took := f.until(patience, "the work goes on", `SELECT count(*) >= $1 FROM runs`, ran+20)
		t.Logf("process %d led by then; 20 more tasks took %s", pid, took)
	}
	n := stop()
	f.until(patience, "all are completed", completedSQL, n)
	f.eachRanOnce(n)
	f.never("a task was lost or interrupted", `SELECT count(*) FROM tasktable.scheduled_task_executions
		WHERE outcome NOT IN ('COMPLETED', 'RELEASED')`)
	t.Logf("%d tasks, %d handed back unstarted; latest start %.3f s", n,
		f.count(`SELECT count(*) FROM tasktable.scheduled_task_executions WHERE outcome = 'RELEASED'`),
		ask[float64](f, `SELECT extract(epoch FROM max(started_at - scheduled_at))::float8
			FROM tasktable.scheduled_task_executions WHERE outcome = 'COMPLETED'`))
}

// TestSIGTERMInterruptsWhatTakesTooLong has one handler that minds its context and one that does not.
func TestSIGTERMInterruptsWhatTakesTooLong(t *testing.T) {
	f := newField(t)
	open, openStubborn := f.shut(1), f.shut(2)
	first := f.start(func(c *childConfig) { c.ShutdownTimeout = 500 * time.Millisecond })
	long := enginetest.Schedule(t, f.pool, store.Task{Payload: gated{"long", 1}})
	deaf := enginetest.Schedule(t, f.pool, store.Task{Payload: stubborn{"deaf", 2}})
	first.runs(long.ID, patience)
	first.runs(deaf.ID, patience)
	second := f.start(nil)

	begin := time.Now()
	first.signal(syscall.SIGTERM)
	second.runs(long.ID, patience)
	t.Logf("what minds its context runs elsewhere %s after SIGTERM", time.Since(begin))
	open()
	row := enginetest.Await(t, f.pool, long.ID, patience, store.StatusCompleted)
	if got := enginetest.Outcomes(t, f.pool, long.ID); fmt.Sprint(got) != "[INTERRUPTED COMPLETED]" ||
		row.Attempt != 1 {
		t.Errorf("history %v, attempt %d", got, row.Attempt)
	}
	f.never(
		"the second run counts as another attempt", `SELECT count(*) FROM runs WHERE task_id = $1 AND attempt <> 1`,
		long.ID,
	)
	f.never("two runs of it overlapped", overlapsSQL+` AND a.task_id = $1`, long.ID)

	// Its handler is left, and nothing else can be done about it.
	if code := first.ends(15 * time.Second); code != childLeaked {
		t.Errorf("exit code %d", code)
	}
	t.Logf("with a deaf handler it ended %s after SIGTERM", time.Since(begin))
	second.runs(deaf.ID, reclaimLimit)
	t.Logf("the deaf handler's task runs elsewhere %s after SIGTERM", time.Since(begin))
	openStubborn()
	enginetest.Await(t, f.pool, deaf.ID, patience, store.StatusCompleted)
	if got := enginetest.Outcomes(t, f.pool, deaf.ID); fmt.Sprint(got) != "[LOST COMPLETED]" {
		t.Errorf("history %v", got)
	}
	f.stopAndSeeNothingLeft(second)
}
