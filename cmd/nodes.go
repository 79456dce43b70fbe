package cmd

import (
	"context"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/tasktable/tasktable/store"
)

const nodesHelp = `Lists the nodes: the running engines, in serve processes and in services that embed one. A node that has lost its
session goes on as another, with a number of its own.

  leads    it works, and it claims the due tasks for all
  works    its session holds its lock
  quiet    it starts nothing new, as it was told (SIGTSTP, Node.Quiet, or everything is paused on it), and finishes what runs
  silent   its lock is free: within seconds a leader takes it for dead
  ended    it has stopped, or a leader has found it dead
  unknown  asked on a standby, which sees no locks

LAST SEEN is when its session last said something, as it does each second; - where the database role may not see other
roles' sessions (GRANT pg_read_all_stats lets it). QUEUES are the slots of each queue. TYPES, those it
has handlers for, are cut at the width of a terminal.

With --output json it is an array of the nodes.`

// nodes is the command nodes.
type nodes struct {
	*client
	filter store.NodeFilter
}

func (p *program) nodesCommand() *cobra.Command {
	n := &nodes{client: p.client()}
	options := []option{
		{flag: "all", set: toggle(&n.filter.Ended), usage: "also those that have ended, the last first, as long as retention keeps them"},
		{flag: "of-service", value: "name", set: text(&n.filter.Service, store.MaxIDBytes), usage: "only nodes of this service"},
		{flag: "limit", value: "number", fallback: "1000", set: whole(&n.filter.Limit, 1, 10000), usage: "how many nodes"},
	}
	return p.bind(&cobra.Command{
		Use:   "nodes",
		Short: "Lists the nodes: which leads, what each works, and since when",
		Long:  nodesHelp,
		Example: `  tasktable nodes
  tasktable nodes --all --limit 20
  tasktable nodes --output json | jq -r '.[] | select(.state == "leads") | .host'`,
	}, append(options, n.options()...), n.opened(n.run))
}

// nodeColors are those of states.
var nodeColors = map[store.NodeState]color{store.NodeLeads: green, store.NodeQuiet: yellow, store.NodeSilent: red, store.NodeEnded: faint, store.NodeUnknown: yellow}

func (n *nodes) run(ctx context.Context) error {
	found, err := n.tasks.Nodes(ctx, n.pool, n.filter)
	if err != nil {
		return err
	}
	headings := []string{"NODE", "STATE", "SERVICE", "VERSION", "HOST", "SINCE", "LAST SEEN", "QUEUES", "TYPES"}
	if n.filter.Ended {
		headings = slices.Insert(headings, 7, "ENDED AT")
	}
	t := newTable(headings...)
	for _, node := range found {
		types := strings.Join(slices.Sorted(slices.Values(node.Types)), " ")
		seen := ""
		if node.LastSeen != nil {
			seen = n.relative(*node.LastSeen)
		}
		row := []any{node.Number, cell{text: string(node.State), color: nodeColors[node.State]}, node.Service, node.Version, node.Host,
			n.when(&node.StartedAt), seen, slotsText(node), types}
		if n.filter.Ended {
			row = slices.Insert(row, 7, any(n.when(node.DeadAt)))
		}
		t.add(row...)
	}
	return n.list(found, t, "There is no node: nothing is run. tasktable serve is one, or a service that embeds the engine.")
}

func sortedKeys[V any](of map[string]V) []string { return slices.Sorted(maps.Keys(of)) }
