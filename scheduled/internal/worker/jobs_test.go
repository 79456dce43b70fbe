package worker

import (
	"slices"
	"testing"
	"time"

	"github.com/tasktable/tasktable/scheduled/internal/enginetest"
	"github.com/tasktable/tasktable/scheduled/internal/riverjobs"
	"github.com/tasktable/tasktable/scheduled/internal/taskdb"
	"github.com/tasktable/tasktable/store"
)

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
