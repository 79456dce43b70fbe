package worker

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tasktable/tasktable/handlers"
	"github.com/tasktable/tasktable/scheduled/internal/enginetest"
	"github.com/tasktable/tasktable/scheduled/internal/quiet"
	"github.com/tasktable/tasktable/scheduled/internal/riverjobs"
	"github.com/tasktable/tasktable/scheduled/internal/taskdb"
	"github.com/tasktable/tasktable/store"
)

// quickType has the node take a type for a quick one.
func (tr *ownWorker) quickType(kind string) {
	for range averageRuns {
		tr.averages.observe(kind, time.Microsecond)
	}
}

// A batch of a quick type whose first task takes long goes back after about a second, but for the tasks that have a
// slot each: they run on.
func TestBatchThatTakesTooLongGoesBack(t *testing.T) {
	s := newBench(t)
	limit := enginetest.Limits(t, s.Pool)
	tr := s.prepare(func(c *Config) { c.Slots = map[string]int{"default": 2} }, handlers.Handle(s.Handle))
	const n = 50
	for i := range n {
		s.Add(fmt.Sprintf("%02d", i), nil)
	}
	tr.quickType("JOB")
	began := time.Now()
	tr.begin()
	tr.batch(n, 0)
	first := s.Begins("00")
	s.Sees("the rest is queued again",
		`SELECT count(*) = $1 FROM tasktable.scheduled_tasks WHERE status = 'QUEUED' AND attempt = 0`, n-2)
	if took := time.Since(began); took < maxStint || took > limit(5*time.Second) {
		t.Errorf("after %s", took)
	}
	if n := s.Count(`SELECT count(DISTINCT finished_at) FROM tasktable.scheduled_task_executions
		WHERE outcome = 'RELEASED'`); n > 5 {
		t.Errorf("released by %d statements", n)
	}
	if got := s.ErrorOf("49"); got != "it waited too long for a slot" {
		t.Errorf("recorded as %q", got)
	}
	if first.Ctx.Err() != nil {
		t.Errorf("the first one's context ended: %v", context.Cause(first.Ctx))
	}
	second := s.Begins("01")
	first.End <- nil
	second.End <- nil
	s.Is("00", store.StatusCompleted, taskdb.OutcomeCompleted)
	s.Is("01", store.StatusCompleted, taskdb.OutcomeCompleted)
	s.Idle("02", "49")
}

// A batch whose only task is edited while it waits for its time ends at once, and does not keep its River job.
func TestBatchEndsWhenItsTaskIsGivenUp(t *testing.T) {
	s := newBench(t)
	s.ahead = 2 * time.Hour
	w := s.prepare(nil)
	w.begin()
	at := func(in time.Duration) func(*store.Task) {
		return func(task *store.Task) { task.At = time.Now().Add(in) }
	}
	s.Add("a", at(maxEarly-time.Second))
	w.batch(1, 0)
	s.Add("a", at(3*time.Hour))
	s.Is("a", store.StatusQueued, taskdb.OutcomeReleased)
	s.Sees("the River job is removed", `SELECT count(*) = 0 FROM tasktable.river_job`)
}

// The database's clock is set back while a claimed task waits for its time. If it is due much later now, it goes back,
// and otherwise waits. When the clock is right again, it does not wait as long as it would have had to.
func TestClockIsSetWhileATaskWaits(t *testing.T) {
	s := newBench(t)
	s.ahead = maxEarly
	w := s.prepare(nil, handlers.Handle(func(context.Context, *handlers.Task[enginetest.Job]) error { return nil }))
	w.begin()
	set := func(by time.Duration) {
		sent := time.Now()
		w.config.Clock.Learn(s.Now().Add(by), sent, time.Now())
	}
	due := s.Now().Add(2 * time.Second)
	s.Add("a", func(task *store.Task) { task.At = due })
	set(-12 * time.Second)
	w.batch(1, 0)
	enginetest.Eventually(t, patience, "the node has it", func() bool { return w.Count() == 1 })
	set(0)
	s.Is("a", store.StatusCompleted, taskdb.OutcomeCompleted)
	s.Never("it waited by the wrong clock", `SELECT count(*) FROM tasktable.scheduled_task_executions
		WHERE started_at > $1::timestamptz + interval '8 s'`, due)

	s.Add("b", func(task *store.Task) { task.At = s.Now().Add(10 * time.Second) })
	w.batch(1, 0)
	set(-time.Hour)
	s.Is("b", store.StatusQueued, taskdb.OutcomeReleased)
	s.Sees("the River job is removed", `SELECT count(*) = 0 FROM tasktable.river_job`)
}

// A batch that is slow, but whose tasks take no slot of their own, goes back as well.
func TestSlowBatchGoesBack(t *testing.T) {
	s := newBench(t)
	tr := s.prepare(
		func(c *Config) { c.Slots = map[string]int{"default": 1} },
		handlers.Handle(func(ctx context.Context, _ *handlers.Task[enginetest.Job]) error {
			select {
			case <-time.After(150 * time.Millisecond):
				return nil
			case <-ctx.Done():
				return context.Cause(ctx)
			}
		}),
	)
	const n = 100
	for i := range n {
		s.Add(fmt.Sprintf("%02d", i), nil)
	}
	tr.quickType("JOB")
	tr.begin()
	tr.batch(n, 0)
	s.Sees("all has an end", `SELECT count(*) = 0 FROM tasktable.scheduled_tasks WHERE status = 'EXECUTING'`)
	if ran := s.Count(`SELECT count(*) FROM tasktable.scheduled_tasks
		WHERE status = 'COMPLETED'`); ran < 1 || ran > 20 {
		t.Errorf("%d ran", ran)
	}
	// On a busy machine the running task may take so long that the rest asks for a slot of its own.
	if got := s.ErrorOf("99"); got != "the tasks before it took too long" && got != "it waited too long for a slot" {
		t.Errorf("recorded as %q", got)
	}
}

// When a task of a serial job takes long, the others go back, and none runs beside it.
func TestSerialBatchGoesBack(t *testing.T) {
	s := newBench(t)
	w := s.prepare(nil)
	for _, id := range []string{"hangs", "other 1", "other 2"} {
		s.Add(id, nil)
	}
	w.begin()
	claims := s.claim(w.config.StartAllowance, taskdb.Lane{Queue: "default", Type: "JOB"})
	job := riverjobs.Job{ID: s.insertJob(claims), Queue: "default", Kind: "JOB", Serial: true}
	w.batches.Go(func() { w.Work(job, claims) })
	hangs := s.Begins("hangs")
	for _, id := range []string{"other 1", "other 2"} {
		s.Is(id, store.StatusQueued, taskdb.OutcomeReleased)
		if got := s.ErrorOf(id); got != "the task before it takes long, and only one of them may run" {
			t.Errorf("%s was handed back: %s", id, got)
		}
	}
	hangs.End <- nil
	s.Is("hangs", store.StatusCompleted, taskdb.OutcomeCompleted)
	s.Idle("other 1", "other 2")
}

// Payloads that take longer to come than the gate's answer is valid do not keep their tasks from starting, whatever
// else is quick meanwhile.
func TestLargePayloadsStart(t *testing.T) {
	s := newBench(t)
	w := enginetest.NewWire()
	w.Rate = 4 << 20
	settings := s.Pool.Config()
	settings.ConnConfig.DialFunc = w.Dial
	wired, err := pgxpool.NewWithConfig(context.Background(), settings)
	s.OK(err)
	t.Cleanup(func() { w.End(); wired.Close() })
	tr := s.prepare(func(c *Config) { c.EnginePool, c.Slots = wired, map[string]int{"default": 1, "other": 1} },
		handlers.Handle(func(context.Context, *handlers.Task[enginetest.Job]) error { return nil }))
	const n = 20
	large := strings.Repeat("0123456789abcdef", 200<<10/16)
	for i := range n {
		s.Add(fmt.Sprintf("large %02d", i), func(task *store.Task) { task.Payload = enginetest.Job{Name: large} })
	}
	tr.quickType("JOB")
	tr.begin()
	tr.batch(n, 0)
	tr.serve()
	for i := 0; s.Count(`SELECT count(*) FROM tasktable.scheduled_tasks WHERE id LIKE 'large %'
		AND status = 'COMPLETED'`) < n; i++ {
		if i == 300 {
			t.Fatalf("%d of %d have run", s.Count(`SELECT count(*) FROM tasktable.scheduled_tasks
				WHERE id LIKE 'large %' AND status = 'COMPLETED'`), n)
		}
		id := fmt.Sprint("small ", i)
		s.Add(id, func(task *store.Task) { task.Queue = "other" })
		enginetest.Await(t, s.Pool, id, patience, store.StatusCompleted)
	}
}

// A transactional task that waits for a connection holds no slot, and goes back after a second: others need no
// connection.
func TestTasksDoNotWaitForConnectionsOfOthers(t *testing.T) {
	s := newBench(t)
	plain := make(chan struct{})
	s.node(func(c *Config) { c.Slots, c.Places = map[string]int{"default": 2}, 1 },
		handlers.HandleTx(func(ctx context.Context, _ pgx.Tx, task *handlers.Task[enginetest.Job]) error {
			return s.Handle(ctx, task)
		}),
		handlers.Handle(func(context.Context, *handlers.Task[quick]) error { close(plain); return nil }))
	s.Add("first", nil)
	first := s.Begins("first")
	s.Add("second", nil)
	enginetest.Await(t, s.Pool, "second", patience, store.StatusExecuting)
	s.Add("plain", func(task *store.Task) { task.Payload = quick{} })
	enginetest.Receive(t, plain, patience, "the plain task runs")
	s.Is("plain", store.StatusCompleted, taskdb.OutcomeCompleted)
	s.Sees("the second has gone back", `SELECT count(*) > 0 FROM tasktable.scheduled_task_executions
		WHERE task_id = 'second'`)
	first.End <- nil
	s.Is("first", store.StatusCompleted, taskdb.OutcomeCompleted)
	s.Begins("second").End <- nil
	row := enginetest.Await(t, s.Pool, "second", patience, store.StatusCompleted)
	if history := enginetest.Outcomes(t, s.Pool, "second"); row.Attempt != 1 || len(history) < 2 ||
		history[0] != taskdb.OutcomeReleased {
		t.Errorf("attempt %d, history %v", row.Attempt, history)
	}
}

// A task that takes long does not keep the rest of its job from running. The job says how far the node goes on.
func TestBatchGoesOnPastItsWindow(t *testing.T) {
	s := newBench(t)
	s.Add("slow", nil)
	s.Add("then", nil) // a third task would go back, if a busy machine took longer than maxStint for this one
	tr := s.prepare(nil, handlers.Handle(s.Handle))
	tr.begin()
	tr.batch(2, 1)
	slow := s.Begins("slow")
	s.Begins("then").End <- nil
	s.Is("then", store.StatusCompleted, taskdb.OutcomeCompleted)
	s.Sees("the job says so", `SELECT (metadata ->> 'began')::int = 2 FROM tasktable.river_job`)
	slow.End <- nil
	s.Is("slow", store.StatusCompleted, taskdb.OutcomeCompleted)
}

// A task begins only if few tasks before it are not recorded, unless the job says that the batch goes on.
func TestWindow(t *testing.T) {
	t.Parallel()
	w := newWindow(3, 10)
	has := func(step string, most int) {
		t.Helper()
		for place := range 10 {
			if got := w.has(place); got != (place < most) {
				t.Errorf("%s: place %d: %t, want the places before %d", step, place, got, most)
			}
		}
	}
	has("at the beginning", 3)
	w.ends(1)
	has("the second is over", 3)
	w.ends(0)
	has("the first is over, too", 5)
	w.goesOn(7)
	has("the job says that it goes on", 7)
	for place := 2; place < 6; place++ {
		w.ends(place)
	}
	has("the window has caught up", 9)
}

// A batch that has waited for its window looks once more after the last pause, and a node that stops begins nothing. In
// neither case does it write to the job. It could not here, because it has no pool.
func TestInWindowWritesNothingInVain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := &Worker{config: Config{Quiet: quiet.New()}}
		w.starting, w.stopStarting = context.WithCancelCause(t.Context())
		j := &job{Worker: w, window: newWindow(1, 3)}
		time.AfterFunc(windowLooks*windowPause-time.Nanosecond, func() { j.window.ends(0) })
		if !j.inWindow(&run{place: 1}) {
			t.Error("the window has moved during the last pause, and the task may not begin")
		}
		w.stopStarting(handlers.ErrInterrupted)
		if j.inWindow(&run{place: 2}) {
			t.Error("a task begins while the node stops")
		}
	})
}

// A job whose claims have been released comes after all: none of its tasks runs by it.
func TestReleasedJobThatComesAfterAllRunsNothing(t *testing.T) {
	s := newBench(t)
	tr := s.prepare(nil)
	tr.begin()
	s.Add("a", nil)
	claims := s.claim(time.Minute, taskdb.Lane{Queue: "default", Type: "JOB"})
	stray := taskdb.StrayJob{
		ID: s.insertJob(claims), Queue: "default", Kind: "JOB", Tasks: riverjobs.EncodeClaims(claims),
	}
	s.Add("first", nil)
	tr.batch(1, 0)
	first := s.Begins("first") // the node works
	unlock := enginetest.Lock(t, s.Pool, "a")
	released := make(chan struct{})
	go func() { tr.releaseStray(stray); close(released) }()
	enginetest.Eventually(t, patience, "the job is in hand", func() bool {
		return slices.Contains(tr.jobsInHand(), stray.ID)
	})
	// While it is being released.
	tr.Work(riverjobs.Job{ID: stray.ID, Queue: stray.Queue, Kind: stray.Kind}, claims)
	unlock()
	first.End <- nil
	enginetest.Receive(t, released, patience, "the job is released")
	tr.Work(riverjobs.Job{ID: stray.ID, Queue: stray.Queue, Kind: stray.Kind}, claims) // and later
	if row := s.Is("a", store.StatusQueued, taskdb.OutcomeReleased); row.Attempt != 0 {
		t.Errorf("attempt %d", row.Attempt)
	}
	s.Is("first", store.StatusCompleted, taskdb.OutcomeCompleted)
	s.Sees("the River jobs are removed", `SELECT count(*) = 0 FROM tasktable.river_job`)
	s.Idle("a")
}

// An outcome that the database refuses keeps the River job: the claim can be found by it. When the database takes it,
// the task fails.
func TestUnrecordedOutcomeKeepsTheJob(t *testing.T) {
	s := newBench(t)
	tr := s.prepare(nil)
	tr.begin()
	s.Exec(`CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'no'
		USING ERRCODE = '22000'; END $$`)
	s.Add("a", nil)
	tr.batch(1, 0)
	a := s.Begins("a")
	s.Exec(`CREATE TRIGGER refuse BEFORE UPDATE ON tasktable.scheduled_tasks FOR EACH ROW EXECUTE FUNCTION refuse()`)
	a.End <- nil
	s.Passes(time.Now().Add(2 * time.Second))
	s.Counts("River jobs know of the claim", 1, `SELECT count(*) FROM tasktable.river_job WHERE state = 'running'`)
	s.Exec(`DROP TRIGGER refuse ON tasktable.scheduled_tasks`)
	if row := enginetest.Await(t, s.Pool, "a", 40*time.Second, store.StatusFailed); row.Fence != nil {
		t.Error("the task is still held")
	}
	s.Sees("the River job is removed", `SELECT count(*) = 0 FROM tasktable.river_job`)
}

// A task whose type somebody has changed with the triggers switched off does not run by the old type's handler.
func TestTypeChangedByHandGoesBack(t *testing.T) {
	s := newBench(t)
	w := s.prepare(nil)
	w.begin()
	s.Add("a", nil)
	claims := s.claim(time.Minute, taskdb.Lane{Queue: "default", Type: "JOB"})
	s.Exec(`ALTER TABLE tasktable.scheduled_tasks DISABLE TRIGGER USER`)
	s.Exec(`UPDATE tasktable.scheduled_tasks SET type = 'QUICK'`)
	s.Exec(`ALTER TABLE tasktable.scheduled_tasks ENABLE TRIGGER USER`)
	job := riverjobs.Job{ID: s.insertJob(claims), Queue: "default", Kind: "JOB"}
	w.batches.Go(func() { w.Work(job, claims) })
	s.Is("a", store.StatusQueued, taskdb.OutcomeReleased)
	if got := s.ErrorOf("a"); got != "its type was changed by hand" {
		t.Errorf("recorded as %q", got)
	}
}
