package worker

import (
	"context"
	"time"

	"github.com/tasktable/tasktable/scheduled/internal/riverjobs"
	"github.com/tasktable/tasktable/scheduled/internal/session"
	"github.com/tasktable/tasktable/scheduled/internal/taskdb"
)

// finishJob removes the River job after all outcomes of its tasks are recorded, and not before. If this node dies,
// the lease renewer and the leader find the claims by this job.
func (b *batch) finishJob(id int64) {
	b.pending.Wait()
	if b.unrecorded.Load() {
		return // the node gives up, and the leader takes back the remaining claims
	}
	removed := &doneJob{id: id, removed: make(chan struct{})}
	select {
	case b.doneJobs.In <- removed:
		select {
		case <-removed.removed:
		case <-b.settling.Done():
		}
	case <-b.settling.Done():
	}
	b.mu.Lock()
	delete(b.jobs, id)
	b.mu.Unlock()
	b.config.Freed()
}

// doneJob is a River job whose tasks are all settled.
type doneJob struct {
	id      int64
	removed chan struct{}
}

// maxDoneJobs is how many River jobs one statement removes.
const maxDoneJobs = 1000

// removeTries is how often the worker tries to remove finished jobs before it leaves them to the lease renewer.
const removeTries = 5

// removeJobs removes the River jobs that were done since the last time.
func (w *Worker) removeJobs(ctx context.Context, done []*doneJob) {
	ids := make([]int64, len(done))
	for i, job := range done {
		ids[i] = job.id
	}
	var err error
	for try := range removeTries {
		if try > 0 {
			select { // the database may need a moment
			case <-ctx.Done():
			case <-time.After(50 * time.Millisecond):
			}
		}
		limited, cancel := context.WithTimeout(ctx, session.AnswerLimit)
		_, err = w.config.EnginePool.Exec(limited, w.config.Statements.Schema.SQL(riverjobs.DeleteSQL), ids)
		cancel()
		if w.config.Heard(err); err == nil || ctx.Err() != nil {
			break
		}
	}
	if err != nil && ctx.Err() == nil {
		w.config.Log.Warn(
			"finished River jobs not removed; the lease renewer will do it", "jobs", len(ids), "error", err,
		)
	}
	for _, job := range done {
		close(job.removed)
	}
}

const whyNeverCame = "the answer to River's fetch was lost"

// Release hands back the claims of a job that River runs on this node although the node never received it. None of
// these claims has begun, so no attempt is used. If the job arrives after all, its claims are gone, and the gate
// refuses them.
func (w *Worker) Release(stray taskdb.StrayJob) {
	if !w.take(stray.ID) {
		return // the job has arrived meanwhile
	}
	holds, err := riverjobs.DecodeClaims(stray.Tasks)
	if err != nil {
		w.config.Log.Error("River job is not one of ours; removed", "job", stray.ID, "error", err)
	}
	w.config.Log.Warn("the answer to a fetch by River was lost; the node releases the job's claims",
		"job", stray.ID, "type", stray.Kind, "tasks", len(holds))
	b := &batch{Worker: w, kind: stray.Kind, tally: w.config.Metrics.Of(stray.Kind)}
	runs := b.add(stray.Queue, holds)
	b.releaseAll(runs, whyNeverCame)
	b.finishJob(stray.ID)
}
