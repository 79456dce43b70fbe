package scheduled

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/riverqueue/river"

	"github.com/tasktable/tasktable/handlers"
	"github.com/tasktable/tasktable/scheduled/internal/taskdb"
)

// instance is the time of a node from getting its number until it loses or gives up its session. A process whose
// session ends begins another instance with a new number, because the old number may have been declared dead.
type instance struct {
	config     Config
	statements taskdb.Queries
	session    *session
	leader     *leader
	worker     *worker
	settler    *settler
	renewer    *leaseRenewer
	dead       *failureNotifier
	retention  *retention
	declarer   *declarer
	zoneWatch  *zoneWatch
	tableStats *tableStats
	publisher  *publisher
	abandoned  *abandoned
	metrics    *metrics
	river      *river.Client[pgx.Tx]
	pool       *pgxpool.Pool // the engine's own, which River uses, too
	log        *slog.Logger
	health     *healthState
	quiet      *quiet

	wake  chan struct{} // look now, because a task is due
	deep  chan struct{} // tick now, because a deep look has ended
	freed chan struct{} // if there was no room, look now, because there may be room

	// Goroutines that may outlast the life. On a dead link River takes some time to stop, and a pool to close.
	closing *sync.WaitGroup

	progress progress // whether passes succeed; for the goroutine that owns the session
}

var (
	// errFenced ends a life whose session did not answer in time.
	errFenced = errors.New("the session did not answer in time")
	// errSilentPool ends a life whose pool does not answer. Such a life can neither start tasks nor record outcomes,
	// although its session lives.
	errSilentPool = fmt.Errorf("the engine's pool has not answered for %s", poolSilent)
)

// graceAfterInterrupt is how long a stop waits until interrupted handlers have returned and their outcomes are
// recorded. Then it goes on without them.
const graceAfterInterrupt = 5 * time.Second

// beginWithin bounds each try to begin. After it the node tries again.
const beginWithin = 10 * time.Second

// begin connects, registers the node and prepares its parts.
func (n *Node) begin(ctx context.Context, previousBackend uint32) (*instance, error) {
	ctx, cancel := context.WithTimeout(ctx, beginWithin) // a server that is cut off does not even refuse a connection
	defer cancel()
	clock := newClock()
	session, err := openSession(ctx, n.config, clock, previousBackend)
	if err != nil {
		return nil, err
	}
	l := &instance{
		config: n.config, statements: n.statements, metrics: n.metrics, health: n.vitals, quiet: n.quiet,
		session: session, closing: &sync.WaitGroup{},
		wake: make(chan struct{}, 1), deep: make(chan struct{}, 1), freed: make(chan struct{}, 1),
	}
	if err := l.prepare(ctx, clock); err != nil {
		session.close(context.WithoutCancel(ctx))
		if l.pool != nil {
			l.pool.Close()
		}
		return nil, err
	}
	return l, nil
}

func (l *instance) prepare(ctx context.Context, clock *clock) (err error) {
	if err := l.session.register(ctx, l.config, l.statements, l.quiet.on()); err != nil {
		return err
	}
	if err := l.session.ping(ctx); err != nil { // gets the database's clock before anything is timed by it
		return err
	}
	if l.pool, err = enginePool(ctx, l.config, l.session.conn.Config()); err != nil {
		return err
	}
	l.log = l.config.Logger.With("node", l.session.number)
	l.settler = newSettler(l.pool, l.statements, l.session.number, l.config.Service, l.log, l.dueSoon)
	l.settler.metrics, l.settler.heard = l.metrics, l.heard
	working, _ := l.config.works()
	l.worker = &worker{
		config: l.config, statements: l.statements, enginePool: l.pool, settler: l.settler, metrics: l.metrics,
		clock: clock, averages: &averages{}, log: l.log, quiet: l.quiet,
		gates: newGroup(maxGateAsks, (*gateAsk).weight), doneJobs: newGroup[*doneJob](1000, nil),
		alive: l.session.alive, freed: func() { tell(l.freed) }, heard: l.heard,
		slots: newSlots(working, l.config.ShareSlots), stopping: make(chan struct{}),
		runs: map[int64]*run{}, jobs: map[int64]bool{},
		txSlots: newSlots(map[string]int{"": l.config.places()}, false),
	}
	l.worker.tracing = newTracing(l.config.Tracer, l.session.number)
	l.worker.pace = newPace()
	l.worker.gates.limit = l.worker.pace.limit
	l.renewer = &leaseRenewer{worker: l.worker, vitals: l.health}
	l.dead = newFailureNotifier(l.config.OnDead, l.config.OnLost, l.log)
	l.worker.dead = l.dead
	l.retention = &retention{
		pool: l.pool, statements: l.statements, config: l.config, node: l.session.number,
		leads: l.session.leading.Load, log: l.log,
	}
	l.declarer = &declarer{
		pool: l.pool, statements: l.statements, service: l.config.Service,
		declared: l.config.Recurring, codec: l.config.Codec, hash: declarationHash(l.config.Recurring),
		every: cmp.Or(l.config.declareEvery, declareEvery), log: l.log,
	}
	l.zoneWatch = &zoneWatch{
		pool: l.pool, statements: l.statements, node: l.session.number, leads: l.session.leading.Load,
		every: cmp.Or(l.config.zonesEvery, zonesEvery), log: l.log,
	}
	l.tableStats = &tableStats{
		pool: l.pool, statements: l.statements, metrics: l.metrics,
		every: cmp.Or(l.config.censusEvery, censusEvery), leads: l.session.leading.Load, log: l.log,
	}
	l.abandoned = &abandoned{
		pool: l.pool, statements: l.statements, leads: l.session.leading.Load,
		after: cmp.Or(l.config.abandonedAfter, abandonedAfter), within: abandonedWithin,
		metrics: l.metrics, dead: l.dead, log: l.log,
	}
	l.publisher = &publisher{
		pool: l.pool, statements: l.statements, number: l.session.number, averages: l.worker.averages, log: l.log,
	}
	l.river, err = newRiver(
		l.config, l.pool, l.statements, l.session.number, clock, l.quiet, l.heard, l.worker.work, l.metrics.hooks()...,
	)
	if err != nil {
		return err
	}
	l.leader = newLeader(l.session, l.statements, l.config, l.river, l.worker.averages)
	l.leader.dead, l.leader.metrics = l.dead, l.metrics
	l.leader.deep = &deepLook{pool: l.pool, statements: l.statements, log: l.log, told: func() { tell(l.deep) }}
	return nil
}

// tell sends one signal. Further calls have no effect until somebody has received it.
func tell(channel chan struct{}) {
	select {
	case channel <- struct{}{}:
	default:
	}
}

// dueSoon tells the node that leads that a task is due again at once.
func (l *instance) dueSoon() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	if _, err := l.pool.Exec(ctx, "SELECT pg_notify($1, '')", l.statements.Schema.String()+".wake"); err != nil {
		l.log.Debug("leader could not be notified; it looks within a second anyway", "error", err)
	}
}

// run works until ctx is done, then stops gracefully and returns nil. If the session is lost before that, run returns
// why.
func (l *instance) run(ctx context.Context) error {
	// None of these ends with ctx: a graceful stop still needs the session, the settler and the handlers' contexts.
	detached := context.WithoutCancel(ctx)
	sessionCtx, endSession := context.WithCancelCause(detached)
	handlersCtx, endHandlers := context.WithCancelCause(detached)
	settlingCtx, endSettling := context.WithCancel(detached)
	defer endSession(nil)
	defer endHandlers(nil)
	l.worker.handlers, l.worker.settling = handlersCtx, settlingCtx
	l.worker.sqlDB = stdlib.OpenDBFromPool(l.config.Pool)
	defer func() { _ = l.worker.sqlDB.Close() }()

	l.health.hears(nil) // the time without an answer counts from now on
	l.metrics.begun(l)
	defer l.metrics.ended()

	var services sync.WaitGroup
	l.settler.start(settlingCtx)
	for range groupRuns {
		services.Go(func() { l.worker.gates.run(settlingCtx, l.worker.answerGates) })
	}
	services.Go(func() { l.worker.doneJobs.run(settlingCtx, l.worker.removeJobs) })
	services.Go(func() { l.renewer.run(sessionCtx) })
	services.Go(func() { l.dead.run(settlingCtx) })
	services.Go(func() { l.retention.run(sessionCtx) })
	services.Go(func() { l.declarer.run(sessionCtx) })
	services.Go(func() { l.zoneWatch.run(sessionCtx) })
	services.Go(func() { l.tableStats.run(sessionCtx) })
	services.Go(func() { l.publisher.run(sessionCtx) })
	services.Go(func() { l.abandoned.run(sessionCtx) })
	services.Go(func() { l.listener().run(sessionCtx) })
	services.Go(func() { l.watch(sessionCtx, endSession) })
	stopLeading := make(chan struct{})
	services.Go(func() { endSession(l.lead(sessionCtx, stopLeading)) })

	var lost error
	if err := l.river.Start(detached); err != nil {
		lost = fmt.Errorf("start River: %w", err)
		endSession(lost)
	} else {
		l.health.begins()
		l.log.Info("node is up", "service", l.config.Service, "queues", l.config.Queues,
			"transactions", l.config.places(), "types", l.config.Handlers.Types())
	}
	select {
	case <-ctx.Done():
		l.log.Info("node stops", "running", len(l.worker.inHand(0)))
		close(stopLeading)
	case <-sessionCtx.Done():
		lost = context.Cause(sessionCtx)
		l.health.loses()
		l.log.Error("session lost; handlers are stopped", "error", lost)
		endHandlers(handlers.ErrLeaseLost)
	}
	clean, riverStopped := l.stop(sessionCtx, endHandlers)
	endSettling()
	l.settler.wait()
	if clean && lost == nil {
		l.farewell(detached)
	}
	endSession(nil)
	services.Wait()
	l.worker.releasing.Wait()
	l.session.close(detached)
	if riverStopped {
		l.pool.Close()
	} else {
		// Close waits for connections in use: by a handler that goes on, or by River on a dead link.
		l.closing.Go(l.pool.Close)
	}
	l.log.Info("node is down", "clean", clean && lost == nil)
	return lost
}

// farewell marks the node as gone, because it has no tasks left that the leader would have to take back. It uses the
// pool, because the session may be in the middle of a statement. If it fails, the leader finds out by itself.
func (l *instance) farewell(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, closeWithin)
	defer cancel()
	_, err := l.pool.Exec(ctx, l.statements.Schema.SQL(farewellSQL), l.session.number)
	if err != nil && ctx.Err() == nil {
		l.pool.Reset() // its idle connections may have been cut, but a new one may work
		_, err = l.pool.Exec(ctx, l.statements.Schema.SQL(farewellSQL), l.session.number)
	}
	if err != nil {
		l.log.Warn("node could not mark itself as gone; the leader will do it", "error", err)
	}
}

// stop ends the work. Nothing new starts, and claims that wait are handed back. Running handlers get ShutdownTimeout
// to end, and are then interrupted. stop reports whether everything was settled, and whether River has stopped, which
// takes some time on a dead link.
func (l *instance) stop(sessionCtx context.Context, endHandlers context.CancelCauseFunc) (clean, riverStopped bool) {
	close(l.worker.stopping)
	stopped := make(chan struct{})
	l.closing.Go(func() {
		defer close(stopped)
		ctx, cancel := context.WithTimeout(
			context.WithoutCancel(sessionCtx), l.config.ShutdownTimeout+2*graceAfterInterrupt)
		defer cancel()
		if err := l.river.Stop(ctx); err != nil {
			l.log.Warn("River did not stop in time", "error", err)
		}
	})
	interrupt := time.NewTimer(max(l.config.ShutdownTimeout, 0))
	defer interrupt.Stop()
	select {
	case <-stopped:
		return len(l.worker.inHand(0)) == 0, true
	case <-sessionCtx.Done(): // the session is lost, so the handlers' contexts end
		endHandlers(handlers.ErrLeaseLost)
	case <-interrupt.C:
		l.log.Warn("handlers are interrupted", "running", len(l.worker.inHand(0)))
		endHandlers(handlers.ErrInterrupted)
	}
	if sessionCtx.Err() != nil && len(l.worker.inHand(0)) == 0 {
		// Unless the link is dead, the connections of this life are closed before the next life opens its own.
		select {
		case <-stopped:
			return true, true
		case <-time.After(closeWithin):
			return true, false
		}
	}
	grace := time.NewTimer(graceAfterInterrupt)
	defer grace.Stop()
	select {
	case <-stopped:
		riverStopped = true
	case <-grace.C:
		l.log.Error("not all work ended in time: a handler ignores its context, or the database does not answer",
			"left", len(l.worker.inHand(0)))
	}
	return len(l.worker.inHand(0)) == 0, riverStopped
}

// watch ends the life of a node whose session has not answered for too long. Other nodes may declare such a node
// dead, and its handlers must end before that. watch also notices that the process was stopped for a while. A node
// whose pool does not answer must begin again, too, because it would lead and claim, but run nothing.
func (l *instance) watch(ctx context.Context, end context.CancelCauseFunc) {
	ticker := time.NewTicker(200 * time.Millisecond)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			if !l.session.alive() {
				end(errFenced)
				return
			}
			if l.health.silence() > poolSilent {
				end(errSilentPool)
				return
			}
		}
	}
}

func (l *instance) listener() *listener {
	return &listener{
		connect: l.config.Connect, statements: l.statements, log: l.log,
		wake:       func() { tell(l.wake) },
		held:       l.renewer.one,
		dead:       func(text string) { l.dead.heard(l.session.number, text) },
		listening:  l.health.listens,
		relistened: func(ctx context.Context) { tell(l.wake); l.renewer.runOnce(ctx) },
	}
}
