package scheduled

import (
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
			if got := s.ErrorOf("waits"); row.Attempt != 0 || got != "no node had a slot for it in time" {
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

// untoldSQL is a River job for a claim, of which River is told nothing.
const untoldSQL = `
INSERT INTO tasktable.river_job (kind, queue, state, args, metadata, priority, max_attempts, scheduled_at)
VALUES ('JOB', $1, 'available', jsonb_build_object('tasks', $2::text), '{"tasks": 1}', 3, 1, now() - interval '1 hour')`

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
