package doctor

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/tasktable/tasktable/store/inspect"
)

// listNodes returns the nodes whose session holds their lock, and the silent nodes, whose lock is free.
func (e *examination) listNodes(ctx context.Context) (alive, silent []inspect.Node, err error) {
	found, err := e.inspector.Nodes(ctx, e.tx, inspect.NodeFilter{Limit: 10000})
	for _, node := range found {
		if node.State == inspect.NodeSilent {
			silent = append(silent, node)
		} else {
			alive = append(alive, node)
		}
	}
	return alive, silent, err
}

// shortLivesSQL counts the nodes that ended soon after their start. A broken deployment has many of them.
const shortLivesSQL = `
SELECT n.service, count(*)::int AS nodes, max(n.dead_at) AS latest FROM tasktable.nodes AS n
WHERE n.dead_at > clock_timestamp() - interval '1 hour' AND n.dead_at - n.started_at < $1::float8 * interval '1 second'
GROUP BY n.service ORDER BY n.service`

type shortLivesRow struct {
	Service string
	Nodes   int
	Latest  time.Time
}

// nodes checks the nodes, and whether they work all queues and types.
func (e *examination) nodes(ctx context.Context) error {
	alive, silent, err := e.listNodes(ctx)
	if err != nil {
		return err
	}
	work, err := e.listWork(ctx)
	if err != nil {
		return err
	}
	if len(alive) == 0 {
		e.noNode(work)
	}
	for _, node := range silent {
		e.info("", "node %d (%s on %s) is gone, and the leader has not marked it so yet: that takes 5 s", node.Number,
			node.Service, node.Host)
	}
	e.services(alive)
	e.quiet(alive)
	if len(alive) > 0 {
		e.unworked(alive, work)
	}
	if err := e.hung(ctx); err != nil {
		return err
	}
	lives, err := rows[shortLivesRow](ctx, e, shortLivesSQL, e.config.limits.shortLife.Seconds())
	if err != nil {
		return err
	}
	for _, one := range lives {
		if one.Nodes >= e.config.limits.shortLives {
			e.warn("see the log of "+one.Service+": does it crash, is it killed for its memory, or does it lose the "+
				"connection to the database?",
				"%s of service %s ended within %s of their start in the last hour, the last at %s",
				several(one.Nodes, "node"), one.Service, short(e.config.limits.shortLife), instant(one.Latest))
		}
	}
	return nil
}

// hungSQL lists the handlers that ignore their contexts. Somebody may have damaged the column.
const hungSQL = `
SELECT n.number, n.service, n.host, h.key AS type, h.value AS handlers
FROM tasktable.nodes AS n
CROSS JOIN LATERAL jsonb_each_text(CASE WHEN jsonb_typeof(n.hung) = 'object' THEN n.hung ELSE '{}' END) AS h
WHERE n.dead_at IS NULL ORDER BY n.number, h.key LIMIT 100`

type hungRow struct {
	Number   int64
	Service  string
	Host     string
	Type     string
	Handlers string
}

// hung reports handlers that have not returned although their claims are over. Each keeps a slot of its node.
func (e *examination) hung(ctx context.Context) error {
	found, err := rows[hungRow](ctx, e, hungSQL)
	for _, one := range found {
		e.warn("restart the node, which frees their slots, and have handlers of "+one.Type+
			" end when their context does",
			"%s handlers of type %s on node %d (%s on %s) do not return, although their claims are over; "+
				"each keeps a slot", one.Handlers, one.Type, one.Number, one.Service, one.Host)
	}
	return err
}

func (e *examination) noNode(work *work) {
	due, more := 0, false
	for _, one := range work.kinds() {
		if !one.paused {
			due, more = due+one.due, more || one.more
		}
	}
	do := "start a node: tasktable serve, or your service with scheduled.New(…).Run(ctx)"
	if due > 0 {
		e.fail(do, "no node runs, and %s", wait(due, more, 0))
	} else {
		e.warn(do, "no node runs: nothing will be claimed")
	}
}

// services reports for each service the number of its nodes and their versions.
func (e *examination) services(alive []inspect.Node) {
	of := map[string][]inspect.Node{}
	for _, node := range alive {
		of[node.Service] = append(of[node.Service], node)
	}
	for _, service := range sorted(of) {
		nodes := of[service]
		versions, newest := map[string]int{}, time.Time{}
		for _, node := range nodes {
			versions[node.Version]++
			if node.StartedAt.After(newest) {
				newest = node.StartedAt
			}
		}
		if len(versions) == 1 {
			works := "queues " + queuesOf(nodes)
			if quietAmong(nodes) == len(nodes) {
				works = "all of them quiet"
			}
			e.ok("%s of service %s, version %s, %s", several(len(nodes), "node"), service, nodes[0].Version, works)
			continue
		}
		var counts []string
		for _, version := range sorted(versions) {
			counts = append(counts, fmt.Sprintf("%d of %s", versions[version], version))
		}
		e.info("", "service %s runs several versions side by side: %s; the last node began at %s", service,
			strings.Join(counts, ", "), instant(newest))
	}
}

// quietAmong counts the nodes that were told to take nothing new.
func quietAmong(nodes []inspect.Node) (quiet int) {
	for _, node := range nodes {
		if node.State == inspect.NodeQuiet {
			quiet++
		}
	}
	return quiet
}

// quietShown is how many quiet nodes a finding names.
const quietShown = 5

// quiet reports nodes that somebody has made quiet, and may have forgotten.
func (e *examination) quiet(alive []inspect.Node) {
	n := quietAmong(alive)
	if n == 0 {
		return
	}
	var names []string
	for _, node := range alive {
		if node.State == inspect.NodeQuiet && len(names) < quietShown {
			names = append(names, fmt.Sprintf("node %d (%s on %s)", node.Number, node.Service, node.Host))
		}
	}
	if n > quietShown {
		names = append(names, "…")
	}
	is := "are quiet, and take"
	if n == 1 {
		is = "is quiet, and takes"
	}
	e.info("to end that: kill -CONT its process, or call node.Unquiet(), or take away its option --pause all",
		"%d of %s %s nothing new: %s", n, several(len(alive), "node"), is, strings.Join(names, ", "))
}

// unworked reports due and future tasks whose queue and type no live node works.
func (e *examination) unworked(alive []inspect.Node, work *work) {
	for _, one := range work.kinds() {
		if one.worked || one.paused {
			continue
		}
		do := fmt.Sprintf("give a node a handler of %s, or cancel them: %s\n%s", one.Type,
			e.command("tasks cancel --type "+word(one.Type)+" --queue "+word(one.Queue)),
			e.sql("SELECT tasktable.cancel(id) FROM tasktable.scheduled_tasks WHERE type = %s AND queue = %s "+
				"AND next_attempt_at IS NOT NULL",
				quoted(one.Type), quoted(one.Queue)))
		why := "no live node has a handler of that type for that queue"
		if !slices.ContainsFunc(alive, func(n inspect.Node) bool { return n.Queues[one.Queue] > 0 }) {
			do = fmt.Sprintf("give a node the queue: --queue %s=10 (Config.Queues)", one.Queue)
			why = "no live node works that queue"
		}
		if quiet := quietAmong(alive); quiet == 1 {
			why += ", but 1 is quiet"
		} else if quiet > 1 {
			why += fmt.Sprintf(", but %d are quiet", quiet)
		}
		e.explained[[2]string{one.Queue, one.Type}] = true
		if one.due > 0 {
			e.fail(do, "%s of type %s in queue %s, the oldest for %s: %s", one.many(), one.Type, one.Queue,
				short(work.now.Sub(*one.oldest)), why)
		} else if one.next != nil {
			e.info(do, "tasks of type %s in queue %s are due from %s on: %s",
				one.Type, one.Queue, instant(*one.next), why)
		}
	}
}
