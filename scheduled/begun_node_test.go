package scheduled

import (
	"fmt"
	"testing"

	"github.com/tasktable/tasktable/handlers"
	"github.com/tasktable/tasktable/scheduled/internal/enginetest"
	"github.com/tasktable/tasktable/scheduled/internal/taskdb"
	"github.com/tasktable/tasktable/store"
)

// When a node dies, only those tasks of its jobs are lost that may have begun. The others go back, and tasks with one
// attempt keep it.
func TestTasksThatCannotHaveBegunAreNotLost(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		metadata string
		lost     int
	}{
		"in its window":            {`{"window": 5}`, 5},
		"further than its window":  {`{"window": 5, "began": 12}`, 9},
		"nobody knows":             {`{}`, 37},
		"somebody has damaged it":  {`{"window": "x"}`, 37},
		"all of the job has begun": {`{"window": 5, "began": 100}`, 37},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newBench(t)
			const n, settled = 40, 3
			for i := range n {
				s.Add(fmt.Sprintf("%02d", i), func(task *store.Task) { task.MaxAttempts = 1 })
			}
			tr := s.prepare(nil, handlers.Handle(s.Handle))
			tr.oneBatch("default", n)
			s.Exec(`UPDATE tasktable.river_job SET state = 'running', attempted_by = ARRAY[$1::text],
				attempted_at = now(), metadata = $2::text::jsonb`, taskdb.ClientID(999_999), test.metadata)
			s.Exec(`UPDATE tasktable.scheduled_tasks SET status = 'COMPLETED', fence = NULL, lease_expires_at = NULL,
				finished_at = now() WHERE id < $1`, fmt.Sprintf("%02d", settled))
			tr.turn()
			enginetest.Eventually(t, patience, "the claims are taken back", func() bool {
				if _, err := tr.leader.Tick(t.Context()); err != nil {
					t.Fatal(err)
				}
				return s.Count(`SELECT count(*) FROM tasktable.scheduled_tasks WHERE fence IS NOT NULL`) == 0
			})
			for what, want := range map[string]int{
				fmt.Sprintf(`SELECT count(*) FROM tasktable.scheduled_tasks
					WHERE status = 'FAILED' AND id < '%02d'`, settled+test.lost): test.lost,
				`SELECT count(*) FROM tasktable.scheduled_task_executions WHERE outcome = 'LOST'`: test.lost,
				`SELECT count(*) FROM tasktable.scheduled_tasks WHERE status = 'QUEUED' AND attempt = 0`: n - settled -
					test.lost,
				`SELECT count(*) FROM tasktable.scheduled_task_executions WHERE outcome = 'RELEASED'`: n - settled -
					test.lost,
			} {
				if got := s.Count(what); got != want {
					t.Errorf("%s: %d, want %d", what, got, want)
				}
			}
			tr.run()
		})
	}
}

// A task that takes long does not keep the rest of its job from running. The job says how far the node goes on.
func TestBatchGoesOnPastItsWindow(t *testing.T) {
	t.Parallel()
	s := newBench(t)
	const n = 4
	for i := range n {
		s.Add(fmt.Sprint(i), nil)
	}
	tr := s.prepare(nil, handlers.Handle(s.Handle))
	tr.oneBatch("default", n)
	s.Exec(`UPDATE tasktable.river_job SET metadata = metadata || '{"window": 1}'`)
	tr.run()
	slow := s.Begins("0")
	for i := 1; i < n; i++ {
		s.Begins(fmt.Sprint(i)).End <- nil
		s.Is(fmt.Sprint(i), store.StatusCompleted, taskdb.OutcomeCompleted)
	}
	s.Sees("the job says so", `SELECT (metadata ->> 'began')::int >= 4 FROM tasktable.river_job`)
	slow.End <- nil
	s.Is("0", store.StatusCompleted, taskdb.OutcomeCompleted)
}
