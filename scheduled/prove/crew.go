package prove

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tasktable/tasktable/scheduled/internal/throwaway"
)

// member is a node of the crew.
type member struct {
	*throwaway.Process
	number int // its number among the proof's processes, from 1
}

// crew is the nodes of the proof. After a kill a node is missing for a while.
type crew struct {
	run       *run
	watches   sync.WaitGroup
	replacing sync.WaitGroup

	mu      sync.Mutex
	alive   map[int]member // by PID
	started int
	kills   int
	ending  bool
}

func newCrew(r *run) *crew { return &crew{run: r, alive: map[int]member{}} }

const leadsSQL = `
SELECT EXISTS (
    SELECT 1 FROM pg_locks WHERE locktype = 'advisory' AND objsubid = 2 AND objid = 0 AND granted
        AND database = (SELECT oid FROM pg_database WHERE datname = current_database()))`

// start starts all nodes, and returns when they are registered and one leads.
func (c *crew) start(ctx context.Context) error {
	var starting sync.WaitGroup
	errs := make([]error, nodes)
	for i := range errs {
		starting.Go(func() { _, errs[i] = c.add(ctx) })
	}
	starting.Wait()
	if err := errors.Join(errs...); err != nil {
		return err
	}
	return c.run.Until(ctx, time.Minute, "a node leads", leadsSQL)
}

const registeredSQL = `
SELECT EXISTS (SELECT 1 FROM tasktable.nodes WHERE dead_at IS NULL AND host LIKE '%/' || $1::int::text)`

// add starts a node, and returns when it is registered.
func (c *crew) add(ctx context.Context) (member, error) {
	c.mu.Lock()
	c.started++
	m := member{number: c.started}
	c.mu.Unlock()
	var err error
	environment := []string{fmt.Sprintf("%s=%d", processVariable, m.number)}
	m.Process, err = c.run.Start(ctx, c.run.Program, c.run.Arguments, environment)
	if err != nil {
		return m, err
	}
	c.mu.Lock()
	c.alive[m.PID] = m
	c.mu.Unlock()
	c.watches.Go(func() { c.watch(ctx, m) })
	return m, c.run.Until(ctx, time.Minute, "the node is registered", registeredSQL, m.PID)
}

// watch reports a node that ends although nobody has killed it.
func (c *crew) watch(ctx context.Context, m member) {
	<-m.Done
	c.mu.Lock()
	_, unexpected := c.alive[m.PID]
	unexpected = unexpected && !c.ending
	c.mu.Unlock()
	if unexpected {
		c.run.report(ctx, fmt.Errorf("node %d ended by itself: %w", m.number, m.Failure()))
	}
}

// victim is a node that may be killed.
type victim struct {
	PID      int
	Leads    bool
	Handlers int // how many have been called and have not returned
	At       time.Time
}

// victimSQL chooses the node with the most running handlers. It counts them in the proof's own record, because a job
// runs a moment longer than its handler. It counts only nodes that have a running job in River. The leader is the
// node whose session holds the lock with number 0. $3 says whether the leader is wanted.
const victimSQL = `
SELECT pid, leads, handlers, clock_timestamp()
FROM (
    SELECT m.pid, EXISTS (
            SELECT 1 FROM pg_locks AS l JOIN pg_locks AS own USING (pid, database, locktype, objsubid, granted)
            WHERE l.locktype = 'advisory' AND l.objsubid = 2 AND l.granted AND l.objid = 0
                AND own.objid::bigint = n.number
                AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database())) AS leads,
        CASE WHEN EXISTS (
            SELECT 1 FROM tasktable.river_job AS j
            WHERE j.state = 'running' AND j.attempted_by[array_length(j.attempted_by, 1)] = 'tasktable-' || n.number)
        THEN (SELECT count(*) FROM proof.runs AS r WHERE r.process = m.process AND r.ended_at IS NULL)
        ELSE 0 END AS handlers
    FROM unnest($1::int[], $2::int[]) AS m (pid, process)
    JOIN LATERAL (
        SELECT max(number) AS number FROM tasktable.nodes WHERE dead_at IS NULL AND host LIKE '%/' || m.pid
    ) AS n ON n.number IS NOT NULL
) AS v
ORDER BY leads = $3 DESC, handlers DESC, pid LIMIT 1`

// choose waits up to two seconds for a node with a running handler, and prefers the leader if it is wanted. It then
// returns the best node. PID 0 means that there is no node.
func (c *crew) choose(ctx context.Context, leader bool) (v victim, err error) {
	limit := time.NewTimer(2 * time.Second)
	defer limit.Stop()
	ticker := time.NewTicker(2 * time.Millisecond)
	defer ticker.Stop()
	for {
		var pids, numbers []int
		c.mu.Lock()
		for pid, m := range c.alive {
			pids, numbers = append(pids, pid), append(numbers, m.number)
		}
		c.mu.Unlock()
		err = c.run.Scan(ctx, victimSQL, []any{pids, numbers, leader}, &v.PID, &v.Leads, &v.Handlers, &v.At)
		if err != nil && !errors.Is(err, pgx.ErrNoRows) {
			return v, fmt.Errorf("choose a node: %w", err)
		}
		if err == nil && v.Handlers > 0 {
			return v, nil
		}
		select {
		case <-ctx.Done():
			return v, context.Cause(ctx)
		case <-limit.C:
			return v, nil
		case <-ticker.C:
		}
	}
}

const (
	killedSQL = `INSERT INTO proof.kills (process, led, killed_at) VALUES ($1, $2, $3)`
	cutOffSQL = `SELECT count(*) FROM proof.runs WHERE process = $1 AND ended_at IS NULL`
)

// kill kills a node with a running handler, every third time the leader, and starts another node in its place.
func (c *crew) kill(ctx context.Context) error {
	c.kills++
	v, err := c.choose(ctx, c.kills%3 == 0)
	if err != nil {
		return err
	}
	c.mu.Lock()
	m, found := c.alive[v.PID]
	delete(c.alive, v.PID)
	c.mu.Unlock()
	if !found {
		c.run.Say("no node to kill; the next one is on its way")
		return nil
	}
	m.Kill()
	if _, err := c.run.Pool.Exec(ctx, killedSQL, m.number, v.Leads, v.At); err != nil {
		return fmt.Errorf("record a kill: %w", err)
	}
	var cutOff int
	if err := c.run.Scan(ctx, cutOffSQL, []any{m.number}, &cutOff); err != nil {
		return fmt.Errorf("ask what was cut off: %w", err)
	}
	led := ""
	if v.Leads {
		led = ", the leader"
	}
	c.run.Say("killed node %d (PID %d%s) within %d handlers", m.number, m.PID, led, cutOff)
	c.replacing.Go(func() { c.run.report(ctx, c.replace(ctx)) })
	return nil
}

func (c *crew) replace(ctx context.Context) error {
	if err := pause(ctx, replaceAfter); err != nil {
		return err
	}
	m, err := c.add(ctx)
	if err == nil {
		c.run.Say("node %d (PID %d) comes in its place", m.number, m.PID)
	}
	return err
}

// stop ends all nodes, and returns when their processes and goroutines have ended. Do not call kill afterwards.
func (c *crew) stop() {
	c.replacing.Wait()
	c.mu.Lock()
	c.ending = true
	alive := c.alive
	c.alive = map[int]member{}
	c.mu.Unlock()
	var stopping sync.WaitGroup
	for _, m := range alive {
		stopping.Go(func() { m.Stop(stopLimit) })
	}
	stopping.Wait()
	c.watches.Wait()
}
