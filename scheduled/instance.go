package scheduled

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river"

	"github.com/tasktable/tasktable/handlers"
	"github.com/tasktable/tasktable/scheduled/internal/failures"
	"github.com/tasktable/tasktable/scheduled/internal/leader"
	"github.com/tasktable/tasktable/scheduled/internal/maintenance"
	"github.com/tasktable/tasktable/scheduled/internal/metrics"
	"github.com/tasktable/tasktable/scheduled/internal/quiet"
	"github.com/tasktable/tasktable/scheduled/internal/riverjobs"
	"github.com/tasktable/tasktable/scheduled/internal/session"
	"github.com/tasktable/tasktable/scheduled/internal/taskdb"
	"github.com/tasktable/tasktable/scheduled/internal/worker"
)

// instance is one life of a node. It begins when the node gets its number, and ends when the node loses or gives up its
// session. A process whose session ends begins another instance with a new number, because the old number may have been
// declared dead.
type instance struct {
	config     Config
	statements taskdb.Queries
	session    *session.Session
	leader     *leader.Leader
	worker     *worker.Worker
	dead       *failures.Notifier
	retention  *maintenance.Retention
	declarer   *maintenance.Declarer
	zoneWatch  *maintenance.ZoneWatch
	tableStats *metrics.TableStats
	abandoned  *maintenance.Abandoned
	metrics    *metrics.Metrics
	river      *river.Client[pgx.Tx]
	pool       *pgxpool.Pool // the engine's own, which River uses, too
	log        *slog.Logger
	health     *healthState
	quiet      *quiet.Switch

	// Goroutines that may outlast the instance. On a dead link, River takes some time to stop, and so does a pool to
	// close.
	closing *sync.WaitGroup
}

var (
	// errFenced ends an instance whose session did not answer in time.
	errFenced = errors.New("the session did not answer in time")
	// errSilentPool ends an instance whose pool does not answer. Such an instance can neither start tasks nor record
	// outcomes, although its session lives.
	errSilentPool = fmt.Errorf("the engine's pool has not answered for %s", poolSilent)
)

// graceAfterInterrupt is how long a stop waits until interrupted handlers have returned and their outcomes are
// recorded. Then it goes on without them.
const graceAfterInterrupt = 5 * time.Second

// beginWithin bounds each try to begin. After the first success, the node tries again when a try fails.
const beginWithin = 10 * time.Second

// begin connects, registers the node and makes its parts. previousBackend is the backend of the previous instance's
// session. closing counts goroutines that may outlast the instance.
func (n *Node) begin(ctx context.Context, previousBackend uint32, closing *sync.WaitGroup) (*instance, error) {
	ctx, cancel := context.WithTimeout(ctx, beginWithin) // a server that is cut off does not even refuse a connection
	defer cancel()
	node, err := n.config.registration(n.quiet.On())
	if err != nil {
		return nil, err
	}
	session, err := session.Open(ctx, session.Config{
		Connect: n.config.Connect, Schema: n.statements.Schema, Node: node, Previous: previousBackend,
	})
	if err != nil {
		return nil, err
	}
	l := &instance{
		config: n.config, statements: n.statements, metrics: n.metrics, health: n.vitals, quiet: n.quiet,
		session: session, closing: closing,
	}
	if err := l.prepare(ctx); err != nil {
		session.Close(context.WithoutCancel(ctx))
		if l.worker != nil {
			l.worker.Finish()
			l.worker.AwaitEnd()
		}
		if l.pool != nil {
			l.pool.Close()
		}
		return nil, err
	}
	return l, nil
}

func (l *instance) prepare(ctx context.Context) (err error) {
	pool := session.PoolConfig{Settings: l.config.Pool.Config(), Conns: l.config.EngineConns}
	if l.config.directConnect {
		pool.Connect, pool.Direct = l.config.Connect, l.session.Conn.Config()
	}
	if l.pool, err = session.NewPool(ctx, pool); err != nil {
		return err
	}
	l.log = l.config.Logger.With("node", l.session.Number)
	l.dead = newFailureNotifier(l.config, l.log)
	working, types := l.config.works()
	l.worker = worker.New(ctx, worker.Config{
		EnginePool: l.pool, Pool: l.config.Pool, Statements: l.statements, Number: l.session.Number,
		Service: l.config.Service, Handlers: l.config.Handlers, Slots: working, ShareSlots: l.config.ShareSlots,
		Places: l.config.places(), StartAllowance: l.config.StartAllowance, Backoff: l.config.Backoff,
		Codec: l.config.Codec, LogErrors: l.config.logsErrors(), Tracer: l.config.Tracer, Clock: l.session.Clock,
		Quiet: l.quiet, Failures: l.dead, Metrics: l.metrics, Log: l.log, Alive: l.session.Alive,
		Freed: func() { l.leader.Freed() }, DueSoon: l.dueSoon, Heard: l.heard, Answered: l.health.answers,
	})
	l.retention = maintenance.NewRetention(maintenance.RetentionConfig{
		Pool: l.pool, Statements: l.statements, Node: l.session.Number,
		Period: l.config.Retention, ByType: l.config.RetentionByType, Leads: l.session.LeadsNow, Log: l.log,
	})
	l.declarer = maintenance.NewDeclarer(maintenance.DeclarerConfig{
		Pool: l.pool, Statements: l.statements, Service: l.config.Service,
		Declared: l.config.Recurring, Codec: l.config.Codec, Every: l.config.declareEvery, Log: l.log,
	})
	l.zoneWatch = maintenance.NewZoneWatch(maintenance.ZoneWatchConfig{
		Pool: l.pool, Statements: l.statements, Node: l.session.Number, Leads: l.session.LeadsNow,
		Every: l.config.zonesEvery, Log: l.log,
	})
	l.tableStats = metrics.NewTableStats(metrics.TableStatsConfig{
		Pool: l.pool, Statements: l.statements, Metrics: l.metrics,
		Every: l.config.censusEvery, Leads: l.session.LeadsNow, Log: l.log,
	})
	l.abandoned = maintenance.NewAbandoned(maintenance.AbandonedConfig{
		Pool: l.pool, Statements: l.statements, Leads: l.session.LeadsNow, After: l.config.abandonedAfter,
		Metrics: l.metrics, Failures: l.dead, Log: l.log,
	})
	l.river, err = riverjobs.NewClient(riverjobs.ClientConfig{
		Pool: l.pool, Statements: l.statements, Number: l.session.Number, Clock: l.session.Clock,
		Slots: l.config.workingSlots(), Types: types, LookAhead: l.config.LookAhead, Quiet: l.quiet.On,
		Heard: l.heard, Hooks: l.metrics.Hooks(), Logger: l.config.Logger, Log: l.log, Work: l.worker.Work,
	})
	if err != nil {
		return err
	}
	l.leader = leader.New(leader.Config{
		Session: l.session, Pool: l.pool, Statements: l.statements, River: l.river,
		PollInterval: l.config.PollInterval, LookAhead: l.config.LookAhead, StartAllowance: l.config.StartAllowance,
		Quiet: l.quiet, Failures: l.dead, Metrics: l.metrics, Log: l.log,
		Registration: l.config.registration, Averages: l.worker.Measured, Hears: l.config.hears,
		InHand: l.worker.Count, Turned: l.health.turns,
	})
	return nil
}

// state is the node's state for the metrics.
func (l *instance) state() metrics.NodeState {
	slots, places := l.worker.Usage()
	return metrics.NodeState{
		Number: l.session.Number, Leads: l.session.LeadsNow(), AnswerAge: l.session.Unanswered(),
		Slots: slots, Places: places, InHand: l.worker.Count(),
		Pools: map[string]*pgxpool.Pool{"engine": l.pool, "handlers": l.config.Pool},
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
	// The session does not end with ctx, because a graceful stop still needs it.
	detached := context.WithoutCancel(ctx)
	sessionCtx, endSession := context.WithCancelCause(detached)
	defer endSession(nil)

	l.health.hears(nil) // the time without an answer counts from now on
	l.metrics.Begun(l.state)
	defer l.metrics.Ended()

	var services sync.WaitGroup
	notifying, endNotifying := context.WithCancel(detached) // ended only after all outcomes are recorded
	defer endNotifying()
	l.worker.Start(sessionCtx)
	services.Go(func() { l.dead.Run(notifying) })
	services.Go(func() { l.retention.Run(sessionCtx) })
	services.Go(func() { l.declarer.Run(sessionCtx) })
	services.Go(func() { l.zoneWatch.Run(sessionCtx) })
	services.Go(func() { l.tableStats.Run(sessionCtx) })
	services.Go(func() { l.abandoned.Run(sessionCtx) })
	services.Go(func() { l.listener().Run(sessionCtx) })
	services.Go(func() { l.watch(sessionCtx, endSession) })
	stopLeading := make(chan struct{})
	services.Go(func() { endSession(l.leader.Run(sessionCtx, stopLeading)) })

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
		l.log.Info("node stops", "running", l.worker.Count())
		close(stopLeading)
	case <-sessionCtx.Done():
		lost = context.Cause(sessionCtx)
		l.health.loses()
		l.log.Error("session lost; handlers are stopped", "error", lost)
		l.worker.Interrupt(handlers.ErrLeaseLost)
	}
	clean, riverStopped := l.stop(sessionCtx)
	l.worker.Finish()
	endNotifying()
	if clean && lost == nil {
		l.farewell(detached)
	}
	endSession(nil)
	services.Wait()
	l.worker.AwaitEnd()
	l.session.Close(detached)
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
	ctx, cancel := context.WithTimeout(ctx, session.CloseLimit)
	defer cancel()
	_, err := l.pool.Exec(ctx, l.statements.Schema.SQL(taskdb.FarewellSQL), l.session.Number)
	if err != nil && ctx.Err() == nil {
		l.pool.Reset() // its idle connections may have been cut, but a new one may work
		_, err = l.pool.Exec(ctx, l.statements.Schema.SQL(taskdb.FarewellSQL), l.session.Number)
	}
	if err != nil {
		l.log.Warn("node could not mark itself as gone; the leader will do it", "error", err)
	}
}

// stop ends the work. Nothing new starts, and claims that wait are handed back. Running handlers get ShutdownTimeout
// to end, and are then interrupted. stop reports whether everything was settled, and whether River has stopped, which
// takes some time on a dead link.
func (l *instance) stop(sessionCtx context.Context) (clean, riverStopped bool) {
	l.worker.Halt()
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
		return l.worker.Count() == 0, true
	case <-sessionCtx.Done(): // the session is lost, so the handlers' contexts end
		l.worker.Interrupt(handlers.ErrLeaseLost)
	case <-interrupt.C:
		l.log.Warn("handlers are interrupted", "running", l.worker.Count())
		l.worker.Interrupt(handlers.ErrInterrupted)
	}
	if sessionCtx.Err() != nil && l.worker.Count() == 0 {
		// Wait a moment for River, so that the connections of this instance are closed before the next instance opens
		// its own. On a dead link, do not wait longer.
		select {
		case <-stopped:
			return true, true
		case <-time.After(session.CloseLimit):
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
			"left", l.worker.Count())
	}
	return l.worker.Count() == 0, riverStopped
}

// watch ends the instance of a node whose session has not answered for too long. Other nodes may declare such a node
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
			if !l.session.Alive() {
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

func (l *instance) listener() *session.Listener {
	return session.NewListener(session.ListenerConfig{
		Connect: l.config.Connect, Schema: l.statements.Schema.String(), Log: l.log,
		Wake:       l.leader.Wake,
		Held:       l.worker.Recheck,
		Failed:     func(text string) { l.dead.Heard(l.session.Number, text) },
		Listening:  l.health.listens,
		Relistened: func(ctx context.Context) { l.leader.Wake(); l.worker.RecheckAll(ctx) },
	})
}

// heard notes the error of a statement on the engine's pool, or nil. After a statement without an answer in time, the
// pool opens new connections. A firewall that has forgotten one of its connections has mostly forgotten all of them.
func (l *instance) heard(err error) {
	l.health.hears(err)
	if errors.Is(err, context.DeadlineExceeded) {
		l.pool.Reset()
	}
}
