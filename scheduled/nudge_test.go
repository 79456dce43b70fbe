package scheduled

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tasktable/tasktable/handlers"
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
	s := newStage(t)
	tr := s.prepare(
		func(c *Config) { c.Queues = map[string]int{"default": 2, "mail-out_1": 2} }, handlers.Handle(s.handle),
	)
	tr.run()
	s.schedule("first", nil)
	s.begins("first").end <- nil // River works by now, and has looked
	s.is("first", store.StatusCompleted, taskdb.OutcomeCompleted)
	const claimSQL = `UPDATE tasktable.scheduled_tasks
		SET status = 'EXECUTING', attempt = 1, fence = nextval('tasktable.task_numbers'),
		lease_expires_at = clock_timestamp() + interval '10 minutes', next_attempt_at = NULL WHERE id = $1
		RETURNING fence, revision`
	for _, queue := range []string{"default", "mail-out_1"} {
		id := "in " + queue
		began := time.Now()
		err := pgx.BeginFunc(t.Context(), s.pool, func(tx pgx.Tx) error {
			h := taskdb.Claim{ID: id, Attempt: 1, Due: time.Now().Add(-time.Second)}
			// In the same transaction, so that the leader does not claim it.
			task := store.Task{ID: id, Payload: job{id}, Queue: queue, At: h.Due.Add(-time.Second)}
			if _, err := s.tasks.Schedule(t.Context(), tx, task); err != nil {
				return err
			}
			if _, err := tx.Exec(t.Context(), taskdb.EnterSQL); err != nil {
				return err
			}
			if err := tx.QueryRow(t.Context(), claimSQL, id).Scan(&h.Fence, &h.Revision); err != nil {
				return err
			}
			_, err := tx.Exec(t.Context(), untoldSQL, queue, taskdb.EncodeClaims([]taskdb.Claim{h}))
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		s.begins(id).end <- nil
		if took := time.Since(began); took > 5*time.Second {
			t.Errorf("%s: it began after %s", id, took)
		}
		eventually(t, 15*time.Second, id+" is completed", func() bool {
			row, err := tasks.Get(t.Context(), s.pool, id)
			return err == nil && row.Status == store.StatusCompleted // it may have gone back once, on a busy machine
		})
	}
}

// What the nudge says, whoever listens: a line for each queue in which jobs wait for long enough, in the
// schema's own channel.
func TestNudgeSays(t *testing.T) {
	t.Parallel()
	for name, in := range map[string]struct {
		jobs string // queue, state, age in seconds
		want string
	}{
		"nothing waits":   {`('a', 'running', 9), ('a', 'completed', 9)`, "[]"},
		"not long enough": {`('a', 'available', 0)`, "[]"},
		"once a queue": {
			`('a', 'available', 2), ('a', 'available', 3), ('b-c_d', 'available', 2), ('e', 'available', -2)`,
			"[a b-c_d]",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			b.exec(`INSERT INTO tasktable.river_job (kind, queue, state, finalized_at, created_at, max_attempts, args)
				SELECT 'JOB', queue, state::tasktable.river_job_state, CASE state
					WHEN 'completed' THEN now() END, clock_timestamp() - age * interval '1 second', 1, '{}'
				FROM (VALUES ` + in.jobs + `) AS one (queue, state, age)`)
			conn, err := pgx.ConnectConfig(t.Context(), b.pool.Config().ConnConfig)
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = conn.Close(context.WithoutCancel(t.Context())) }()
			if _, err := conn.Exec(t.Context(), `LISTEN "tasktable.river_insert"; LISTEN over`); err != nil {
				t.Fatal(err)
			}
			jobs := riverJobs{next: 1}
			b.see(&jobs)
			if _, err := conn.Exec(
				t.Context(), b.Schema.SQL(nudgeSQL), b.Schema.String(), notNilNumbers(jobs.waiting(nudgeAfter)),
			); err != nil {
				t.Fatal(err)
			}
			if _, err := conn.Exec(t.Context(), `NOTIFY over`); err != nil {
				t.Fatal(err)
			}
			said := []string{}
			for {
				heard, err := conn.WaitForNotification(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				if heard.Channel == "over" {
					break
				}
				var queue string
				if err := b.pool.QueryRow(
					t.Context(), `SELECT $1::jsonb ->> 'queue'`, heard.Payload,
				).Scan(&queue); err != nil {
					t.Fatal(err)
				}
				said = append(said, queue)
			}
			slices.Sort(said)
			if got := fmt.Sprint(said); got != in.want {
				t.Errorf("told River of the queues %s, want %s", got, in.want)
			}
		})
	}
}
