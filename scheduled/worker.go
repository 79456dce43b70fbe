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
	"github.com/tasktable/tasktable/store"
)

// worker runs the tasks that River brings to this node: each waits for its time and for a slot, passes the gate, runs, and is
// settled.
type worker struct {
	config     Config
	statements statements
	enginePool *pgxpool.Pool
	sqlDB      *sql.DB // over Config.Pool, for HandleSQLTx
	txSlots    *slots
	settler    *settler
	gates      *group[*gateAsk]
	pace       *pace // of the gate
	doneJobs   *group[*doneJob]
	clock      *clock
	averages   *averages
	alive      func() bool
	freed      func()      // tells the leader that a batch's place is free
	heard      func(error) // notes what a statement of the engine's pool came to
	dead       *undertaker
	metrics    *metrics
	tracing    *tracing
	log        *slog.Logger

	slots    *slots
	handlers context.Context // ends when the node fences itself or interrupts its handlers, with the reason as its cause
	settling context.Context // ends when the node gives up settling
	stopping chan struct{}   // closed when nothing new may start any more
	quiet    *quiet          // says whether nothing new may start for now

	releasing sync.WaitGroup // jobs that are being released

	mu   sync.Mutex
	runs map[int64]*run // by fence
	jobs map[int64]bool // River's jobs in hand
}

// run is a claim in this node's hands.
type run struct {
	hold
	batch *batch
	queue string
	poke  chan struct{} // says that the row has changed: ask the gate now, whatever the time
	since time.Time

	dueSoon     bool      // settled by its own transaction, it is due again at once
	putOff      bool      // settled by its own transaction, it asked for a run at once
	generations int       // with putOff: as settled says
	outdated    bool      // settled by its own transaction, it had been edited meanwhile
	notBefore   time.Time // when the gate found it early: by this process's clock
	payload     *string   // as the gate's last answer had it, if that came too late to start by

	ended atomic.Bool // it is being settled, or forgotten: nothing more may become of it

	mu        sync.Mutex
	lease     *leaseContext       // nil while it waits
	execution *handlers.Execution // of the attempt; nil while it waits
	startedAt time.Time           // of the attempt, by the database's clock
	renewed   time.Time           // when its lease was last made longer while it waited
	called    time.Time           // when its handler was called, by this process's clock; zero: not yet
	written   bool                // its row says when and where the attempt started
}

// begins notes the attempt that has begun.
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

// lapsed returns the loss of a claim whose lease has ended while its handler ran, and whether it has.
func (r *run) lapsed(now time.Time) (loss settlement, over bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.lease == nil || !now.After(r.lease.leaseEnd().Add(lostAfter)) {
		return settlement{}, false
	}
	loss = lost(r.hold, "its lease ended")
	startedAt, scheduledAt := r.startedAt, r.execution.ScheduledAt
	loss.Type, loss.ScheduledAt, loss.StartedAt = r.execution.Type, &scheduledAt, &startedAt
	return loss, true
}

func (r *run) running() *leaseContext {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.lease
}

// span is a context with the span of the attempt, for the log; without one where it has not begun.
func (r *run) span() context.Context {
	if lease := r.running(); lease != nil {
		return lease
	}
	return context.Background()
}

func (b *batch) add(queue string, holds []hold) []*run {
	w, runs := b.worker, make([]*run, len(holds))
	w.mu.Lock()
	defer w.mu.Unlock()
	for i, h := range holds {
		now := time.Now()
		// Until it is due the claim's own lease does.
		b.pending.Add(1)
		runs[i] = &run{hold: h, batch: b, queue: queue, poke: make(chan struct{}, 1), since: now, renewed: now.Add(max(w.clock.until(h.Due), 0))}
		w.runs[h.Fence] = runs[i]
	}
	return runs
}

func (w *worker) remove(r *run) {
	w.mu.Lock()
	delete(w.runs, r.Fence)
	w.mu.Unlock()
}

// take puts a River job in this node's hand. It reports false if the job is there already.
func (w *worker) take(id int64) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.jobs[id] {
		return false
	}
	w.jobs[id] = true
	return true
}

// jobsInHand lists River's jobs in this node's hand.
func (w *worker) jobsInHand() []int64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.AppendSeq(make([]int64, 0, len(w.jobs)), maps.Keys(w.jobs))
}

// work runs a batch. It returns when each of its tasks has been settled or released, and the River job removed.
func (w *worker) work(job riverJob, holds []hold) {
	if !w.take(job.id) {
		return // its claims are being released: the answer to the fetch took too long
	}
	b := &batch{worker: w, kind: job.kind, tally: w.metrics.of(job.kind)}
	w.metrics.carried(len(holds))
	if variant := w.config.Handlers.Variant(job.kind); variant != nil && variant.Kind != handlers.KindPlain {
		// First, so that no slot is held by a task that waits for a connection.
		b.places = append(b.places, place{slots: w.txSlots, transactions: true})
	}
	b.places = append(b.places, place{slots: w.slots, queue: job.queue})
	runs := b.add(job.queue, holds)
	b.serving.Go(func() { b.serve(runs) })
	b.serving.Wait()
	b.finishJob(job.id)
}

// end has an outcome recorded, and forgets the task when it is. Only the first outcome of a claim counts: recording it may take
// a while, and a row that is edited meanwhile is refused by the gate once more.
func (b *batch) end(r *run, s settlement) {
	if r.ended.Swap(true) {
		return
	}
	b.settler.submit(b.settling, s, func(state settled, err error) {
		if state.Status == string(store.StatusFailed) && s.Outcome == outcomeCompleted { // what it asked for could not be recorded
			s.Outcome = outcomeFailed
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
			if outcome = b.outcomeOf(s); outcome != outcomeLost {
				level, say = slog.LevelInfo, "the outcome was recorded before"
			}
		case !state.Current:
			outcome, say = s.recorded(state), "task was edited or cancelled meanwhile; the outcome does not count"
		case s.Outcome == outcomeFailed:
			level = slog.LevelError
		case s.Outcome == outcomeLost && state.Status == string(store.StatusFailed): // it was the last attempt
			level = slog.LevelError
		case s.Outcome == outcomeRetried || s.Outcome == outcomeExpired || s.Outcome == outcomeLost:
			level = slog.LevelWarn
		case s.Outcome == outcomeCompleted || s.Outcome == outcomeReleased:
			level = slog.LevelDebug
		}
		b.logEnd(r.span(), level, say, s, outcome)
		if state.Settled {
			b.tally.recorded(s.recorded(state))
		}
		final := state.Status == string(store.StatusExpired) || state.Status == string(store.StatusFailed)
		if state.Settled && state.Current && (final || s.Outcome == outcomeLost) {
			b.tally.died(state.Status)
			b.dead.tell(deadOf(s, state))
		}
		b.remove(r)
		b.pending.Done()
	})
}

const outcomeOfSQL = `SELECT outcome::text FROM tasktable.scheduled_task_executions WHERE fence = $1`

// outcomeOf is the outcome that the history has of a claim that was ended before s. It was often this node that ended it:
// the commit of a handler's transaction may have failed for the node and not for the server. Where the history says
// nothing, the claim counts as lost.
func (b *batch) outcomeOf(s settlement) (outcome string) {
	ctx, cancel := context.WithTimeout(b.settling, answerLimit)
	defer cancel()
	if err := b.enginePool.QueryRow(ctx, b.statements.schema.SQL(outcomeOfSQL), s.Fence).Scan(&outcome); err != nil {
		return outcomeLost
	}
	return outcome
}

// drop forgets a task whose fence is lost: there is nothing to settle.
func (b *batch) drop(r *run) {
	if r.ended.Swap(true) {
		return
	}
	b.remove(r)
	b.pending.Done()
}

// changed ends the context of a running handler, if there is a cause, or has a waiting task ask the gate.
func (w *worker) changed(r *run, cause error) {
	if lease := r.running(); lease != nil {
		if cause != nil {
			lease.end(cause)
		}
		return
	}
	select {
	case r.poke <- struct{}{}:
	default: // it has been told already
	}
}

// inHand lists the claims in hand for at least so long.
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

// causeOf is why a handler's context ended, or nil.
func causeOf(ctx context.Context) error {
	if ctx.Err() == nil {
		return nil
	}
	return context.Cause(ctx)
}
