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
	"github.com/riverqueue/river"

	"github.com/tasktable/tasktable/handlers"
	"github.com/tasktable/tasktable/scheduled/internal/failures"
	"github.com/tasktable/tasktable/scheduled/internal/leader"
	"github.com/tasktable/tasktable/scheduled/internal/loop"
	"github.com/tasktable/tasktable/scheduled/internal/maintenance"
	"github.com/tasktable/tasktable/scheduled/internal/metrics"
	"github.com/tasktable/tasktable/scheduled/internal/riverjobs"
	"github.com/tasktable/tasktable/scheduled/internal/session"
	"github.com/tasktable/tasktable/scheduled/internal/taskdb"
	"github.com/tasktable/tasktable/scheduled/internal/worker"
)

// instance is one life of a node. It begins when the node gets its number, and ends when the node loses or gives up its
// session. A process whose session ends begins another instance with a new number, because the old number may have been
// declared dead.
type instance struct {
	*Node
	session *session.Session
	leader  *leader.Leader
	worker  *worker.Worker
	dead    *failures.Notifier
	wakes   loop.Signal                             // of the leader
	rounds  []interface{ Run(ctx context.Context) } // they end with the session
	river   *river.Client[pgx.Tx]
	pool    *pgxpool.Pool // the engine's own, which River uses, too
	log     *slog.Logger

	// Goroutines that may outlast the instance. On a dead link, River takes some time to stop, and so does a pool to
	// close.
	closing *sync.WaitGroup
}

var (
	// errFenced ends an instance whose session did not answer within session.Timeout, which is 3 s.
	errFenced = errors.New("the session did not answer in time")
	// errStuck ends an instance that leads, and whose loop makes no turns. Its session lives, so no other node would
	// lead.
	errStuck = fmt.Errorf("the leader's loop has made no turn for %s", leaderSilent)
	// errSilentPool ends an instance whose pool does not answer. Such an instance can neither start tasks nor record
	// outcomes, although its session lives.
	errSilentPool = fmt.Errorf("the engine's pool has not answered for %s", poolSilent)
)

// graceAfterInterrupt is how long a stop waits until interrupted handlers have returned and their outcomes are
// recorded. Then it goes on without them.
const graceAfterInterrupt = 5 * time.Second

// beginWithin bounds each try to begin. After the first success, the node tries again when a try fails.
const beginWithin = 10 * time.Second

// begin connects, registers the node and makes its parts. closing counts goroutines that may outlast the instance.
func (n *Node) begin(ctx context.Context, closing *sync.WaitGroup) (*instance, error) {
	ctx, cancel := context.WithTimeout(ctx, beginWithin) // a server that is cut off does not even refuse a connection
	defer cancel()
	session, err := session.Open(ctx, session.Config{
		Connect: n.config.connect, Schema: n.statements.Schema, Node: n.config.registration(n.quiet.On()),
	})
	if err != nil {
		return nil, err
	}
	i := &instance{Node: n, session: session, closing: closing}
	if err := i.prepare(ctx); err != nil {
		session.Close(context.WithoutCancel(ctx))
		if i.worker != nil {
			i.worker.Finish()
			i.worker.AwaitEnd()
		}
		if i.pool != nil {
			i.pool.Close()
		}
		return nil, err
	}
	return i, nil
}

func (i *instance) prepare(ctx context.Context) (err error) {
	if i.pool, err = session.NewPool(ctx, session.PoolConfig{
		Settings: i.config.Pool.Config(), Conns: i.config.EngineConns, Connect: i.config.Connect,
	}); err != nil {
		return err
	}
	i.log = i.config.Logger.With("node", i.session.Number)
	i.dead = newFailureNotifier(i.config, i.pool, i.log)
	working, types := i.config.works()
	housekeeping, frees := session.NewHousekeeping(i.pool), loop.NewSignal()
	i.wakes = loop.NewSignal()
	i.worker = worker.New(ctx, worker.Config{
		EnginePool: i.pool, Pool: i.config.Pool, Statements: i.statements, Number: i.session.Number,
		Service: i.config.Service, Handlers: i.config.Handlers, Slots: working, ShareSlots: i.config.ShareSlots,
		TypeSlots: i.config.TypeSlots, Places: i.config.places(), StartAllowance: i.config.StartAllowance,
		HungAfter: cmp.Or(i.config.hungAfter, worker.HungAfter), Backoff: i.config.Backoff,
		Codec: i.config.Codec, LogErrors: *i.config.LogErrors, Tracer: i.config.Tracer, Clock: i.session.Clock,
		StrictQueues: i.config.StrictQueues, Quiet: i.quiet, Failures: i.dead, Metrics: i.metrics, Log: i.log,
		Alive: i.session.Alive,
		Stuck: i.health.stuck,
		Frees: frees, DueSoon: i.dueSoon, Answered: i.heard,
	})
	onLeader := maintenance.Config{
		Housekeeping: housekeeping, Statements: i.statements, Leads: i.session.Leads, Log: i.log,
	}
	i.rounds = []interface{ Run(ctx context.Context) }{
		maintenance.NewRetention(maintenance.RetentionConfig{
			Config: onLeader, Node: i.session.Number, Period: i.config.Retention, ByType: i.config.RetentionByType,
		}),
		maintenance.NewDeclarer(maintenance.DeclarerConfig{
			Pool: i.pool, Statements: i.statements, Service: i.config.Service,
			Declaration: i.config.declaration(), Codec: i.config.Codec,
			Every: i.config.declareEvery, Log: i.log,
			Publisher: maintenance.NewPublisher(maintenance.PublisherConfig{
				Pool: i.pool, Statements: i.statements, Service: i.config.Service, Defaults: i.config.defaults(),
				Types: i.config.Handlers.Types(), Every: i.config.declareEvery, Log: i.log,
			}),
		}),
		metrics.NewTableStats(metrics.TableStatsConfig{
			Housekeeping: housekeeping, Statements: i.statements, Metrics: i.metrics,
			Every: i.config.censusEvery, Leads: i.session.Leads, Log: i.log,
		}),
		i.listener(),
	}
	i.river, err = riverjobs.NewClient(riverjobs.ClientConfig{
		Pool: i.pool, Statements: i.statements, Number: i.session.Number, Clock: i.session.Clock,
		Slots: i.config.workingSlots(), Types: types, TypeSlots: i.config.TypeSlots, LookAhead: i.config.LookAhead,
		Quiet: i.quiet.On,
		Heard: i.heard, Hooks: i.metrics.Hooks(), Logger: i.config.Logger, Log: i.log, Work: i.worker.Work,
	})
	if err != nil {
		return err
	}
	i.leader = leader.New(leader.Config{
		Session: i.session, Pool: i.pool, Housekeeping: housekeeping, Statements: i.statements, River: i.river,
		PollInterval: i.config.PollInterval, LookAhead: i.config.LookAhead, StartAllowance: i.config.StartAllowance,
		AbandonedAfter: i.config.abandonedAfter, Quiet: i.quiet, Failures: i.dead, Metrics: i.metrics, Log: i.log,
		NeverLeads: i.config.Role == RoleWorker,
		Wakes:      i.wakes, Frees: frees, Averages: i.worker.Measured, InHand: i.worker.Count, Turned: i.health.turns,
	})
	return nil
}

// state is the node's state for the metrics.
func (i *instance) state() metrics.NodeState {
	slots, types, places := i.worker.Usage()
	hung := i.worker.Hung()
	for _, kind := range i.config.Handlers.Types() {
		hung[kind] += 0 // so that each type has a series
	}
	return metrics.NodeState{
		Number: i.session.Number, Leads: i.session.Leads(), AnswerAge: i.session.Unanswered(),
		Slots: slots, TypeSlots: types, Places: places, InHand: i.worker.Count(), Hung: hung,
		Pools: map[string]*pgxpool.Pool{"engine": i.pool, "handlers": i.config.Pool},
	}
}

// dueSoon tells the node that leads that a task is due again at once.
func (i *instance) dueSoon() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	if _, err := i.pool.Exec(ctx, "SELECT pg_notify($1, '')", i.statements.Schema.String()+".wake"); err != nil {
		i.log.Debug("leader could not be notified; it looks within a second anyway", "error", err)
	}
}

// run works until ctx is done, then stops gracefully and returns nil. If the session is lost before that, run returns
// why.
func (i *instance) run(ctx context.Context) error {
	// The session does not end with ctx, because a graceful stop still needs it.
	detached := context.WithoutCancel(ctx)
	sessionCtx, endSession := context.WithCancelCause(detached)
	defer endSession(nil)

	i.health.hears(nil) // the times without an answer and without a turn count from now on
	i.health.turns()
	i.metrics.Begun(i.state)
	defer i.metrics.Ended()

	var services sync.WaitGroup
	notifying, endNotifying := context.WithCancel(detached) // ended only after all outcomes are recorded
	defer endNotifying()
	i.worker.Start(sessionCtx)
	services.Go(func() { i.dead.Run(notifying) })
	for _, one := range i.rounds {
		services.Go(func() { one.Run(sessionCtx) })
	}
	services.Go(func() { i.watch(sessionCtx, endSession) })
	services.Go(func() { endSession(i.session.Beat(sessionCtx)) })
	stopLeading := make(chan struct{})
	services.Go(func() { endSession(i.leader.Run(sessionCtx, stopLeading)) })

	var lost error
	if err := i.river.Start(detached); err != nil {
		lost = fmt.Errorf("start River: %w", err)
		endSession(lost)
	} else {
		i.health.note("", CheckNode, CheckSession, CheckDatabase)
		i.log.Info("node is up", "service", i.config.Service, "role", i.config.Role, "queues", i.config.Queues,
			"transactions", i.config.places(), "types", i.config.Handlers.Types())
	}
	select {
	case <-ctx.Done():
		i.health.note(reasonStopping, CheckNode)
		i.log.Info("node stops", "running", i.worker.Count())
		close(stopLeading)
		// A pass under way would otherwise claim anew, for a node that fetches nothing any more, the tasks that the
		// worker hands back.
		within(sessionCtx, ceaseWithin, i.leader.Ceased())
	case <-sessionCtx.Done():
		lost = context.Cause(sessionCtx)
		i.health.note(reasonLost, CheckSession, CheckDatabase, CheckListener)
		i.log.Error("session lost; handlers are stopped", "error", lost)
		i.worker.Interrupt(handlers.ErrLeaseLost)
		i.worker.Halt(handlers.ErrLeaseLost)
	}
	clean, riverStopped := i.stop(sessionCtx)
	i.worker.Finish()
	endNotifying()
	if clean && lost == nil {
		i.farewell(detached)
	}
	endSession(nil)
	services.Wait()
	i.worker.AwaitEnd()
	i.session.Close(detached)
	if riverStopped {
		i.pool.Close()
	} else {
		// Close waits for connections in use: by a handler that goes on, or by River on a dead link.
		i.closing.Go(i.pool.Close)
	}
	i.log.Info("node is down", "clean", clean && lost == nil)
	return lost
}

// farewell marks the node as gone, because it has no tasks left that the leader would have to take back. It uses the
// pool, because the session may be in the middle of a statement. It may take as long as any statement of the pool,
// because a busy server needs more than a moment. If it fails, the leader finds out by itself.
func (i *instance) farewell(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, session.AnswerLimit)
	defer cancel()
	if _, err := i.pool.Exec(ctx, i.statements.Schema.SQL(taskdb.FarewellSQL), i.session.Number); err != nil {
		i.log.Warn("node could not mark itself as gone; the leader will do it", "error", err)
	}
}

// ceaseWithin is how long a stop waits for the end of a pass. Postgres limits each of its statements to the same time.
const ceaseWithin = 2 * time.Second

// within waits until done is closed, and reports whether that was before ctx was done or the time was over.
func within(ctx context.Context, limit time.Duration, done <-chan struct{}) bool {
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case <-done:
		return true
	case <-ctx.Done():
	case <-timer.C:
	}
	return false
}

// stop ends the work. Nothing new starts, and claims that wait are handed back. Running handlers get ShutdownTimeout
// to end, and are then interrupted. stop reports whether everything was settled, and whether River has stopped, which
// takes some time on a dead link.
func (i *instance) stop(sessionCtx context.Context) (clean, riverStopped bool) {
	i.worker.Halt(handlers.ErrInterrupted) // if it has not halted already, because the session is lost
	stopped := make(chan struct{})
	i.closing.Go(func() {
		defer close(stopped)
		ctx, cancel := context.WithTimeout(
			context.WithoutCancel(sessionCtx), i.config.ShutdownTimeout+2*graceAfterInterrupt)
		defer cancel()
		if err := i.river.Stop(ctx); err != nil {
			i.log.Warn("River did not stop in time", "error", err)
		}
	})
	if within(sessionCtx, max(i.config.ShutdownTimeout, 0), stopped) {
		return i.worker.Count() == 0, true
	}
	if sessionCtx.Err() != nil { // the session is lost, so the handlers' contexts end
		i.worker.Interrupt(handlers.ErrLeaseLost)
	} else {
		i.log.Warn("handlers are interrupted", "running", i.worker.Count())
		i.worker.Interrupt(handlers.ErrInterrupted)
	}
	grace := graceAfterInterrupt
	if sessionCtx.Err() != nil && i.worker.Count() == 0 {
		// Wait a moment for River, so that the connections of this instance are closed before the next instance opens
		// its own. On a dead link, do not wait longer.
		grace = session.CloseLimit
	}
	riverStopped = within(context.WithoutCancel(sessionCtx), grace, stopped)
	if left := i.worker.Count(); !riverStopped && left > 0 {
		i.log.Error("not all work ended in time: a handler ignores its context, or the database does not answer",
			"left", left)
	}
	return i.worker.Count() == 0, riverStopped
}

// watch ends the instance of a node whose session has not answered for too long. Other nodes may declare such a node
// dead, and its handlers must end before that. watch also notices that the process was stopped for a while. A node
// whose pool does not answer must begin again, too, because it would lead and claim, but run nothing. So must a leader
// whose loop is stuck.
func (i *instance) watch(ctx context.Context, end context.CancelCauseFunc) {
	const pause = 200 * time.Millisecond
	loop.Repeat(ctx, pause, func() time.Duration {
		switch pool, turns := i.health.silence(); {
		case !i.session.Alive():
			end(errFenced)
		case turns > leaderSilent && i.session.Leads():
			end(errStuck)
		case pool > poolSilent:
			end(errSilentPool)
		}
		return pause
	})
}

func (i *instance) listener() session.Listener {
	schema := i.statements.Schema.String()
	return session.Listener{
		Connect: i.config.connect, Log: i.log,
		Channels: map[string]func(ctx context.Context, payload string){
			schema + ".wake":         func(context.Context, string) { i.wakes.Send() },
			schema + ".held":         i.worker.Recheck,
			failures.Channel(schema): func(_ context.Context, text string) { i.dead.Receive(i.session.Number, text) },
		},
		Listening: func(ctx context.Context, on bool) {
			if !on {
				i.health.note(reasonDeaf, CheckListener)
				return
			}
			i.health.note("", CheckListener)
			i.wakes.Send()
			i.worker.RecheckAll(ctx)
		},
	}
}

// heard notes the error of a statement on the engine's pool, or nil. After a statement without an answer in time, the
// pool opens new connections. A firewall that has forgotten one of its connections has mostly forgotten all of them.
func (i *instance) heard(err error) {
	i.health.hears(err)
	if errors.Is(err, context.DeadlineExceeded) {
		i.pool.Reset()
	}
}
