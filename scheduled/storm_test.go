package scheduled

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/tasktable/tasktable/handlers"
	"github.com/tasktable/tasktable/scheduled/internal/enginetest"
	"github.com/tasktable/tasktable/store"
)

// storm counts what its handlers do, and what its callers were told.
type storm struct {
	*stage
	mu       sync.Mutex
	calm     bool // handlers only succeed from now on
	running  map[string]int
	overlaps []string
	runs     []ranRevision
	edits    []edited
}

type ranRevision struct {
	id       string
	revision int64
	started  time.Time
}

// edited is a revision that a verb made, and a time of the database after its commit.
type edited struct {
	id       string
	revision int64
	by       time.Time
}

func (s *storm) handle(ctx context.Context, task *handlers.Task[enginetest.Job]) error {
	s.mu.Lock()
	if s.running[task.ID]++; s.running[task.ID] > 1 {
		s.overlaps = append(s.overlaps, fmt.Sprintf("%s revision %d attempt %d", task.ID, task.Revision, task.Attempt))
	}
	s.runs = append(s.runs, ranRevision{task.ID, task.Revision, task.StartedAt})
	calm := s.calm
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		s.running[task.ID]--
		s.mu.Unlock()
	}()
	select {
	case <-time.After(rand.N(15 * time.Millisecond)):
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	if calm {
		return nil
	}
	switch rand.N(6) {
	case 0:
		return errors.New("oops")
	case 1:
		return handlers.Snooze(rand.N(20 * time.Millisecond))
	case 2:
		task.Again(time.Now().Add(rand.N(50 * time.Millisecond)))
	case 3:
		panic("oops")
	case 4:
		task.FollowUp(store.Task{ID: fmt.Sprint("task ", rand.N(6)), Payload: enginetest.Job{Name: "followed up"}})
	}
	return nil
}

// verb does a random thing to a random task.
func (s *storm) verb() error {
	ctx, id := s.t.Context(), fmt.Sprint("task ", rand.N(6))
	soon := time.Now().Add(rand.N(60*time.Millisecond) - 10*time.Millisecond)
	verbs := []func() (store.Receipt, error){
		func() (store.Receipt, error) { return s.tasks.Cancel(ctx, s.pool, id) },
		func() (store.Receipt, error) { return s.tasks.Pause(ctx, s.pool, id) },
		func() (store.Receipt, error) { return s.tasks.Resume(ctx, s.pool, id) },
		func() (store.Receipt, error) { return s.tasks.RunNow(ctx, s.pool, id) },
		func() (store.Receipt, error) { return s.tasks.Retry(ctx, s.pool, id) },
		func() (store.Receipt, error) { return s.tasks.Delete(ctx, s.pool, id) },
		func() (store.Receipt, error) { return s.tasks.Reschedule(ctx, s.pool, id, soon) },
		func() (store.Receipt, error) {
			return s.tasks.Schedule(ctx, s.pool, store.Task{
				ID: id, Payload: enginetest.Job{Name: "storm"}, At: soon, MaxAttempts: 3,
			})
		},
		func() (store.Receipt, error) {
			return s.tasks.Schedule(ctx, s.pool, store.Task{
				ID: id, Payload: enginetest.Job{Name: fmt.Sprint(rand.N(9))}, At: soon, Priority: rand.N(3),
			})
		},
		func() (store.Receipt, error) { // an application's transaction that has the row for a while
			tx, err := s.pool.Begin(ctx)
			if err != nil {
				return store.Receipt{}, err
			}
			defer func() { _ = tx.Rollback(context.WithoutCancel(ctx)) }()
			_, err = tx.Exec(ctx, `SELECT pg_sleep(0.03) FROM tasktable.scheduled_tasks WHERE id = $1 FOR UPDATE`, id)
			return store.Receipt{}, err
		},
		func() (store.Receipt, error) {
			_, err := s.pool.Exec(ctx, `UPDATE tasktable.scheduled_tasks SET status = 'PAUSED'
				WHERE id = $1 AND status = 'EXECUTING'`, id)
			return store.Receipt{}, err
		},
	}
	receipt, err := verbs[rand.N(len(verbs))]()
	if err != nil || receipt.Revision == 0 {
		return err
	}
	var by time.Time
	if err := s.pool.QueryRow(ctx, `SELECT clock_timestamp()`).Scan(&by); err != nil {
		return err
	}
	s.mu.Lock()
	s.edits = append(s.edits, edited{id, receipt.Revision, by})
	s.mu.Unlock()
	return nil
}

// Two nodes, six tasks, and everything that can be done to them, at once and at random, sessions cut among it. One id
// is never in two handlers at once, no revision starts after an edit of it was committed, none is completed twice,
// and none is lost.
func TestStorm(t *testing.T) {
	t.Parallel()
	s := &storm{stage: newStage(t), running: map[string]int{}}
	s.cut = true
	for range 2 {
		s.node(nil, handlers.Handle(s.handle))
	}
	var wg sync.WaitGroup
	errs := make(chan error, 1000)
	for range 4 {
		wg.Go(func() {
			for range 250 {
				if err := s.verb(); err != nil {
					errs <- err
				}
			}
		})
	}
	for range 2 {
		ran := s.ran()
		enginetest.Eventually(t, patience, "tasks run", func() bool { return s.ran() > ran+20 })
		enginetest.Eventually(t, patience, "a session is cut", func() bool {
			return s.count(`SELECT count(pg_terminate_backend(pid)) FROM (SELECT pid FROM pg_stat_activity
				WHERE datname = current_database() AND application_name LIKE 'tasktable session%' ORDER BY random()
					LIMIT 1) AS one`) == 1
		})
	}
	wg.Wait()
	close(errs)
	for err := range errs {
		t.Errorf("a verb failed: %v", err)
	}
	s.mu.Lock()
	s.calm = true
	s.mu.Unlock()
	enginetest.Eventually(t, 30*time.Second, "it calms down", func() bool {
		return s.count(`SELECT count(*) FROM tasktable.scheduled_tasks WHERE fence IS NOT NULL
			OR next_attempt_at IS NOT NULL`) == 0
	})
	for i := range 6 { // each runs once more, whatever had become of it
		id := fmt.Sprint("task ", i)
		enginetest.Eventually(t, 30*time.Second, id+" is queued or running, and free", func() bool {
			if _, err := s.tasks.Schedule(t.Context(), s.pool, store.Task{
				ID: id, Payload: enginetest.Job{Name: "last"}, At: time.Now(),
			}); err != nil {
				t.Fatal(err)
			}
			receipt, err := s.tasks.RunNow(t.Context(), s.pool, id)
			return err == nil && receipt.Outcome == store.Queued
		})
		row := enginetest.Await(t, s.pool, id, 30*time.Second, store.StatusCompleted)
		if row.Fence != nil || string(row.Payload) != `{"name": "last", "type": "JOB"}` {
			t.Errorf("%s is %+v", id, row)
		}
	}
	s.judge()
}

func (s *storm) ran() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.runs)
}

func (s *storm) judge() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.overlaps) != 0 {
		s.t.Errorf("in two handlers at once: %v", s.overlaps)
	}
	for _, run := range s.runs {
		for _, edit := range s.edits {
			if edit.id == run.id && edit.revision > run.revision && run.started.After(edit.by) {
				s.t.Errorf(
					"%s revision %d started %s after revision %d was committed", run.id, run.revision,
					run.started.Sub(edit.by), edit.revision,
				)
			}
		}
	}
	for what, sql := range map[string]string{
		"completed twice": `SELECT count(*)
			FROM (SELECT FROM tasktable.scheduled_task_executions WHERE outcome = 'COMPLETED' GROUP BY task_id, revision
			HAVING count(*) > 1) AS twice`,
		"started before due": `SELECT count(*) FROM tasktable.scheduled_task_executions WHERE started_at < due_at`,
		"ended before it began": `SELECT count(*) FROM tasktable.scheduled_task_executions
			WHERE finished_at < started_at`,
		"attempts beyond 5": `SELECT count(*) FROM tasktable.scheduled_task_executions
			WHERE attempt NOT BETWEEN 1 AND 5 AND outcome <> 'EXPIRED'`,
		"overlapping executions": `SELECT count(*) FROM tasktable.scheduled_task_executions AS a
			JOIN tasktable.scheduled_task_executions AS b ON a.task_id = b.task_id AND a.fence < b.fence
			AND a.finished_at > b.started_at`,
	} {
		if n := s.count(sql); n != 0 {
			s.t.Errorf("%s: %d", what, n)
		}
	}
	s.t.Logf(
		"%d runs, %d edits, %d executions", len(s.runs), len(s.edits),
		s.count(`SELECT count(*) FROM tasktable.scheduled_task_executions`),
	)
	outcomes := `SELECT string_agg(outcome || ' ' || n, ', ')
		FROM (SELECT outcome, count(*) AS n FROM tasktable.scheduled_task_executions GROUP BY 1) AS o`
	var text string
	if err := s.pool.QueryRow(s.t.Context(), outcomes).Scan(&text); err == nil {
		s.t.Log(text)
	}
}
