//go:build unix

package scheduled

import (
	"fmt"
	"math/rand/v2"
	"os"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/tasktable/tasktable/scheduled/internal/enginetest"
	"github.com/tasktable/tasktable/store"
)

// chaosVariable says for how long TestChaos goes on; without it, it does not begin.
const chaosVariable = "TASKTABLE_TEST_CHAOS"

const chaosSQL = `
CREATE TABLE gone (pid int PRIMARY KEY, at timestamptz NOT NULL DEFAULT clock_timestamp());
CREATE TABLE frozen (pid int NOT NULL, since timestamptz NOT NULL DEFAULT clock_timestamp(), until timestamptz)`

// TestChaos kills, freezes, stops and cuts off nodes at random, under load, and then sees whether the
// promises were kept.
func TestChaos(t *testing.T) {
	length, err := time.ParseDuration(os.Getenv(chaosVariable))
	if err != nil {
		t.Skipf("takes long; %s=1m runs it", chaosVariable)
	}
	f := newField(t)
	f.exec(chaosSQL)
	processes := []*process{f.start(nil), f.start(nil), f.start(nil)}
	stop := f.chaosLoad()
	end := time.NewTimer(length)
	counts := map[string]int{}
	for done := false; !done; {
		pause := time.NewTimer(rand.N(2 * time.Second))
		select {
		case <-end.C:
			done = true
		case <-pause.C:
			counts[f.disturb(processes)]++
		}
	}
	n := stop()
	begin := time.Now()
	f.until(60*time.Second, "all are completed", `SELECT bool_and(status = 'COMPLETED') FROM tasktable.scheduled_tasks`)
	t.Logf("%d tasks; %v; the last was completed after %s", n, counts, time.Since(begin))
	t.Log("outcomes: ", ask[string](f, `SELECT string_agg(outcome || ' ' || n, ', ') FROM
		(SELECT outcome, count(*) AS n FROM tasktable.scheduled_task_executions GROUP BY outcome) AS o`))
	t.Log("latest start: ", ask[string](f, `SELECT max(started_at - due_at)::text
		FROM tasktable.scheduled_task_executions WHERE outcome = 'COMPLETED'`))
	f.never("a task is recorded as completed not once", notCompletedOnceSQL)
	f.never("a task has not exactly one effect", `SELECT count(*) FROM (SELECT t.id FROM tasktable.scheduled_tasks AS t
		LEFT JOIN effects AS x ON x.task_id = t.id WHERE t.type LIKE 'EFFECT%' GROUP BY t.id
			HAVING count(x.task_id) <> 1) AS wrong`)
	f.never("a task began before its time", `SELECT count(*) FROM tasktable.scheduled_task_executions
		WHERE started_at < due_at`)
	f.never("two runs of one task overlapped, and no frozen process was part of it", `
		WITH r AS (SELECT runs.*, coalesce(ended_at, gone.at, 'infinity') AS over,
			EXISTS (SELECT 1 FROM frozen WHERE frozen.pid = runs.pid AND since < coalesce(ended_at, 'infinity')
			AND coalesce(until, 'infinity') > began_at) AS froze
			FROM runs LEFT JOIN gone USING (pid))
		SELECT count(*) FROM r AS a JOIN r AS b ON a.task_id = b.task_id AND a.number < b.number
		WHERE b.began_at < a.over AND a.began_at < b.over AND NOT a.froze AND NOT b.froze`)
	f.until(patience, "nothing is in River's hands", `SELECT count(*) = 0 FROM tasktable.river_job
		WHERE state IN ('available', 'running')`)
	f.until(patience, "three nodes are left", `SELECT count(*) = 3 FROM tasktable.nodes WHERE dead_at IS NULL`)
	f.stopAndSeeNothingLeft(processes...)
}

// disturb does one thing to one of the processes, and puts another in its place if it ended.
func (f *field) disturb(processes []*process) (what string) {
	i := rand.IntN(len(processes))
	p := processes[i]
	replace := func() {
		f.exec(`INSERT INTO gone VALUES ($1)`, p.pid)
		processes[i] = f.start(nil)
	}
	switch rand.IntN(7) {
	case 0, 1:
		p.kill()
		replace()
		return "killed"
	case 2:
		p.signal(syscall.SIGTERM)
		if code := p.ends(40 * time.Second); code != 0 {
			f.t.Errorf("exit code %d", code)
		}
		replace()
		return "stopped"
	case 3, 4:
		f.exec(`INSERT INTO frozen (pid) VALUES ($1)`, p.pid)
		p.signal(syscall.SIGSTOP)
		<-time.After(rand.N(9 * time.Second))
		f.exec(`UPDATE frozen SET until = clock_timestamp() + interval '500 ms' WHERE pid = $1
			AND until IS NULL`, p.pid)
		p.signal(syscall.SIGCONT)
		return "frozen"
	case 5:
		f.cut("tasktable session")
		return "sessions cut"
	default:
		f.cut("tasktable engine")
		return "engines cut"
	}
}

// chaosLoad schedules tasks of several kinds until it is stopped; stop returns how many.
func (f *field) chaosLoad() (stop func() int) {
	ending := make(chan struct{})
	var wg sync.WaitGroup
	n := 0
	wg.Go(func() {
		ticker := time.NewTicker(10 * time.Millisecond)
		defer ticker.Stop()
		for ; ; n++ {
			select {
			case <-ending:
				return
			case <-ticker.C:
			}
			name := fmt.Sprint(n)
			task := []store.Task{
				{Payload: quick{name, rand.IntN(100)}},
				{Payload: quick{name, 0}, At: time.Now().Add(rand.N(3 * time.Second))}, {Payload: effectTx{name}},
				{Payload: effectSQL{name}},
			}[n%4]
			task.MaxAttempts = 100
			if _, err := enginetest.Tasks.Schedule(f.t.Context(), f.pool, task); err != nil {
				f.t.Error(err)
				return
			}
		}
	})
	stop = sync.OnceValue(func() int {
		close(ending)
		wg.Wait()
		return n
	})
	f.t.Cleanup(func() { stop() })
	return stop
}
