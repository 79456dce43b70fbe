// Package worker runs the tasks that River brings to a node.
package worker

import (
	"context"
	"database/sql"
	"maps"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5/stdlib"

	"github.com/tasktable/tasktable/handlers"
	"github.com/tasktable/tasktable/scheduled/internal/groupcommit"
	"github.com/tasktable/tasktable/scheduled/internal/metrics"
	"github.com/tasktable/tasktable/scheduled/internal/riverjobs"
	"github.com/tasktable/tasktable/scheduled/internal/slots"
	"github.com/tasktable/tasktable/scheduled/internal/taskdb"
	"github.com/tasktable/tasktable/scheduled/internal/tracing"
)

// Worker runs the tasks that River brings to this node. Each task waits until it is due and has a slot, passes the
// gate, runs, and is settled.
type Worker struct {
	config    Config
	sqlDB     *sql.DB // over config.Pool, for HandleSQLTx
	settler   *settler
	Renewer   *leaseRenewer
	publisher *publisher
	gates     *groupcommit.Group[*gateAsk]
	pace      *pace // of the questions to the gate
	doneJobs  *groupcommit.Group[*doneJob]
	Averages  *averages
	tracing   *tracing.Tracing
	Slots     *slots.Slots
	typeSlots *slots.Slots // of the types with a limit
	txSlots   *slots.Slots // places of transactional handlers
	hung      *hung

	handlers     context.Context // ends when the node fences itself or interrupts its handlers; its cause is the reason
	endHandlers  context.CancelCauseFunc
	settling     context.Context // ends when the node gives up recording outcomes
	endSettling  context.CancelFunc
	stopping     chan struct{} // closed when nothing new may start any more
	stopStarting func()        // closes it
	services     sync.WaitGroup
	releasing    sync.WaitGroup // jobs that are being released

	mu   sync.Mutex
	runs map[int64]*Run // by fence
	jobs map[int64]bool // ids of River's jobs that this node holds
}

// New makes a worker. It runs tasks from Start on. The contexts of handlers have the values of ctx. They do not end
// with ctx, because a graceful stop lets handlers end.
func New(ctx context.Context, config Config) *Worker {
	w := &Worker{
		config: config, sqlDB: stdlib.OpenDBFromPool(config.Pool), settler: newSettler(config),
		pace: newPace(), Averages: &averages{},
		doneJobs: groupcommit.New(groupcommit.Config[*doneJob]{Most: maxDoneJobs, Room: groupRoom}),
		tracing:  tracing.New(config.Tracer, config.Number), Slots: slots.New(config.Slots, config.ShareSlots),
		typeSlots: slots.New(config.TypeSlots, false),
		txSlots:   slots.New(map[string]int{"": config.Places}, false), stopping: make(chan struct{}), hung: newHung(),
		runs: map[int64]*Run{}, jobs: map[int64]bool{},
	}
	w.gates = groupcommit.New(groupcommit.Config[*gateAsk]{
		Most: maxGateAsks, Room: groupRoom, Weight: (*gateAsk).weight, Limit: w.pace.limit,
	})
	w.Renewer = &leaseRenewer{worker: w}
	w.publisher = &publisher{config: config, averages: w.Averages, hung: w.Hung}
	w.handlers, w.endHandlers = context.WithCancelCause(context.WithoutCancel(ctx))
	w.settling, w.endSettling = context.WithCancel(context.WithoutCancel(ctx))
	w.stopStarting = sync.OnceFunc(func() { close(w.stopping) })
	return w
}

// Start begins the worker's own loops. The loops that record outcomes go on until Finish, and the others until ctx, the
// session's context, is done.
func (w *Worker) Start(ctx context.Context) {
	w.settler.start(w.settling)
	for range groupRuns {
		w.services.Go(func() { w.gates.Run(w.settling, w.answerGates) })
	}
	w.services.Go(func() { w.doneJobs.Run(w.settling, w.removeJobs) })
	w.services.Go(func() { w.Renewer.run(ctx) })
	w.services.Go(func() { w.publisher.run(ctx) })
}

// Halt starts nothing new any more, and hands back the claims that wait.
func (w *Worker) Halt() { w.stopStarting() }

// Interrupt ends the contexts of the running handlers, for the given reason.
func (w *Worker) Interrupt(cause error) { w.endHandlers(cause) }

// Finish ends the recording of outcomes. It returns when nothing is being recorded any more.
func (w *Worker) Finish() {
	w.endSettling()
	w.settler.wait()
}

// AwaitEnd returns when all loops have ended. Call it after Finish, when the context of Start is done.
func (w *Worker) AwaitEnd() {
	w.services.Wait()
	w.releasing.Wait()
	w.endHandlers(nil)
	_ = w.sqlDB.Close()
}

// Recheck checks the claim with this fence, because its row has changed.
func (w *Worker) Recheck(ctx context.Context, fence string) {
	if number, err := strconv.ParseInt(fence, 10, 64); err == nil {
		w.Renewer.one(ctx, number)
	}
}

// RecheckAll checks all claims in hand, because changes may have been missed.
func (w *Worker) RecheckAll(ctx context.Context) { w.Renewer.runOnce(ctx) }

// Measured returns, by type, how long handlers run on average, for the types that have run often enough.
func (w *Worker) Measured() map[string]time.Duration { return w.Averages.measured() }

// Count is how many claims the node has in hand: running, or waiting for their time or a slot.
func (w *Worker) Count() int { return len(w.InHand(0)) }

// Usage returns the usage of the slots of each queue, of those of each type with a limit, and of the places of
// transactional handlers.
func (w *Worker) Usage() (slots, types map[string]metrics.Usage, places metrics.Usage) {
	return w.Slots.Usage(), w.typeSlots.Usage(), w.txSlots.Usage()[""]
}

// Run is a claim that this node holds.
type Run struct {
	taskdb.Claim
	batch *batch
	place int // in the job
	queue string
	poke  chan struct{} // says that the row has changed, so that the task asks the gate before it is due
	Since time.Time     // when the node got the claim

	notBefore time.Time // if the gate found it early: when it is due, by this process's clock
	payload   *string   // from the gate's last answer, if that answer came too late to start with it

	returned bool // the handler has returned; guarded by hung.mu

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
func (r *Run) begins(lease *leaseContext, e *handlers.Execution) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.lease, r.execution, r.startedAt = lease, e, e.StartedAt
}

// restarts notes that the attempt begins later than the first answer of the gate said, because it waited for its
// transaction.
func (r *Run) restarts(e *handlers.Execution, at time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	e.StartedAt, r.startedAt = at, at
}

// running is the context of the running handler, or nil while the task waits.
func (r *Run) running() *leaseContext {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.lease
}

// Begun reports whether the attempt has begun. Its handler may still wait for its transaction.
func (r *Run) Begun() bool { return r.running() != nil }

// span returns a context with the span of the attempt, for the log. Before the attempt begins, the context has no
// span.
func (r *Run) span() context.Context {
	if lease := r.running(); lease != nil {
		return lease
	}
	return context.Background()
}

func (b *batch) add(queue string, holds []taskdb.Claim) []*Run {
	w, runs := b.Worker, make([]*Run, len(holds))
	w.mu.Lock()
	defer w.mu.Unlock()
	for i, h := range holds {
		now := time.Now()
		b.pending.Add(1)
		runs[i] = &Run{
			Claim: h,
			batch: b,
			place: i,
			queue: queue,
			poke:  make(chan struct{}, 1),
			Since: now,
			// Counted from the due time, because the claim's lease is, too.
			renewed: now.Add(max(w.config.Clock.Until(h.Due), 0)),
		}
		w.runs[h.Fence] = runs[i]
	}
	return runs
}

// forget removes a claim that is over.
func (b *batch) forget(r *Run) {
	b.remove(r)
	if b.window != nil {
		b.window.ends(r.place)
	}
	b.pending.Done()
}

func (w *Worker) remove(r *Run) {
	w.mu.Lock()
	delete(w.runs, r.Fence)
	w.mu.Unlock()
}

// take notes that this node holds a River job. It reports false if the job is noted already.
func (w *Worker) take(id int64) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.jobs[id] {
		return false
	}
	w.jobs[id] = true
	return true
}

// JobsInHand lists River's jobs that this node holds.
func (w *Worker) JobsInHand() []int64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.AppendSeq(make([]int64, 0, len(w.jobs)), maps.Keys(w.jobs))
}

// Work runs a batch. It returns when each of its tasks has been settled or released, and the River job removed, or when
// the node gives up recording outcomes.
func (w *Worker) Work(job riverjobs.Job, holds []taskdb.Claim) {
	if !w.take(job.ID) {
		return // the node is releasing the claims of this job, because the answer to the fetch took too long
	}
	b := &batch{Worker: w, kind: job.Kind, tally: w.config.Metrics.Of(job.Kind), job: job.ID}
	if job.Window > 0 && len(holds) > job.Window {
		b.window = newWindow(job.Window, len(holds))
	}
	w.config.Metrics.JobTasks.Observe(float64(len(holds)))
	// The slot of the queue comes last, so that no task holds one while it waits for something else.
	if w.config.TypeSlots[job.Kind] > 0 {
		b.places = append(b.places, slots.Place{Slots: w.typeSlots, Queue: job.Kind, What: "a slot of its type"})
	}
	if w.isTx(job.Kind) {
		b.places = append(b.places, slots.Place{Slots: w.txSlots, What: "a connection for its transaction"})
	}
	b.places = append(b.places, slots.Place{Slots: w.Slots, Queue: job.Queue, What: "a slot"})
	runs := b.add(job.Queue, holds)
	b.serving.Go(func() { b.serve(runs) })
	b.serving.Wait()
	b.finishJob(job.ID)
}

// changed reacts to a change of a row. If the handler runs and there is a cause, it ends the handler's context. If
// the task still waits, it makes the task ask the gate.
func (w *Worker) changed(r *Run, cause error) {
	if lease := r.running(); lease != nil {
		if cause != nil {
			lease.cancel(cause)
		}
		return
	}
	select {
	case r.poke <- struct{}{}:
	default: // the task knows already
	}
}

// InHand lists the claims that this node has held for at least this long.
func (w *Worker) InHand(least time.Duration) []*Run {
	w.mu.Lock()
	defer w.mu.Unlock()
	var found []*Run
	for _, r := range w.runs {
		if time.Since(r.Since) >= least {
			found = append(found, r)
		}
	}
	return found
}

func (w *Worker) byFence(fence int64) *Run {
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
