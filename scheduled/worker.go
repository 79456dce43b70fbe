package scheduled

import (
	"cmp"
	"context"
	"database/sql"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tasktable/tasktable/handlers"
	"github.com/tasktable/tasktable/scheduled/internal/taskdb"
	"github.com/tasktable/tasktable/store"
)

// worker runs the tasks that River brings to this node. Each task waits until it is due and has a slot, passes the
// gate, runs, and is settled.
type worker struct {
	config     Config
	statements taskdb.Queries
	enginePool *pgxpool.Pool
	sqlDB      *sql.DB // over Config.Pool, for HandleSQLTx
	txSlots    *slots
	settler    *settler
	gates      *group[*gateAsk]
	pace       *pace // of the questions to the gate
	doneJobs   *group[*doneJob]
	clock      *clock
	averages   *averages
	alive      func() bool
	freed      func()      // tells the leader that a batch's place is free
	heard      func(error) // notes the error of each statement on the engine's pool, or nil
	dead       *failureNotifier
	metrics    *metrics
	tracing    *tracing
	log        *slog.Logger

	slots    *slots
	handlers context.Context // ends when the node fences itself or interrupts its handlers; its cause is the reason
	settling context.Context // ends when the node gives up recording outcomes
	stopping chan struct{}   // closed when nothing new may start any more
	quiet    *quiet          // says whether nothing new may start for now

	releasing sync.WaitGroup // jobs that are being released

	mu   sync.Mutex
	runs map[int64]*run // by fence
	jobs map[int64]bool // ids of River's jobs that this node holds
}

// run is a claim that this node holds.
type run struct {
	taskdb.Claim
	batch *batch
	queue string
	poke  chan struct{} // says that the row has changed, so that the task asks the gate before it is due
	since time.Time     // when the node got the claim

	// These four are for a task that its own transaction has settled.
	dueSoon     bool // it is due again at once
	putOff      bool // it asked for a run at once
	generations int  // with putOff: see settled
	outdated    bool // it had been edited meanwhile

	notBefore time.Time // if the gate found it early: when it is due, by this process's clock
	payload   *string   // from the gate's last answer, if that answer came too late to start with it

	ended atomic.Bool // the task is being settled or was forgotten, and no later outcome counts

	mu        sync.Mutex
	lease     *leaseContext       // nil while the task waits
	execution *handlers.Execution // of the attempt; nil while the task waits
	startedAt time.Time           // of the attempt, by the database's clock
	renewed   time.Time           // when the lease was last made longer while the task waited
	called    time.Time           // when the handler was called, by this process's clock; zero: not yet
	written   bool                // the row says when and where the attempt started
}

// begins notes that an attempt has begun.
func (r *run) begins(lease *leaseContext, e *handlers.Execution) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.lease, r.execution, r.startedAt = lease, e, e.StartedAt
}

// restarts notes that the attempt begins later than its first gate said, because it waited for its transaction.
func (r *run) restarts(e *handlers.Execution, at time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	e.StartedAt, r.startedAt = at, at
}

// lapsed reports whether the lease has ended while the handler ran, by more than lostAfter. If so, it returns the
// loss of the claim.
func (r *run) lapsed(now time.Time) (loss taskdb.Settlement, over bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.lease == nil || !now.After(r.lease.leaseEnd().Add(lostAfter)) {
		return taskdb.Settlement{}, false
	}
	loss = taskdb.Lost(r.Claim, "its lease ended")
	startedAt, scheduledAt := r.startedAt, r.execution.ScheduledAt
	loss.Type, loss.ScheduledAt, loss.StartedAt = r.execution.Type, &scheduledAt, &startedAt
	return loss, true
}

func (r *run) running() *leaseContext {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.lease
}

// span returns a context with the span of the attempt, for the log. Before the attempt begins, the context has no
// span.
func (r *run) span() context.Context {
	if lease := r.running(); lease != nil {
		return lease
	}
	return context.Background()
}

func (b *batch) add(queue string, holds []taskdb.Claim) []*run {
	w, runs := b.worker, make([]*run, len(holds))
	w.mu.Lock()
	defer w.mu.Unlock()
	for i, h := range holds {
		now := time.Now()
		b.pending.Add(1)
		runs[i] = &run{
			Claim:   h,
			batch:   b,
			queue:   queue,
			poke:    make(chan struct{}, 1),
			since:   now,
			renewed: now.Add(max(w.clock.until(h.Due), 0)), // the lease of the claim lasts until the task is due
		}
		w.runs[h.Fence] = runs[i]
	}
	return runs
}

func (w *worker) remove(r *run) {
	w.mu.Lock()
	delete(w.runs, r.Fence)
	w.mu.Unlock()
}

// take notes that this node holds a River job. It reports false if the job is noted already.
func (w *worker) take(id int64) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.jobs[id] {
		return false
	}
	w.jobs[id] = true
	return true
}

// jobsInHand lists River's jobs that this node holds.
func (w *worker) jobsInHand() []int64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.AppendSeq(make([]int64, 0, len(w.jobs)), maps.Keys(w.jobs))
}

// work runs a batch. It returns when each of its tasks has been settled or released, and the River job removed.
func (w *worker) work(job riverJob, holds []taskdb.Claim) {
	if !w.take(job.id) {
		return // the node is releasing the claims of this job, because the answer to the fetch took too long
	}
	b := &batch{worker: w, kind: job.kind, tally: w.metrics.of(job.kind)}
	w.metrics.carried(len(holds))
	if variant := w.config.Handlers.Variant(job.kind); variant != nil && variant.Kind != handlers.KindPlain {
		// The place for a transaction comes first, so that no task holds a slot while it waits for a connection.
		b.places = append(b.places, place{slots: w.txSlots, transactions: true})
	}
	b.places = append(b.places, place{slots: w.slots, queue: job.queue})
	runs := b.add(job.queue, holds)
	b.serving.Go(func() { b.serve(runs) })
	b.serving.Wait()
	b.finishJob(job.id)
}

// end has an outcome recorded, and forgets the task then. Only the first outcome of a claim counts, because recording
// it may take a while. If the row is edited meanwhile, the gate refuses the task once more, and end is called again.
func (b *batch) end(r *run, s taskdb.Settlement) {
	if r.ended.Swap(true) {
		return
	}
	b.settler.submit(b.settling, s, func(state taskdb.SettleResult, err error) {
		if state.Status == string(store.StatusFailed) && s.Outcome == taskdb.OutcomeCompleted {
			s.Outcome = taskdb.OutcomeFailed // Postgres refused to record the handler's outcome
		}
		if s.Type == "" { // a claim that never started
			s.Type = cmp.Or(state.Type, b.kind)
		}
		outcome := s.Outcome
		level, say := slog.LevelInfo, "task "+s.Outcome
		switch {
		case err != nil:
			b.unrecorded.Store(true)
			level, say = slog.LevelWarn, "outcome not recorded; the leader takes the task back"
		case !state.Settled:
			level, say = slog.LevelWarn, "claim was taken back meanwhile; the outcome does not count"
			if outcome = b.outcomeOf(s); outcome != taskdb.OutcomeLost {
				level, say = slog.LevelInfo, "outcome was recorded already"
			}
		case !state.Current:
			outcome, say = s.Recorded(state), "task was edited or cancelled meanwhile; the outcome does not count"
		case s.Outcome == taskdb.OutcomeFailed:
			level = slog.LevelError
		case s.Outcome == taskdb.OutcomeLost && state.Status == string(store.StatusFailed): // it was the last attempt
			level = slog.LevelError
		case s.Outcome == taskdb.OutcomeRetried || s.Outcome == taskdb.OutcomeExpired ||
			s.Outcome == taskdb.OutcomeLost:
			level = slog.LevelWarn
		case s.Outcome == taskdb.OutcomeCompleted || s.Outcome == taskdb.OutcomeReleased:
			level = slog.LevelDebug
		}
		b.logEnd(r.span(), level, say, s, outcome)
		if state.Settled {
			b.tally.recorded(s.Recorded(state))
		}
		final := state.Status == string(store.StatusExpired) || state.Status == string(store.StatusFailed)
		if state.Settled && state.Current && (final || s.Outcome == taskdb.OutcomeLost) {
			b.tally.died(state.Status)
			b.dead.tell(deadOf(s, state))
		}
		b.remove(r)
		b.pending.Done()
	})
}

const outcomeOfSQL = `SELECT outcome::text FROM tasktable.scheduled_task_executions WHERE fence = $1`

// outcomeOf returns the outcome that the history shows for a claim that was ended before s. Often this node has ended
// it itself, because the commit of a handler's transaction may fail for the node and succeed on the server. If the
// history shows nothing, the claim counts as lost.
func (b *batch) outcomeOf(s taskdb.Settlement) (outcome string) {
	ctx, cancel := context.WithTimeout(b.settling, answerLimit)
	defer cancel()
	if err := b.enginePool.QueryRow(ctx, b.statements.Schema.SQL(outcomeOfSQL), s.Fence).Scan(&outcome); err != nil {
		return taskdb.OutcomeLost
	}
	return outcome
}

// drop forgets a task whose fence is lost, because there is nothing to settle.
func (b *batch) drop(r *run) {
	if r.ended.Swap(true) {
		return
	}
	b.remove(r)
	b.pending.Done()
}

// changed reacts to a change of a row. If the handler runs and there is a cause, it ends the handler's context. If
// the task still waits, it makes the task ask the gate.
func (w *worker) changed(r *run, cause error) {
	if lease := r.running(); lease != nil {
		if cause != nil {
			lease.end(cause)
		}
		return
	}
	select {
	case r.poke <- struct{}{}:
	default: // the task knows already
	}
}

// inHand lists the claims that this node has held for at least this long.
func (w *worker) inHand(least time.Duration) []*run {
	w.mu.Lock()
	defer w.mu.Unlock()
	var found []*run
	for _, r := range w.runs {
		if time.Since(r.since) >= least {
			found = append(found, r)
		}
	}
	return found
}

func (w *worker) byFence(fence int64) *run {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.runs[fence]
}

// causeOf returns the reason for which a handler's context ended, or nil if it has not ended.
func causeOf(ctx context.Context) error {
	if ctx.Err() == nil {
		return nil
	}
	return context.Cause(ctx)
}
