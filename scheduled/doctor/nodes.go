package doctor

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/tasktable/tasktable/scheduled/internal/plan"
	"github.com/tasktable/tasktable/store/inspect"
)

// listNodes returns the nodes whose session holds their lock, and the silent nodes, whose lock is free.
func (e *examination) listNodes(ctx context.Context) (alive []inspect.Node, err error) {
	found, err := e.inspector.Nodes(ctx, e.tx, inspect.NodeFilter{Limit: 10000})
	return slices.DeleteFunc(found, func(n inspect.Node) bool { return n.State == inspect.NodeSilent }), err
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

// nodes reports the nodes of each service. Attention tells which nodes and handlers are missing, silent or hung.
func (e *examination) nodes(ctx context.Context) error {
	alive, err := e.listNodes(ctx)
	if err != nil {
		return err
	}
	if len(alive) == 0 {
		e.info("", "no node runs")
	}
	e.services(alive)
	e.quiet(alive)
	e.strictQueues(alive)
	if err := e.defaults(ctx, alive); err != nil {
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
			switch {
			case quietAmong(nodes) == len(nodes):
				works = "all of them quiet"
			case queuesOf(nodes) == "":
				works = "which run no tasks"
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
	e.info("to end that: kill -CONT its process, or call node.Unquiet()",
		"%d of %s %s nothing new: %s", n, several(len(alive), "node"), is, strings.Join(names, ", "))
}

// strictQueues reports orders of queues that the leader ignores.
func (e *examination) strictQueues(alive []inspect.Node) {
	of, orders := map[string]int64{}, [][]string(nil)
	for _, node := range slices.Backward(alive) { // that of the node that began last counts first
		text := strings.Join(node.StrictQueues, ",")
		if _, known := of[text]; !known && text != "" {
			of[text], orders = node.Number, append(orders, node.StrictQueues)
		}
	}
	joined, ignored := plan.StrictOrder(orders)
	for _, order := range ignored {
		text := strings.Join(order, ",")
		e.warn("give all nodes the same --strict-queues",
			"the leader ignores the order of queues of node %d, %s, because it contradicts nodes that began later; it "+
				"goes by %s", of[text], text, strings.Join(joined, ","))
	}
}

// nodeDefaultsSQL lists the different defaults of all types, each with the node that began last.
const nodeDefaultsSQL = `
SELECT max(n.number) AS number, n.defaults::text AS defaults FROM tasktable.nodes AS n
WHERE n.number = ANY ($1::bigint[]) AND n.defaults IS NOT NULL GROUP BY n.defaults ORDER BY 1`

type nodeDefaultsRow struct {
	Number   int64
	Defaults string
}

// defaults reports nodes that were started with different defaults of all types.
func (e *examination) defaults(ctx context.Context, alive []inspect.Node) error {
	var numbers []int64
	for _, node := range alive {
		numbers = append(numbers, node.Number)
	}
	found, err := rows[nodeDefaultsRow](ctx, e, nodeDefaultsSQL, numbers)
	if err != nil || len(found) < 2 {
		return err
	}
	first, last := found[0], found[len(found)-1]
	e.warn("give all nodes the same --default-queue and --max-attempts; tasktable types list shows what holds",
		"nodes have different defaults of all types, of which those of the last start hold, such as node %d %s and "+
			"node %d %s", first.Number, first.Defaults, last.Number, last.Defaults)
	return nil
}

// queuesOf returns the queues that nodes work, with the sum of their slots.
func queuesOf(nodes []inspect.Node) string {
	slots := map[string]int{}
	for _, node := range nodes {
		for queue, n := range node.Queues {
			slots[queue] += n
		}
	}
	var told []string
	for _, queue := range sorted(slots) {
		told = append(told, fmt.Sprintf("%s=%d", queue, slots[queue]))
	}
	return strings.Join(told, " ")
}
