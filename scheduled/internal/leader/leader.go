// Package leader has the loop of a node, and the work of the node that leads.
package leader

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river"

	"github.com/tasktable/tasktable/scheduled/internal/failures"
	"github.com/tasktable/tasktable/scheduled/internal/loop"
	"github.com/tasktable/tasktable/scheduled/internal/metrics"
	"github.com/tasktable/tasktable/scheduled/internal/pg"
	"github.com/tasktable/tasktable/scheduled/internal/plan"
	"github.com/tasktable/tasktable/scheduled/internal/quiet"
	"github.com/tasktable/tasktable/scheduled/internal/riverjobs"
	"github.com/tasktable/tasktable/scheduled/internal/session"
	"github.com/tasktable/tasktable/scheduled/internal/taskdb"
)

// Leader works for the cluster while its node leads, on a connection of its own. Each node has one, also a node that
// does not lead. With the leader's lock, it looks when tasks become due, claims them, and takes back the tasks of dead
// nodes. Without the lock, it tries for the lock.
type Leader struct {
	config     Config
	session    *session.Session
	conn       *pgx.Conn // of the term, see term.go; nil before the first one
	commitSQL  string    // ends a transaction of the term
	statements taskdb.Queries
	metrics    *metrics.Metrics
	log        *slog.Logger

	ceased chan struct{} // closed when the loop makes no pass any more

	progress    progress // whether passes succeed
	nodes       []taskdb.LiveNode
	deadNodes   failureDetector
	claims      *pg.Size // how many tasks a pass takes
	writes      *pg.Size // how many rows a step of fires writes
	ends        *pg.Size // how many claims of River's jobs a step ends
	resumes     *pg.Size // how many tasks a step resumes
	keySets     *pg.Size // of how many tasks a step sets the limit key
	jobs        riverjobs.View
	walk        *walk
	abandoned   []taskdb.Claim // that the walk has found
	sizes       map[string]int // of payloads in bytes, by type
	reclaimed   bool           // this tick has ended claims, so their tasks are due
	begins      bool           // the term has made no tick yet
	pausesEnd   bool           // pauses of single tasks have ended; the next pass resumes the tasks
	lanes       knownLanes
	claimedAt   time.Time            // when tasks were last claimed
	unwritten   bool                 // tasks were claimed since the marks were handed on
	handedAt    time.Time            // when the marks were last handed on
	quarantined map[string]time.Time // tasks that the leader leaves alone for now, and until when: see quarantine.go
	lockedUntil map[int64]time.Time  // claims that come last when claims are ended, by fence: see lockedTime
}

// Config is the configuration of a leader.
type Config struct {
	Session        *session.Session
	Pool           *pgxpool.Pool // the engine's
	Housekeeping   *session.Housekeeping
	Statements     taskdb.Queries
	River          *river.Client[pgx.Tx]
	PollInterval   time.Duration
	LookAhead      time.Duration
	StartAllowance time.Duration
	NeverLeads     bool          // the node only works
	AbandonedAfter time.Duration // for tests; 0: abandonedAfter
	Quiet          *quiet.Switch
	Failures       *failures.Notifier
	Metrics        *metrics.Metrics
	Log            *slog.Logger

	Wakes loop.Signal // look now, because a task is due
	Frees loop.Signal // if there was no room, look now, because there may be room

	Averages func() map[string]time.Duration // how long handlers run on this node, by type
	InHand   func() int                      // how many claims this node has in hand
	Turned   func()                          // notes a turn of the loop
}

// New makes a leader. It does nothing before Run.
func New(config Config) *Leader {
	config.LookAhead = max(config.LookAhead, 0)
	l := &Leader{
		config: config, session: config.Session, statements: config.Statements, metrics: config.Metrics,
		log:    config.Log,
		ceased: make(chan struct{}), lanes: newLanes(), claims: pg.NewSize(1, maxClaims),
		writes: pg.NewSize(1, taskdb.MaxFires), ends: pg.NewSize(1, maxReclaimed),
		resumes: pg.NewSize(1, taskdb.MaxResumed), keySets: pg.NewSize(1, taskdb.MaxKeysRead),
		sizes: map[string]int{}, quarantined: map[string]time.Time{}, lockedUntil: map[int64]time.Time{},
	}
	l.walk = l.newWalk()
	return l
}

// Ceased returns a channel that is closed when the leader has heeded stopLeading, and so claims nothing any more.
func (l *Leader) Ceased() <-chan struct{} { return l.ceased }

const maxClaims = 5000

// soonAgain is how long after the first tick of a term the second one comes. A pass lies between them.
const soonAgain = time.Millisecond

// look is the result of a tick or a pass.
type look struct {
	claimed int
	expired int
	forked  int // recurring tasks that fired, or whose next fire was planned
	// next is in how long to look again. 0 means at once. A negative value means that no task is known to become due.
	next time.Duration
	// tick is in how long a silent node will count as dead. A negative value means that no node is silent.
	tick time.Duration
	// full says that due tasks were left, because the nodes that work them have enough claimed tasks.
	full bool
	// stuck says that due tasks could not be claimed, because of locks or because it took too long.
	stuck bool
}

const resumesSQL = `
SELECT EXISTS (SELECT 1 FROM tasktable.scheduled_tasks AS t WHERE t.paused_until <= statement_timestamp()
    AND t.status = 'PAUSED') AS resumes,
    statement_timestamp() AS now, current_setting('transaction_read_only') = 'on' AS read_only,
    ` + pg.HiddenSQL + ` AS hidden`

// ticked is the answer to the one round trip of a tick.
type ticked struct {
	nodes   []taskdb.LiveNode
	listed  taskdb.ListedLanes
	more    bool // there may be lanes that were not listed
	now     time.Time
	resumes bool // pauses of single tasks have ended

	readOnly, hidden bool
}

// tick is the leader's look each second. It reads nodes, lanes and River's jobs in one round trip, takes back lost
// claims, and says when the next task is due. The first tick of a term leaves lost claims to the second one, so that
// the new leader claims due tasks first.
func (l *Leader) tick(ctx context.Context) (look, error) {
	var batch pgx.Batch
	batch.Queue(l.statements.Schema.SQL(taskdb.NodesSQL), int64(uint32(pg.LockClass(l.session.Schema, "node"))))
	l.lanes.queue(l.statements, &batch, l.session.Clock.Now(), always)
	batch.Queue(l.statements.Schema.SQL(resumesSQL))
	l.jobs.Queue(l.statements, &batch)
	limit, sent := l.limit(), time.Now()
	results := l.conn.SendBatch(ctx, &batch)
	seen, err := l.readTick(results)
	err = errors.Join(err, results.Close())
	if limit.Stop(); err != nil {
		l.lanes.narrow = l.lanes.narrow || pg.IsCanceled(err)
		return look{next: -1, tick: -1}, fmt.Errorf("tick: %w", err)
	}
	if seen.readOnly || seen.hidden {
		l.session.Close(ctx)
		if seen.hidden {
			return look{next: -1, tick: -1}, pg.ErrHidden
		}
		return look{next: -1, tick: -1}, pg.ErrReadOnly
	}
	l.session.Clock.Learn(seen.now, sent, time.Now())
	l.nodes = seen.nodes
	fresh := l.lanes.work(l.workingNodes()) || seen.more
	seen.listed.Tasks = append(seen.listed.Tasks, l.lanes.worked(l.lanes.keys.firsts(l.session.Clock.Now()))...)
	found := look{next: l.plan(seen.listed, nil).First, tick: -1}
	l.reclaimed = false
	l.walkOn(ctx)
	if !fresh { // else it has not read all lanes
		seen.listed.Limits = plan.Counted(seen.listed.Limits, l.jobs.List)
		l.metrics.Sees(seen.listed, seen.nodes)
	}
	if l.begins { // due tasks have waited since the leader before died, and a step of recover may take seconds
		l.begins, found.tick = false, soonAgain
	} else {
		found.tick, err = l.recover(ctx)
	}
	l.pausesEnd = seen.resumes
	// A new node may work lanes that the leader did not look at before.
	if l.reclaimed || seen.resumes || fresh || l.lanes.keys.waits() {
		found.next = 0
	}
	return found, errors.Join(err, l.hand(ctx)) // an error is no reason not to claim what is due
}

// recover takes back lost claims and removes finished jobs. A part that fails does not keep the other parts from
// running. It returns in how long a silent node will count as dead, which is negative if no node is silent.
func (l *Leader) recover(ctx context.Context) (next time.Duration, err error) {
	next, err = l.reclaimDead(ctx)
	for _, part := range []func(context.Context) error{l.sweep, l.endAbandoned} {
		if l.conn.IsClosed() {
			break
		}
		err = errors.Join(err, part(ctx))
	}
	return next, err
}

func (l *Leader) readTick(results pgx.BatchResults) (seen ticked, err error) {
	nodeRows, err := pg.CollectNext[taskdb.NodeRow](results, "read nodes")
	if err != nil {
		return seen, err
	}
	if seen.listed, seen.more, err = l.lanes.read(results, l.session.Clock.Now()); err != nil {
		return seen, err
	}
	if err := results.QueryRow().Scan(&seen.resumes, &seen.now, &seen.readOnly, &seen.hidden); err != nil {
		return seen, err
	}
	if err := l.jobs.Read(results); err != nil {
		return seen, err
	}
	for _, row := range nodeRows {
		seen.nodes = append(seen.nodes, row.Node())
	}
	return seen, nil
}

// plan makes the plan for lanes that a look has listed.
func (l *Leader) plan(listed taskdb.ListedLanes, jobs []plan.Job) *plan.Plan {
	return plan.New(plan.Input{
		Lanes: slices.Concat(listed.Tasks, listed.Recurring), Paused: listed.Paused, Nodes: l.workingNodes(),
		Limits: listed.Limits, Buckets: l.lanes.buckets.full, Jobs: jobs, Rates: l.rates(),
		LookAhead: l.config.LookAhead,
	})
}

// rates are how long handlers run, as this node has measured and the other nodes have published, and how large payloads
// are.
func (l *Leader) rates() plan.Rates {
	known := []map[string]time.Duration{l.config.Averages()}
	for _, node := range l.nodes {
		if node.Number != l.session.Number {
			known = append(known, node.Averages)
		}
	}
	return plan.Rates{Took: plan.Mean(known), Bytes: l.sizes}
}

// workingNodes leaves out nodes whose lock is free. They are dead or about to die, and would not work tasks that
// are claimed for them.
func (l *Leader) workingNodes() []taskdb.LiveNode {
	return slices.DeleteFunc(slices.Clone(l.nodes), func(n taskdb.LiveNode) bool {
		return !n.Held && n.Number != l.session.Number
	})
}
