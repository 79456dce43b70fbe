package scheduled

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/riverqueue/river"

	"github.com/tasktable/tasktable/scheduled/internal/taskdb"
)

// leader does the work of the node that has the leader's lock. It looks when tasks become due, claims them, and takes
// back the tasks of dead nodes. All of it runs on the session's connection.
type leader struct {
	session    *session
	statements taskdb.Queries
	config     Config
	river      *river.Client[pgx.Tx]
	averages   *averages
	log        *slog.Logger

	nodes       []taskdb.LiveNode
	failures    failureDetector
	maxClaimed  int // how many tasks a pass takes; a timeout halves it, a success doubles it
	maxEnded    int // how many claims of River's jobs a step ends; halved and doubled like most
	jobs        riverJobs
	deep        *deepLook
	sizes       map[string]int // of payloads in bytes, by type
	reclaimed   bool           // this tick has ended claims, so their tasks are due
	dead        *failureNotifier
	metrics     *metrics
	marks       lowWaterMarks
	lost        []Dead               // of the transaction under way; the hooks are called once it is committed
	lines       []typedOutcome       // of the history, in the same transaction; counted once it is committed
	quarantined map[string]time.Time // tasks that can be neither claimed nor failed, and until when to leave them alone
}

const maxClaims = 5000

func newLeader(s *session, st taskdb.Queries, config Config, client *river.Client[pgx.Tx], averages *averages) *leader {
	return &leader{
		session: s, statements: st, config: config, river: client, averages: averages,
		log: config.Logger.With("node", s.number), maxClaimed: maxClaims, maxEnded: maxReclaimed,
		sizes: map[string]int{}, quarantined: map[string]time.Time{},
	}
}

// look is the result of a tick or a pass.
type look struct {
	Claimed int
	Expired int
	Forked  int // recurring tasks that fired, or whose next fire was planned
	// Next is in how long to look again. 0 means at once. A negative value means that no task is known to become due.
	Next time.Duration
	// Tick is in how long to look at the nodes again, if that is before the next tick. A negative value means never
	// before the next tick.
	Tick time.Duration
	// Full says that due tasks were left, because the nodes that work them have enough claimed tasks.
	Full bool
	// Stuck says that due tasks could not be claimed, because of locks or because it took too long.
	Stuck bool
}

const resumesSQL = `
SELECT EXISTS (SELECT 1 FROM tasktable.scheduled_tasks AS t WHERE t.paused_until <= statement_timestamp()
    AND t.status = 'PAUSED') AS resumes,
    statement_timestamp() AS now, current_setting('transaction_read_only') = 'on' AS read_only`

// ticked is the answer to the one round trip of a tick.
type ticked struct {
	nodes   []taskdb.LiveNode
	listed  taskdb.ListedLanes
	now     time.Time
	resumes bool // pauses of single tasks have ended

	readOnly bool
}

// tick is the leader's look each second. It reads nodes, lanes and River's jobs in one round trip, takes back lost
// claims, and says when the next task is due.
func (l *leader) tick(ctx context.Context) (look, error) {
	l.takeDeep()
	sent := time.Now()
	var batch pgx.Batch
	batch.Queue(l.statements.Schema.SQL(taskdb.NodesSQL), int64(uint32(taskdb.LockClass(l.session.schema, "node"))))
	l.marks.queue(l.statements, &batch)
	batch.Queue(l.statements.Schema.SQL(resumesSQL))
	l.jobs.queue(l.statements, &batch)
	results := l.session.conn.SendBatch(ctx, &batch)
	seen, err := l.readTick(results)
	err = errors.Join(err, results.Close())
	l.session.heard(sent, err)
	if err != nil {
		return look{Next: -1, Tick: -1}, fmt.Errorf("tick: %w", err)
	}
	if seen.readOnly {
		return look{Next: -1, Tick: -1}, l.session.demoted(ctx)
	}
	l.session.learn(seen.now, sent)
	l.nodes = seen.nodes
	fresh := l.marks.work(taskdb.WorkedBy(l.workingNodes()))
	if fresh && !l.marks.quick {
		l.deep.hasten()
	}
	l.deep.begin(ctx, l.marks.worked, l.marks.quick)
	found := look{Next: l.nextDue(seen.listed), Tick: -1}
	l.reclaimed = false
	if !l.deep.made { // neither the lanes nor the jobs of dead nodes are known yet
		return found, nil
	}
	l.metrics.sees(seen.listed, seen.nodes)
	found.Tick, err = l.recover(ctx)
	if seen.resumes {
		err = errors.Join(err, l.resumeDue(ctx))
	}
	if l.reclaimed || seen.resumes || fresh { // a new node may work lanes that the leader did not look at before
		found.Next = 0
	}
	return found, err // an error is no reason not to claim what is due
}

// takeDeep takes the result of the last deep look, once it has ended.
func (l *leader) takeDeep() {
	if found, ok := l.deep.take(); ok {
		l.marks.deep(found.lanes, found.began, found.took)
		l.jobs.deep(found.jobs)
	}
}

// begins makes the leader forget what it knew when it led before. It begins again with large steps.
func (l *leader) begins() {
	l.failures.forget()
	l.jobs.forget()
	l.deep.forget()
	l.marks = lowWaterMarks{}
	l.maxEnded = maxReclaimed
}

// resumeDue resumes the tasks whose pause has ended.
func (l *leader) resumeDue(ctx context.Context) error {
	resumed := 0
	var err error
	for range 50 { // in bounded steps, so that the ticks go on; the next tick resumes the rest
		some := 0
		err = l.transaction(ctx, func(tx pgx.Tx) (err error) {
			sent := time.Now()
			some, err = l.statements.ResumeDue(ctx, tx, nil)
			l.session.heard(sent, err)
			return err
		})
		if resumed += some; err != nil || some < taskdb.MaxResumed {
			break
		}
	}
	if resumed > 0 {
		l.log.Info("tasks resumed, because their pause has ended", "tasks", resumed)
	}
	return err
}

// recover takes back lost claims and removes finished jobs. A part that fails does not keep the other parts from
// running. It returns in how long a silent node will count as dead, which is negative if no node is silent.
func (l *leader) recover(ctx context.Context) (next time.Duration, err error) {
	next, err = l.reclaimDead(ctx)
	for _, part := range []func(context.Context) error{l.reclaimStrays, l.sweep, l.renotifyRiver} {
		if l.session.conn.IsClosed() {
			break
		}
		err = errors.Join(err, part(ctx))
	}
	return next, err
}

func (l *leader) readTick(results pgx.BatchResults) (seen ticked, err error) {
	nodeRows, err := taskdb.CollectNext[taskdb.NodeRow](results, "read nodes")
	if err != nil {
		return seen, err
	}
	if seen.listed, err = l.marks.read(results, l.session.clock.now()); err != nil {
		return seen, err
	}
	if err := results.QueryRow().Scan(&seen.resumes, &seen.now, &seen.readOnly); err != nil {
		return seen, err
	}
	if err := l.jobs.read(results); err != nil {
		return seen, err
	}
	for _, row := range nodeRows {
		seen.nodes = append(seen.nodes, row.Node())
	}
	return seen, nil
}

// nextDue is how long until the leader has to look at a lane that some node works, because its first task comes
// within the look-ahead.
func (l *leader) nextDue(listed taskdb.ListedLanes) time.Duration {
	next := time.Duration(-1)
	lanes := slices.Concat(
		taskdb.Unpaused(listed.Tasks, listed.Paused), taskdb.Unpaused(listed.Recurring, listed.Paused),
	)
	for _, b := range budget(lanes, l.workingNodes(), nil, rates{}) {
		in := max(b.DueIn-l.ahead(b.Lane), 0)
		if next < 0 || in < next {
			next = in
		}
	}
	return next
}

// rates are the averages that this node has measured and those that the other nodes have published.
func (l *leader) rates() rates {
	known := []map[string]time.Duration{l.averages.measured()}
	for _, node := range l.nodes {
		if node.Number != l.session.number {
			known = append(known, node.Averages)
		}
	}
	return rates{meanOf(known), l.sizes}
}

func (l *leader) lookAhead() time.Duration { return max(l.config.LookAhead, 0) }

// ahead is how long before its time the leader looks at a lane. For recurring tasks it is 0, because only at the fire
// can the leader see whether an earlier occurrence has ended.
func (l *leader) ahead(one taskdb.Lane) time.Duration {
	if one.Recurring {
		return 0
	}
	return l.lookAhead()
}

// workingNodes leaves out nodes whose lock is free. They are dead or about to die, and would not work tasks that
// are claimed for them.
func (l *leader) workingNodes() []taskdb.LiveNode {
	return slices.DeleteFunc(slices.Clone(l.nodes), func(n taskdb.LiveNode) bool {
		return !n.Held && n.Number != l.session.number
	})
}

// numbers lists the nodes that the leader takes for alive.
func (l *leader) numbers() []int64 {
	known := map[int64]bool{l.session.number: true}
	for _, node := range l.nodes {
		known[node.Number] = true
	}
	return slices.Sorted(maps.Keys(known))
}
