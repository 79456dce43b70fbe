package worker

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/tasktable/tasktable/handlers"
	"github.com/tasktable/tasktable/scheduled/internal/metrics"
	"github.com/tasktable/tasktable/scheduled/internal/riverjobs"
	"github.com/tasktable/tasktable/scheduled/internal/session"
	"github.com/tasktable/tasktable/scheduled/internal/slots"
	"github.com/tasktable/tasktable/scheduled/internal/taskdb"
)

// job is a River job that this node holds.
type job struct {
	*Worker
	id    int64
	queue string
	kind  string // its tasks' type
	// Of this type. River fetches only types for which the node has a handler. A job that is handed back has none.
	variant *handlers.Variant
	tally   *metrics.OfType
	// The places that each of its handlers needs: a slot, before that one of its type if that has a limit, and a
	// transaction's place if it takes one. A batch waits for all before it asks the gate, so that the wait does not
	// count. The slot of the queue comes last, so that no task holds one while it waits for something else.
	places []slots.Place
	window *window // nil for a job of few tasks
	serial bool    // none of its tasks may begin before the one before it has ended

	serving sync.WaitGroup // batches
	pending sync.WaitGroup // tasks not settled yet
}

// Work runs the tasks of a River job. It returns when each of them has been settled or released, and the River job
// removed, or when the node gives up recording outcomes.
func (w *Worker) Work(from riverjobs.Job, claims []taskdb.Claim) {
	all := w.take(from, claims)
	if all == nil {
		return // the node is releasing the claims of this job, because the answer to the fetch took too long
	}
	j := all.job
	w.config.Metrics.JobTasks.Observe(float64(len(claims)))
	if w.config.TypeSlots[j.kind] > 0 {
		j.places = append(j.places, slots.Place{
			Slots: w.typeSlots, Queue: j.kind, One: "a slot of its type", All: "all slots of type " + j.kind,
		})
	}
	if j.variant = w.config.Handlers.Variant(j.kind); j.variant.Kind != handlers.KindPlain {
		j.places = append(j.places, slots.Place{
			Slots: w.txSlots, One: "a connection for its transaction", All: "all places of transactional handlers",
		})
	}
	slot := slots.Place{Slots: w.slots, Queue: j.queue, One: "a slot", All: "all slots of queue " + j.queue}
	if w.config.ShareSlots {
		slot.All = "all slots"
	}
	j.places = append(j.places, slot)
	j.serving.Go(all.serve)
	j.serving.Wait()
	j.finish()
}

// releaseStray hands back the claims of a job that River runs on this node although the node never received it. None of
// these claims has begun, so no attempt is used. If the job arrives after all, its claims are gone, and the gate
// refuses them.
func (w *Worker) releaseStray(stray taskdb.StrayJob) {
	claims, err := riverjobs.DecodeClaims(stray.Tasks)
	all := w.take(riverjobs.Job{ID: stray.ID, Queue: stray.Queue, Kind: stray.Kind}, claims)
	if all == nil {
		return // the job has arrived meanwhile
	}
	if err != nil {
		w.config.Log.Error("River job is not one of ours; removed", "job", stray.ID, "error", err)
	}
	w.config.Log.Warn("the answer to a fetch by River was lost; the node releases the job's claims",
		"job", stray.ID, "type", stray.Kind, "tasks", len(claims))
	all.release(len(claims), "the answer to River's fetch was lost")
	all.finish()
}

// take notes that this node holds a River job, and returns a batch of all its tasks. The job's finish waits for each of
// them. take returns nil if the job is noted already. The job gets its window here, because a recheck may end its
// claims from now on.
func (w *Worker) take(from riverjobs.Job, claims []taskdb.Claim) *batch {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.jobs[from.ID] {
		return nil
	}
	w.jobs[from.ID] = true
	j := &job{Worker: w, id: from.ID, queue: from.Queue, kind: from.Kind, serial: from.Serial,
		tally: w.config.Metrics.Of(from.Kind)}
	if from.Window > 0 && len(claims) > from.Window {
		j.window = newWindow(from.Window, len(claims))
	}
	all := &batch{job: j, runs: make([]*run, len(claims))}
	j.pending.Add(len(claims))
	runs, now := make([]run, len(claims)), time.Now()
	for i, claim := range claims {
		r := &runs[i]
		r.Claim, r.job, r.place, r.since = claim, j, i, now
		all.runs[i], w.runs[claim.Fence] = r, r
	}
	return all
}

// jobsInHand lists River's jobs that this node holds.
func (w *Worker) jobsInHand() []int64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.AppendSeq(make([]int64, 0, len(w.jobs)), maps.Keys(w.jobs))
}

// finish removes the River job after all outcomes of its tasks are recorded, and not before. If this node dies, the
// leader finds the claims by this job.
func (j *job) finish() {
	j.pending.Wait()
	if j.settling.Err() != nil {
		return // the node gives up, and the leader takes back the remaining claims
	}
	j.doneJobs.Do(j.settling, j.id)
	j.mu.Lock()
	delete(j.jobs, j.id)
	j.mu.Unlock()
	j.config.Frees.Send()
}

// maxDoneJobs is how many River jobs one statement removes.
const maxDoneJobs = 1000

// removeTries is how often the worker tries to remove finished jobs before it leaves them to askPool. After a failover
// or a change of the password each connection of the pool may be broken.
const removeTries = 5

// removeJobs removes the River jobs that were done since the last time. If it cannot, askPool finds them, because River
// still runs them on this node and the node does not have them in hand.
func (w *Worker) removeJobs(ctx context.Context, ids []int64) {
	var err error
	for range removeTries {
		limited, cancel := context.WithTimeout(ctx, session.AnswerLimit)
		_, err = w.config.EnginePool.Exec(limited, w.config.Statements.Schema.SQL(riverjobs.DeleteSQL), ids)
		cancel()
		if w.config.Answered(err); err == nil || ctx.Err() != nil {
			return
		}
		select { // the database may need a moment
		case <-ctx.Done():
		case <-time.After(50 * time.Millisecond):
		}
	}
	w.config.Log.Warn("finished River jobs not removed; the node will find them", "jobs", len(ids), "error", err)
}
