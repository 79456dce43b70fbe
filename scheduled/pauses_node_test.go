package scheduled

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tasktable/tasktable/handlers"
	"github.com/tasktable/tasktable/scheduled/internal/enginetest"
	"github.com/tasktable/tasktable/scheduled/internal/taskdb"
	"github.com/tasktable/tasktable/store"
)

// otherJob is of another type than job.
type otherJob struct{}

func (otherJob) TaskType() string { return "OTHER" }

func (s *stage) handleOther(ctx context.Context, task *handlers.Task[otherJob]) error {
	return s.handle(ctx, &handlers.Task[enginetest.Job]{Execution: task.Execution})
}

func (s *stage) pause(scope store.Scope, until time.Time) {
	s.t.Helper()
	if outcome, err := s.tasks.PauseScope(s.t.Context(), s.pool, scope, until, "to see what happens"); err != nil ||
		outcome != store.Paused {
		s.t.Fatalf("pause %s: %s, %v", scope, outcome, err)
	}
}

func (s *stage) resume(scope store.Scope) {
	s.t.Helper()
	if outcome, err := s.tasks.ResumeScope(s.t.Context(), s.pool, scope); err != nil || outcome != store.Queued {
		s.t.Fatalf("resume %s: %s, %v", scope, outcome, err)
	}
}

// Of what is paused the running handler finishes, and nothing else starts until it is resumed, then all that is due
// does at once. What is not paused goes on.
func TestPausedScopes(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	limit := enginetest.Limits(t, s.pool)
	s.node(
		func(c *Config) { c.Queues = map[string]int{"default": 10, "side": 10} }, handlers.Handle(s.handle),
		handlers.Handle(s.handleOther),
	)
	kinds := map[string]struct {
		queue   string
		payload store.Payload
	}{
		"job": {"default", enginetest.Job{}}, "other": {"default", otherJob{}}, "side job": {"side", enginetest.Job{}},
		"side other": {"side", otherJob{}},
	}
	for _, scope := range []store.Scope{store.Queue("side"), store.Type("JOB"), store.Everything()} {
		named := func(kind, what string) string { return fmt.Sprintf("%s: %s, %s", scope, kind, what) }
		put := func(kind, what string, at time.Time) {
			s.schedule(named(kind, what), func(task *store.Task) {
				task.Payload, task.Queue, task.At = kinds[kind].payload, kinds[kind].queue, at
			})
		}
		running := map[string]*act{}
		for kind := range kinds {
			put(kind, "running", time.Time{})
			running[kind] = s.begins(named(kind, "running"))
		}
		s.pause(scope, time.Time{})
		soon := s.now().Add(500 * time.Millisecond)
		var held []string
		for kind, is := range kinds {
			put(kind, "due", time.Time{})
			put(kind, "soon", soon)
			if scope.Has(is.queue, is.payload.TaskType()) {
				held = append(held, kind)
			} else {
				s.begins(named(kind, "due")).end <- nil
				s.begins(named(kind, "soon")).end <- nil
			}
		}
		for kind, a := range running {
			if a.ctx.Err() != nil {
				t.Errorf("%s: the context of a running task has ended", scope)
			}
			a.end <- nil
			s.is(named(kind, "running"), store.StatusCompleted, taskdb.OutcomeCompleted)
		}
		s.passes(soon.Add(1100 * time.Millisecond)) // and a look of the leader's
		for _, kind := range held {
			for _, what := range []string{"due", "soon"} {
				s.is(named(kind, what), store.StatusQueued)
				s.idle(named(kind, what))
			}
		}
		if n := s.count(`SELECT count(*) FROM tasktable.late_tasks WHERE is_paused`); n != 2*len(held) {
			t.Errorf("%s: %d late tasks are said to be paused, want %d", scope, n, 2*len(held))
		}
		s.resume(scope)
		resumed := s.now()
		for _, kind := range held {
			for _, what := range []string{"due", "soon"} {
				a := s.begins(named(kind, what))
				if took := a.StartedAt.Sub(resumed); took > limit(500*time.Millisecond) {
					t.Errorf("%s started %s after it was resumed", a.ID, took)
				}
				a.end <- nil
				s.is(a.ID, store.StatusCompleted, taskdb.OutcomeCompleted)
			}
		}
	}
}

// A pause until a time, of a scope and of one task, ends by itself; what is paused twice needs both ends.
func TestPauseUntil(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	limit := enginetest.Limits(t, s.pool)
	s.node(nil, handlers.Handle(s.handle), handlers.Handle(s.handleOther))
	// Far enough that none is claimed ahead of its time before it is paused.
	until := s.now().Add(3500 * time.Millisecond)
	s.pause(store.Type("JOB"), until)
	s.schedule("scope", nil)
	s.schedule("alone", func(task *store.Task) { task.Payload, task.At = otherJob{}, until.Add(-time.Second/2) })
	s.schedule("later", func(task *store.Task) { task.Payload, task.At = otherJob{}, until.Add(2*time.Second) })
	for _, id := range []string{"alone", "later"} {
		if receipt, err := s.tasks.PauseUntil(t.Context(), s.pool, id, until); err != nil ||
			receipt.Outcome != store.Paused {
			t.Fatalf("%+v, %v", receipt, err)
		}
	}
	s.schedule("both", nil)
	if receipt, err := s.tasks.PauseUntil(t.Context(), s.pool, "both", until.Add(time.Second)); err != nil ||
		receipt.Outcome != store.Paused {
		t.Fatalf("%+v, %v", receipt, err)
	}
	for id, not := range map[string]time.Time{
		"scope": until, "alone": until, "both": until.Add(time.Second), "later": until.Add(2 * time.Second),
	} {
		a := s.begins(id)
		if late := a.StartedAt.Sub(not); late < 0 || late > limit(5*time.Second) {
			t.Errorf("%s began %s after its pause", id, late)
		}
		a.end <- nil
		if row := s.is(id, store.StatusCompleted, taskdb.OutcomeCompleted); row.PausedUntil != nil {
			t.Errorf("%s is paused until %s", id, row.PausedUntil)
		}
	}
}

// A task that an application's trigger keeps from being resumed keeps no other one paused.
func TestPauseThatCannotEnd(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	s.node(nil, handlers.Handle(func(context.Context, *handlers.Task[enginetest.Job]) error { return nil }))
	s.exec(`CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
			IF NEW.id = 'left out' THEN RETURN NULL; END IF;
			RAISE EXCEPTION 'no';
		END $$;
		CREATE TRIGGER refuse BEFORE UPDATE ON tasktable.scheduled_tasks FOR EACH ROW
		WHEN (NEW.id IN ('refused', 'left out') AND NEW.status = 'QUEUED' AND OLD.status = 'PAUSED')
		EXECUTE FUNCTION refuse()`)
	until := s.now().Add(2 * time.Second)
	for _, id := range []string{"first", "refused", "second", "left out", "third"} {
		s.schedule(id, func(task *store.Task) { task.At = until.Add(-time.Millisecond) })
		if receipt, err := s.tasks.PauseUntil(t.Context(), s.pool, id, until); err != nil ||
			receipt.Outcome != store.Paused {
			t.Fatalf("%+v, %v", receipt, err)
		}
	}
	for _, id := range []string{"first", "second", "third"} {
		s.is(id, store.StatusCompleted, taskdb.OutcomeCompleted)
	}
	s.is("refused", store.StatusPaused)
	s.is("left out", store.StatusPaused)
}

// A pause that is committed after a task was claimed is honoured, whatever the task waits for: its time, a slot, or its
// transaction.
func TestPauseOfClaimedTasks(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	s.node(func(c *Config) { c.Queues, c.LookAhead = map[string]int{"default": 10, "narrow": 1}, 10*time.Second },
		handlers.Handle(s.handle),
		handlers.HandleTx(func(ctx context.Context, _ pgx.Tx, task *handlers.Task[otherJob]) error {
			return s.handleOther(ctx, task)
		}))
	due := s.now().Add(2 * time.Second)
	narrow := func(task *store.Task) { task.Queue = "narrow" }
	s.schedule("in the slot", narrow)
	inSlot := s.begins("in the slot")
	s.schedule("time", func(task *store.Task) { task.At = due })
	s.schedule("time, tx", func(task *store.Task) { task.At, task.Payload = due, otherJob{} })
	s.schedule("slot", narrow)
	claimed := []string{"time", "time, tx", "slot"}
	for _, id := range claimed {
		enginetest.Await(t, s.pool, id, patience, store.StatusExecuting)
	}
	s.pause(store.Everything(), time.Time{})
	inSlot.end <- nil
	s.is("in the slot", store.StatusCompleted, taskdb.OutcomeCompleted)
	s.is("slot", store.StatusQueued, taskdb.OutcomeReleased)
	s.passes(due)
	for _, id := range claimed {
		if row := s.is(id, store.StatusQueued, taskdb.OutcomeReleased); row.Attempt != 0 ||
			s.errorOf(id) != "its queue or type is paused" {
			t.Errorf("%s was handed back as attempt %d: %s", id, row.Attempt, s.errorOf(id))
		}
	}
	s.passes(due.Add(time.Second))
	s.idle(claimed...)
	s.resume(store.Everything())
	for _, id := range claimed {
		s.begins(id).end <- nil
		s.is(id, store.StatusCompleted, taskdb.OutcomeReleased, taskdb.OutcomeCompleted)
	}
}

// waitingSQL makes so many due tasks of a queue, of several types and priorities.
const waitingSQL = `
WITH made AS (
	INSERT INTO tasktable.scheduled_tasks (id, payload, type, queue, priority, revision, scheduled_at, next_attempt_at)
	SELECT 'waits ' || n, jsonb_build_object('type', CASE WHEN n % 2 = 0 THEN 'JOB' ELSE 'OTHER' END, 'name', 'waits'),
		CASE WHEN n % 2 = 0 THEN 'JOB' ELSE 'OTHER' END, 'paused', n % 3, n,
		clock_timestamp() - interval '1 hour', clock_timestamp() - interval '1 hour'
	FROM generate_series(1, $1::int) AS n RETURNING 1)
SELECT count(*) FROM made`

// However many tasks of a paused queue are due, the leader's look and its pass take no longer than without them.
func TestPausedBacklogCostsNothing(t *testing.T) {
	t.Parallel()
	const many, looks = 200_000, 30
	parts := func(s *stage) []handlers.Part {
		return []handlers.Part{handlers.Handle(s.handle), handlers.Handle(s.handleOther)}
	}
	works := func(c *Config) { c.Queues = map[string]int{"default": 10, "paused": 10} }
	with, without := newStage(t), newStage(t)
	limit := enginetest.Limits(t, with.pool)
	for s, n := range map[*stage]int{with: many, without: 6} { // as many lanes
		s.exec(`ALTER TABLE tasktable.scheduled_tasks DISABLE TRIGGER USER`)
		if made := s.count(waitingSQL, n); made != n {
			t.Fatalf("%d tasks wait", made)
		}
		s.exec(`ALTER TABLE tasktable.scheduled_tasks ENABLE TRIGGER USER`)
		s.pause(store.Queue("paused"), time.Time{})
	}
	both := []*troupe{with.prepare(works, parts(with)...), without.prepare(works, parts(without)...)}
	var took [2][]time.Duration
	for range looks {
		for i, tr := range both { // side by side: the machine is as busy for one as for the other
			began := time.Now()
			tr.turn()
			if found, err := tr.leader.Pass(t.Context()); err != nil || found.Claimed != 0 || found.Full ||
				found.Next >= 0 {
				t.Fatalf("%+v, %v", found, err)
			}
			took[i] = append(took[i], time.Since(began))
		}
	}
	var median [2]time.Duration
	for i := range took {
		slices.Sort(took[i])
		median[i] = took[i][looks/2]
	}
	t.Logf("a look and a pass take %s with %d due tasks of a paused queue, %s with 6", median[0], many, median[1])
	if median[0] > 3*median[1]+2*time.Millisecond {
		t.Errorf("a look and a pass take %s with %d due tasks of a paused queue, %s with 6", median[0], many, median[1])
	}
	// And what is not paused starts.
	both[0].run()
	both[1].run()
	for i, s := range []*stage{with, without} {
		var late []time.Duration
		for n := range 5 {
			began := time.Now()
			id := fmt.Sprint("at once ", n)
			s.schedule(id, nil)
			s.begins(id).end <- nil
			late = append(late, time.Since(began))
			s.is(id, store.StatusCompleted, taskdb.OutcomeCompleted)
		}
		slices.Sort(late)
		t.Logf("others began after %v", late)
		if late[2] > limit(time.Second) {
			t.Errorf("%d: others began after %v", i, late)
		}
		if n := s.count(`SELECT count(*) FROM tasktable.scheduled_tasks WHERE queue = 'paused'
			AND status <> 'QUEUED'`); n != 0 {
			t.Errorf("%d tasks of the paused queue have begun", n)
		}
	}
}
