package scheduled

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/riverqueue/river"
)

// leader is what the node with the leader's lock does: it looks when something may be due, claims, and takes back what dead
// nodes held. All of it runs on the session's connection.
type leader struct {
	session    *session
	statements statements
	config     Config
	river      *river.Client[pgx.Tx]
	averages   *averages
	log        *slog.Logger

	nodes      []liveNode
	seen       map[int64]time.Time // when a node's lock was last seen held, or first seen at all
	most       int                 // how many tasks a pass takes; halved by a timeout, doubled by a success
	floor      time.Time           // leases that end before it have been dealt with
	floorReset time.Time
	cleanedAt  time.Time
	tookBack   bool                 // this tick has ended claims: their tasks are due
	aside      map[string]time.Time // tasks that can neither be claimed nor failed, and until when they are let be
}

const claimMost = 5000

func newLeader(s *session, st statements, config Config, client *river.Client[pgx.Tx], averages *averages) *leader {
	return &leader{
		session: s, statements: st, config: config, river: client, averages: averages,
		log: config.Logger.With("node", s.number), seen: map[int64]time.Time{}, most: claimMost,
		aside: map[string]time.Time{},
	}
}

// look is what a tick or a pass found out.
type look struct {
	Claimed int
	Expired int
	// Next is when to look again: 0 at once, negative when nothing is known to come.
	Next time.Duration
	// Full says that due tasks were left because their nodes have enough in hand.
	Full bool
}

const nodesSQL = `
WITH held AS MATERIALIZED (
    SELECT l.objid::bigint AS number FROM pg_locks AS l
    WHERE l.locktype = 'advisory' AND l.classid::bigint = $1::bigint AND l.objsubid = 2 AND l.granted
        AND l.database = (SELECT d.oid FROM pg_database AS d WHERE d.datname = current_database())
)
SELECT n.number, n.queues::text AS queues, array_remove(n.types, NULL) AS types, n.number IN (SELECT held.number FROM held) AS held
FROM tasktable.nodes AS n WHERE n.dead_at IS NULL ORDER BY n.number`

type nodeRow struct {
	Number int64
	Queues string
	Types  []string
	Held   bool
}

const lapsedSQL = `
SELECT statement_timestamp() AS now, EXISTS (
    SELECT 1 FROM tasktable.scheduled_tasks AS t
    WHERE t.held_until >= $1::timestamptz AND t.held_until < statement_timestamp()) AS lapsed`

// tick is the leader's look each second, one round trip: nodes, lanes, lapsed leases. It takes back what is lost, and says
// when the next task is due.
func (l *leader) tick(ctx context.Context) (look, error) {
	if time.Since(l.floorReset) > l.config.PollInterval {
		l.floorReset, l.floor = time.Now(), time.Unix(0, 0) // the full look, for what the floor may have hidden
	}
	sent := time.Now()
	var batch pgx.Batch
	batch.Queue(l.statements.schema.SQL(nodesSQL), int64(uint32(lockClass(l.session.schema, "node"))))
	batch.Queue(l.statements.schema.SQL(lanesSQL), nil)
	batch.Queue(l.statements.schema.SQL(lapsedSQL), l.floor)
	results := l.session.conn.SendBatch(ctx, &batch)
	nodes, lanes, now, lapsed, err := readTick(results)
	err = errors.Join(err, results.Close())
	l.session.heard(sent, err)
	if err != nil {
		return look{Next: -1}, fmt.Errorf("tick: %w", err)
	}
	l.session.learn(now, sent)
	l.nodes = nodes
	found := look{Next: l.nextDue(lanes)}
	l.tookBack = false
	err = l.recover(ctx, now, lapsed)
	if l.tookBack {
		found.Next = 0
	}
	return found, err // what is due does not wait for what cannot be taken back
}

// recover takes back what is lost and removes what is done with.
func (l *leader) recover(ctx context.Context, now time.Time, lapsed bool) error {
	if lapsed {
		clean, err := l.reclaimLapsed(ctx, now)
		if err != nil {
			return err
		}
		if clean {
			l.floor = now
		}
	} else {
		l.floor = now
	}
	if err := l.reclaimDead(ctx); err != nil {
		return err
	}
	return l.clean(ctx)
}

func readTick(results pgx.BatchResults) (nodes []liveNode, lanes []lane, now time.Time, lapsed bool, err error) {
	rows, err := results.Query()
	if err != nil {
		return nil, nil, now, false, err
	}
	nodeRows, err := pgx.CollectRows(rows, pgx.RowToStructByName[nodeRow])
	if err != nil {
		return nil, nil, now, false, err
	}
	if rows, err = results.Query(); err != nil {
		return nil, nil, now, false, err
	}
	laneRows, err := pgx.CollectRows(rows, pgx.RowToStructByName[laneRow])
	if err != nil {
		return nil, nil, now, false, err
	}
	if err := results.QueryRow().Scan(&now, &lapsed); err != nil {
		return nil, nil, now, false, err
	}
	for _, row := range nodeRows {
		node := liveNode{Number: row.Number, Types: row.Types, Held: row.Held}
		_ = json.Unmarshal([]byte(row.Queues), &node.Queues) // a row that somebody spoiled is a node without queues
		nodes = append(nodes, node)
	}
	return nodes, lanesOf(laneRows), now, lapsed, nil
}

// nextDue is how long until the first task of a lane that some node can work comes within the look-ahead.
func (l *leader) nextDue(lanes []lane) time.Duration {
	next := time.Duration(-1)
	for _, b := range budget(lanes, l.workingNodes(), nil, claimMost) {
		in := max(b.DueIn-l.lookAhead(), 0)
		if next < 0 || in < next {
			next = in
		}
	}
	return next
}

func (l *leader) lookAhead() time.Duration { return max(l.config.LookAhead, 0) }

// workingNodes leaves out nodes whose lock is free: they are dead or dying, and would not work what is claimed for them.
func (l *leader) workingNodes() []liveNode {
	return slices.DeleteFunc(slices.Clone(l.nodes), func(n liveNode) bool { return !n.Held && n.Number != l.session.number })
}

// client is null for what nobody has taken up yet. A job that is not the engine's counts as one task, whatever its metadata.
const loadsSQL = `
SELECT queue, kind AS type, CASE WHEN state = 'running' THEN attempted_by[array_length(attempted_by, 1)] END AS client,
    least(sum(CASE WHEN jsonb_typeof(metadata -> 'tasks') = 'number' THEN greatest((metadata ->> 'tasks')::numeric, 1) ELSE 1 END), 1000000)::int AS tasks
FROM tasktable.river_job WHERE state IN ('available', 'running') GROUP BY 1, 2, 3`

// pass claims what is due, as far as there is room, and hands it to River, in one transaction. Data that cannot be claimed, or
// a statement that takes too long, makes it take half as much; a single task that cannot be claimed is failed.
func (l *leader) pass(ctx context.Context) (look, error) {
	for {
		found, lanes, err := l.try(ctx, l.most)
		switch {
		case err == nil:
			l.most = min(l.most*2, claimMost)
			return found, nil
		case l.session.conn.IsClosed():
			return look{}, err
		case (isDataError(err) || isTimeout(err)) && l.most > 1:
			l.most /= 2
		case isDataError(err):
			failed, failErr := l.failBroken(ctx, lanes)
			if failErr != nil || failed == 0 { // else it would be tried for ever
				return look{}, errors.Join(err, failErr)
			}
		case isTimeout(err):
			return look{Next: 100 * time.Millisecond}, nil // one row, and it is locked: later
		default:
			return look{}, err
		}
	}
}

// try is a pass that takes at most so many tasks. It also returns the lanes it took them from.
func (l *leader) try(ctx context.Context, most int) (found look, due []laneBudget, err error) {
	var taken []claimed
	err = l.transaction(ctx, func(tx pgx.Tx) error {
		if due, found, err = l.survey(ctx, tx); err != nil || len(due) == 0 {
			return err
		}
		taken, err = l.take(ctx, tx, due, most)
		return err
	})
	if err != nil {
		return look{}, due, fmt.Errorf("pass: %w", err)
	}
	for _, c := range taken {
		if c.Fence == nil {
			found.Expired++
		} else {
			found.Claimed++
		}
	}
	if len(taken) > 0 {
		found.Next = 0 // what came meanwhile is claimed at once, together
		l.log.Debug("claimed", "tasks", found.Claimed, "expired", found.Expired)
	}
	return found, due, nil
}

// transaction runs do in a transaction on the session's connection. Each statement has the server's own time limit; the session
// counts as alive with each step that the server answers, so that slow work does not pass for a dead connection.
func (l *leader) transaction(ctx context.Context, do func(tx pgx.Tx) error) error {
	sent := time.Now()
	tx, err := l.session.conn.Begin(ctx)
	l.session.heard(sent, err)
	if err != nil {
		return err
	}
	if err := do(tx); err != nil {
		sent = time.Now()
		l.session.heard(sent, tx.Rollback(ctx))
		return err
	}
	sent = time.Now()
	err = tx.Commit(ctx)
	l.session.heard(sent, err)
	return err
}

// take claims tasks and hands them to River.
func (l *leader) take(ctx context.Context, tx pgx.Tx, lanes []laneBudget, most int) ([]claimed, error) {
	sent := time.Now()
	taken, err := l.statements.claim(ctx, tx, nil, l.lookAhead(), l.config.StartAllowance, lanes, most, l.setAside()...)
	l.session.heard(sent, err)
	if err != nil {
		return nil, err
	}
	sent = time.Now()
	err = l.insert(ctx, tx, taken, lanes)
	l.session.heard(sent, err)
	return taken, err
}

// survey lists the lanes with something due and the room for them.
func (l *leader) survey(ctx context.Context, tx pgx.Tx) (due []laneBudget, found look, err error) {
	sent := time.Now()
	defer func() { l.session.heard(sent, err) }()
	if _, err := tx.Exec(ctx, enterSQL); err != nil {
		return nil, look{}, fmt.Errorf("enter the engine's context: %w", err)
	}
	lanes, err := l.statements.lanes(ctx, tx, nil)
	if err != nil {
		return nil, look{}, err
	}
	rows, err := tx.Query(ctx, l.statements.schema.SQL(loadsSQL))
	if err != nil {
		return nil, look{}, fmt.Errorf("read loads: %w", err)
	}
	loads, err := pgx.CollectRows(rows, pgx.RowToStructByName[load])
	if err != nil {
		return nil, look{}, fmt.Errorf("read loads: %w", err)
	}
	found.Next = -1
	for _, b := range budget(lanes, l.workingNodes(), loads, claimMost) {
		switch in := b.DueIn - l.lookAhead(); {
		case in > 0:
			if found.Next < 0 || in < found.Next {
				found.Next = in
			}
		case b.Room == 0:
			found.Full = true
		default:
			due = append(due, b)
			if b.DueIn > 0 && (found.Next < 0 || b.DueIn < found.Next) {
				found.Next = b.DueIn // if it cannot be claimed ahead: then
			}
		}
	}
	return due, found, nil
}

// insert hands claimed tasks to River, in batches of one lane each.
func (l *leader) insert(ctx context.Context, tx pgx.Tx, taken []claimed, lanes []laneBudget) error {
	type key struct {
		queue, kind string
		priority    int
	}
	slots := map[key]int{}
	for _, b := range lanes {
		slots[key{b.Queue, b.Type, b.Priority}] = b.Slots
	}
	var order []key
	byLane := map[key][]hold{}
	for _, c := range taken {
		if c.Fence == nil {
			continue
		}
		k := key{c.Queue, c.Type, c.Priority}
		if byLane[k] == nil {
			order = append(order, k)
		}
		byLane[k] = append(byLane[k], c.hold())
	}
	var jobs []river.InsertManyParams
	for _, k := range order {
		average, measured := l.averages.of(k.kind)
		for holds := range slices.Chunk(byLane[k], batchSize(average, measured, len(byLane[k]), slots[k])) {
			jobs = append(jobs, jobOf(k.queue, k.kind, k.priority, holds))
		}
	}
	if len(jobs) == 0 {
		return nil
	}
	if _, err := l.river.InsertManyFastTx(ctx, tx, jobs); err != nil {
		return fmt.Errorf("hand %d batches to River: %w", len(jobs), err)
	}
	return nil
}

// failBroken finds the lanes whose head cannot be claimed, and fails those tasks where they stand. It returns how many.
func (l *leader) failBroken(ctx context.Context, lanes []laneBudget) (failed int, err error) {
	for _, b := range lanes {
		one := b
		one.Room = 1
		var broken head
		var why string
		err := l.transaction(ctx, func(tx pgx.Tx) error {
			if _, err := tx.Exec(ctx, enterSQL); err != nil {
				return fmt.Errorf("enter the engine's context: %w", err)
			}
			found, err := l.statements.lockHead(ctx, tx, one.lane, l.lookAhead(), l.setAside()...)
			if err != nil || found == nil {
				return err
			}
			err = pgx.BeginFunc(ctx, tx, func(savepoint pgx.Tx) error {
				_, err := l.take(ctx, savepoint, []laneBudget{one}, 1)
				return err
			})
			if !isDataError(err) {
				return err
			}
			broken, why = *found, scrub("the task cannot be claimed: "+err.Error())
			return l.statements.failHead(ctx, tx, broken, why)
		})
		if why != "" && isDataError(err) {
			// A rule or a trigger of the application's lets nobody change the row.
			l.aside[broken.ID] = time.Now().Add(asideFor)
			failed++
			l.log.Error("task can neither be claimed nor failed; it is let be for a while", "task", broken.ID, "type", one.Type, "revision", broken.Revision,
				"error", why, "and", err, "until", l.aside[broken.ID])
			continue
		}
		if err != nil {
			return failed, err
		}
		if why != "" {
			failed++
			l.log.Error("task cannot be claimed and is failed", "task", broken.ID, "type", one.Type, "revision", broken.Revision, "error", why)
		}
	}
	return failed, nil
}

const asideFor = time.Minute

// setAside lists the tasks that are let be.
func (l *leader) setAside() []string {
	maps.DeleteFunc(l.aside, func(_ string, until time.Time) bool { return time.Now().After(until) })
	return slices.Collect(maps.Keys(l.aside))
}

// numbers lists the nodes the leader takes for alive.
func (l *leader) numbers() []int64 {
	known := map[int64]bool{l.session.number: true}
	for _, node := range l.nodes {
		known[node.Number] = true
	}
	return slices.Sorted(maps.Keys(known))
}
