package scheduled

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tasktable/tasktable/handlers"
	"github.com/tasktable/tasktable/scheduled/internal/enginetest"
	"github.com/tasktable/tasktable/scheduled/internal/riverjobs"
	"github.com/tasktable/tasktable/scheduled/internal/taskdb"
	"github.com/tasktable/tasktable/store"
)

// What was claimed for the only node of a type, and which that one had no slot for yet, goes back when the node is
// there no more, whether it is quiet or has stopped, and does not wait for its lease.
func TestClaimsThatNoNodeWorksGoBack(t *testing.T) {
	t.Parallel()
	for name, leave := range map[string]func(node *Node, stop func(), runs *enginetest.Attempt){
		"quiet":   func(node *Node, _ func(), _ *enginetest.Attempt) { node.Quiet() },
		"stopped": func(_ *Node, stop func(), runs *enginetest.Attempt) { runs.End <- nil; stop() },
	} {
		t.Run(name, func(t *testing.T) {
			s := newBench(t)
			s.node(nil, handlers.Handle(s.handleOther))
			s.Sees("the other node leads", leadsLastSQL, 1)
			slots := func(c *Config) { c.Queues = map[string]int{"default": 1} }
			node, stop := s.member(slots)
			s.Add("runs", nil)
			runs := s.Begins("runs")
			s.Add("waits", nil)
			enginetest.Await(t, s.Pool, "waits", patience, store.StatusExecuting)

			if name == "stopped" { // a node that ends its last run takes up what waits: it must not see it end
				s.Exec(`UPDATE tasktable.river_job SET scheduled_at = 'infinity' WHERE state = 'available'`)
			}
			leave(node, stop, runs)
			row := s.Is("waits", store.StatusQueued, taskdb.OutcomeReleased)
			if got := s.ErrorOf("waits"); row.Attempt != 0 || got != "no node fetched it in time" {
				t.Errorf("attempt %d, %q", row.Attempt, got)
			}
			s.Sees("its River job is gone", `SELECT count(*) = 0 FROM tasktable.river_job WHERE state = 'available'`)
			if name == "quiet" {
				runs.End <- nil
			}
			s.Is("runs", store.StatusCompleted, taskdb.OutcomeCompleted)

			s.member(slots)
			s.Begins("waits").End <- nil
			s.Is("waits", store.StatusCompleted, taskdb.OutcomeReleased, taskdb.OutcomeCompleted)
		})
	}
}

// untoldSQL is a River job for a claim, of which River is told nothing. Its id is one that the sequence has not given
// out. Otherwise a look of the leader just before the commit would take the job for one that is gone, because only the
// leader inserts jobs, on the connection on which it looks.
const untoldSQL = `
INSERT INTO tasktable.river_job (id, kind, queue, state, args, metadata, priority, max_attempts, scheduled_at)
VALUES (1000 + pg_sequence_last_value(pg_get_serial_sequence('tasktable.river_job', 'id')::regclass), 'JOB', $1,
    'available', jsonb_build_object('tasks', $2::text), '{"tasks": 1}', 3, 1, now() - interval '1 hour')`

// A job that River was not told of goes back, and then starts, long before River would look for it by itself.
func TestUntoldJobStarts(t *testing.T) {
	s := newBench(t)
	limit := enginetest.Limits(t, s.Pool)
	s.node(nil)
	s.Add("first", nil)
	s.Begins("first").End <- nil // River works by now, and has looked
	s.Is("first", store.StatusCompleted, taskdb.OutcomeCompleted)
	const claimSQL = `UPDATE tasktable.scheduled_tasks
		SET status = 'EXECUTING', attempt = 1, fence = nextval('tasktable.task_numbers'),
		lease_expires_at = clock_timestamp() + interval '10 minutes', next_attempt_at = NULL WHERE id = 'untold'
		RETURNING fence, revision`
	began := time.Now()
	err := pgx.BeginFunc(t.Context(), s.Pool, func(tx pgx.Tx) error {
		h := taskdb.Claim{ID: "untold", Attempt: 1, Due: time.Now().Add(-time.Second)}
		// In the same transaction, so that the leader does not claim it.
		task := store.Task{ID: "untold", Payload: enginetest.Job{Name: "untold"}, At: h.Due.Add(-time.Second)}
		if _, err := s.Tasks.Schedule(t.Context(), tx, task); err != nil {
			return err
		}
		if _, err := tx.Exec(t.Context(), taskdb.EnterSQL); err != nil {
			return err
		}
		if err := tx.QueryRow(t.Context(), claimSQL).Scan(&h.Fence, &h.Revision); err != nil {
			return err
		}
		_, err := tx.Exec(t.Context(), untoldSQL, store.DefaultQueue, riverjobs.EncodeClaims([]taskdb.Claim{h}))
		return err
	})
	s.OK(err)
	s.Begins("untold").End <- nil
	if took := time.Since(began); took > limit(5*time.Second) {
		t.Errorf("it began after %s", took)
	}
	s.Is("untold", store.StatusCompleted, taskdb.OutcomeReleased, taskdb.OutcomeCompleted)
}

// A statement of the leader that takes 8 s stops no handler: the session has nothing else to do than to be heard.
func TestSlowStatementOfTheLeaderFencesNobody(t *testing.T) {
	s := newBench(t)
	s.Exec(`CREATE FUNCTION slow() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
			PERFORM pg_sleep(8);
			RETURN NEW;
		EXCEPTION WHEN query_canceled THEN -- as a trigger may do that does not mind statement_timeout
			PERFORM pg_sleep(6);
			RETURN NEW;
		END $$`)
	s.Exec(`CREATE TRIGGER slow BEFORE UPDATE ON tasktable.scheduled_tasks FOR EACH ROW
		WHEN (NEW.id = 'slow' AND NEW.status = 'EXECUTING' AND OLD.status = 'QUEUED') EXECUTE FUNCTION slow()`)
	s.node(nil)
	s.Add("runs", nil)
	runs := s.Begins("runs")
	began := time.Now()
	s.Add("slow", nil)
	s.Begins("slow").End <- nil
	if took := time.Since(began); took < 7*time.Second {
		t.Errorf("the claim took only %s", took)
	}
	if err := runs.Ctx.Err(); err != nil {
		t.Errorf("the handler is stopped: %v", err)
	}
	runs.End <- nil
	s.Is("runs", store.StatusCompleted, "COMPLETED")
	s.Counts("nodes", 1, `SELECT count(*) FROM tasktable.nodes`)
}

// A leader whose connection is cut opens another. It goes on leading, and claims at once.
func TestLeaderOpensItsConnectionAgain(t *testing.T) {
	f := newBench(t)
	v := newVisitor()
	close(v.let)
	startNode(t, f.nodes, nil, handlers.Handle(v.handle))
	for round := range 3 {
		enginetest.Schedule(t, f.Pool, store.Task{Payload: enginetest.Job{Name: fmt.Sprint("before ", round)}})
		enginetest.Receive(t, v.began, patience, "a task runs")
		number := f.leading()
		if n := f.end("tasktable leader"); n != 1 {
			t.Fatalf("%d connections of a leader", n)
		}
		began := time.Now()
		enginetest.Schedule(t, f.Pool, store.Task{Payload: enginetest.Job{Name: fmt.Sprint("after ", round)}})
		enginetest.Receive(t, v.began, patience, "a task runs")
		if took := time.Since(began); took > 3*time.Second {
			t.Errorf("claims go on after %s", took)
		}
		if now := f.leading(); now != number {
			t.Errorf("node %d leads after node %d", now, number)
		}
	}
}

// A stop interrupts handlers that take too long. The task of one that minds its context runs elsewhere at once, and no
// attempt is used. The task of one that does not is lost with its node, and runs elsewhere when that is dead.
func TestStopInterruptsWhatTakesTooLong(t *testing.T) {
	b := newBench(t)
	parts := []handlers.Part{handlers.Handle(b.Handle), handlers.Handle(
		func(ctx context.Context, task *handlers.Task[quick]) error {
			return b.HandleDeaf(ctx, &handlers.Task[enginetest.Job]{Execution: task.Execution})
		})}
	stop := b.node(func(c *Config) { c.ShutdownTimeout = 500 * time.Millisecond }, parts...)
	b.Add("long", nil)
	b.Add("deaf", func(task *store.Task) { task.Payload = quick{"deaf"} })
	long, deaf := b.Begins("long"), b.Begins("deaf")
	b.node(nil, parts...)
	stop()
	if cause := long.Ends(t, patience); !errors.Is(cause, handlers.ErrInterrupted) {
		t.Errorf("the context ended by %v", cause)
	}
	again := b.Begins("long")
	if again.Attempt != 1 {
		t.Errorf("the second run counts as attempt %d", again.Attempt)
	}
	again.End <- nil
	b.Is("long", store.StatusCompleted, taskdb.OutcomeInterrupted, taskdb.OutcomeCompleted)
	b.Begins("deaf").End <- nil
	b.Is("deaf", store.StatusCompleted, taskdb.OutcomeLost, taskdb.OutcomeCompleted)
	deaf.End <- nil
	b.Idle("long", "deaf")
}
