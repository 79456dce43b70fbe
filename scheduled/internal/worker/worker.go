// Package worker runs the tasks that River brings to a node.
package worker

import (
	"context"
	"database/sql"
	"sync"
	"time"

	"github.com/jackc/pgx/v5/stdlib"

	"github.com/tasktable/tasktable/scheduled/internal/groupcommit"
	"github.com/tasktable/tasktable/scheduled/internal/loop"
	"github.com/tasktable/tasktable/scheduled/internal/metrics"
	"github.com/tasktable/tasktable/scheduled/internal/pg"
	"github.com/tasktable/tasktable/scheduled/internal/slots"
	"github.com/tasktable/tasktable/scheduled/internal/tracing"
)

// Worker runs the tasks that River brings to this node. Each task waits until it is due and has a slot, passes the
// gate, runs, and is settled.
type Worker struct {
	config    Config
	sqlDB     *sql.DB // over config.Pool, for HandleSQLTx
	settler   *settler
	gates     *groupcommit.Group[*gateAsk] // answered by answerGates
	gateSize  *pg.Size                     // how much a read of the gate weighs
	trip      roundTrip
	doneJobs  *groupcommit.Group[int64] // by the ids of River jobs
	averages  averages
	published published // for publish alone
	tracing   *tracing.Tracing
	slots     *slots.Slots
	typeSlots *slots.Slots // of the types with a limit
	txSlots   *slots.Slots // places of transactional handlers

	handlers     context.Context // ends when the node fences itself or interrupts its handlers; its cause is the reason
	endHandlers  context.CancelCauseFunc
	settling     context.Context // ends when the node gives up recording outcomes
	endSettling  context.CancelFunc
	starting     context.Context // ends when nothing new may start any more; its cause is the reason
	stopStarting context.CancelCauseFunc
	services     sync.WaitGroup
	releasing    sync.WaitGroup // jobs that are being released

	mu   sync.Mutex
	runs map[int64]*run // by fence
	jobs map[int64]bool // ids of River's jobs that this node holds
	// The handlers that have not returned although their claims are over, and since when they are over.
	overrunning map[*run]time.Time
}

// New makes a worker. It runs tasks from Start on. The contexts of handlers have the values of ctx. They do not end
// with ctx, because a graceful stop lets handlers end.
func New(ctx context.Context, config Config) *Worker {
	w := &Worker{
		config: config, sqlDB: stdlib.OpenDBFromPool(config.Pool), settler: newSettler(config),
		gateSize: pg.NewSize(1, maxGateAsks), published: published{hung: "{}"},
		tracing:   tracing.New(config.Tracer, config.Number),
		slots:     slots.New(config.Slots, config.ShareSlots, config.StrictQueues...),
		typeSlots: slots.New(config.TypeSlots, false),
		txSlots:   slots.New(map[string]int{"": config.Places}, false),
		runs:      map[int64]*run{}, jobs: map[int64]bool{}, overrunning: map[*run]time.Time{},
	}
	w.gates = groupcommit.New(groupcommit.Config[*gateAsk]{
		Commit: w.answerGates, Room: groupRoom, Weight: (*gateAsk).weight, Limit: w.gateSize.Now,
	})
	w.doneJobs = groupcommit.New(groupcommit.Config[int64]{
		Commit: w.removeJobs, Room: groupRoom, Limit: func() int { return maxDoneJobs },
	})
	w.handlers, w.endHandlers = context.WithCancelCause(context.WithoutCancel(ctx))
	w.settling, w.endSettling = context.WithCancel(context.WithoutCancel(ctx))
	w.starting, w.stopStarting = context.WithCancelCause(context.WithoutCancel(ctx))
	return w
}

// Start begins the worker's own loops. The loops that record outcomes go on until Finish, and the others until ctx, the
// session's context, is done.
func (w *Worker) Start(ctx context.Context) {
	w.settler.start(w.settling)
	for range groupRuns {
		w.services.Go(func() { w.gates.Run(w.settling) })
	}
	w.services.Go(func() { w.doneJobs.Run(w.settling) })
	w.services.Go(func() { w.checkLoop(ctx) })
	w.services.Go(func() {
		loop.Repeat(ctx, writableEvery, func() time.Duration { return w.askPool(ctx) })
	})
	w.services.Go(func() { w.publishLoop(ctx) })
}

// Halt starts nothing new any more, and hands back the claims that wait, for the given reason.
func (w *Worker) Halt(cause error) { w.stopStarting(cause) }

// Interrupt ends the contexts of the running handlers, for the given reason.
func (w *Worker) Interrupt(cause error) { w.endHandlers(cause) }

// Finish ends the recording of outcomes. It returns when nothing is being recorded any more.
func (w *Worker) Finish() {
	w.endSettling()
	w.settler.wg.Wait()
}

// AwaitEnd returns when all loops have ended. Call it after Finish, when the context of Start is done.
func (w *Worker) AwaitEnd() {
	w.services.Wait()
	w.releasing.Wait()
	w.endHandlers(nil)
	_ = w.sqlDB.Close()
}

// Measured returns, by type, how long handlers run on average, for the types that have run often enough.
func (w *Worker) Measured() map[string]time.Duration { return w.averages.measured() }

// Count is how many claims the node has in hand: running, or waiting for their time or a slot.
func (w *Worker) Count() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.runs)
}

// Usage returns the usage of the slots of each queue, of those of each type with a limit, and of the places of
// transactional handlers.
func (w *Worker) Usage() (slots, types map[string]metrics.Usage, places metrics.Usage) {
	return w.slots.Usage(), w.typeSlots.Usage(), w.txSlots.Usage()[""]
}
