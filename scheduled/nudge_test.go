package scheduled

import (
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tasktable/tasktable/scheduled/internal/enginetest"
	"github.com/tasktable/tasktable/scheduled/internal/riverjobs"
	"github.com/tasktable/tasktable/scheduled/internal/taskdb"
	"github.com/tasktable/tasktable/store"
)

// untoldSQL is a River job for a claim, of which River is told nothing.
const untoldSQL = `
INSERT INTO tasktable.river_job (kind, queue, state, args, metadata, priority, max_attempts, scheduled_at)
VALUES ('JOB', $1, 'available', jsonb_build_object('tasks', $2::text), '{"tasks": 1}', 3, 1, now() - interval '1 hour')`

// A job that River was not told of starts within two seconds or so, long before River would look for it by
// itself; in each queue.
func TestNudge(t *testing.T) {
	t.Parallel()
	s := newBench(t)
	limit := enginetest.Limits(t, s.Pool)
	s.node(func(c *Config) { c.Queues = map[string]int{"default": 2, "mail-out_1": 2} })
	s.Add("first", nil)
	s.Begins("first").End <- nil // River works by now, and has looked
	s.Is("first", store.StatusCompleted, taskdb.OutcomeCompleted)
	const claimSQL = `UPDATE tasktable.scheduled_tasks
		SET status = 'EXECUTING', attempt = 1, fence = nextval('tasktable.task_numbers'),
		lease_expires_at = clock_timestamp() + interval '10 minutes', next_attempt_at = NULL WHERE id = $1
		RETURNING fence, revision`
	for _, queue := range []string{"default", "mail-out_1"} {
		id := "in " + queue
		began := time.Now()
		err := pgx.BeginFunc(t.Context(), s.Pool, func(tx pgx.Tx) error {
			h := taskdb.Claim{ID: id, Attempt: 1, Due: time.Now().Add(-time.Second)}
			// In the same transaction, so that the leader does not claim it.
			task := store.Task{ID: id, Payload: enginetest.Job{Name: id}, Queue: queue, At: h.Due.Add(-time.Second)}
			if _, err := s.Tasks.Schedule(t.Context(), tx, task); err != nil {
				return err
			}
			if _, err := tx.Exec(t.Context(), taskdb.EnterSQL); err != nil {
				return err
			}
			if err := tx.QueryRow(t.Context(), claimSQL, id).Scan(&h.Fence, &h.Revision); err != nil {
				return err
			}
			_, err := tx.Exec(t.Context(), untoldSQL, queue, riverjobs.EncodeClaims([]taskdb.Claim{h}))
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		s.Begins(id).End <- nil
		if took := time.Since(began); took > limit(5*time.Second) {
			t.Errorf("%s: it began after %s", id, took)
		}
		enginetest.Eventually(t, patience, id+" is completed", func() bool {
			row, err := enginetest.Tasks.Get(t.Context(), s.Pool, id)
			return err == nil && row.Status == store.StatusCompleted // it may have gone back once, on a busy machine
		})
	}
}
