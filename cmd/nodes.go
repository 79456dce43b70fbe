package cmd

import (
	"context"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/tasktable/tasktable/cmd/internal/options"
	"github.com/tasktable/tasktable/cmd/internal/term"
	"github.com/tasktable/tasktable/store"
	"github.com/tasktable/tasktable/store/inspect"
)

const nodesHelp = `Lists the nodes: the running engines, in serve processes and in services that embed one. If a node
loses its session, it goes on as a new node with a new number.

  leads    it claims the due tasks for all nodes
  works    its session holds its lock, and it does not lead
  quiet    it starts nothing new, and finishes running tasks (after SIGTSTP or Node.Quiet)
  silent   its lock is free; within seconds the leader declares it dead
  ended    it has stopped, or a leader has found it dead
  unknown  the database is a standby, which does not see the locks

ROLE says which nodes may lead (leader, both) and which run tasks (worker, both). It is - while the node is quiet.

LAST SEEN is when its session last sent a statement, which it does each second. It is - if the database role may not see
the sessions of other roles (GRANT pg_read_all_stats allows it). QUEUES are the slots of each queue, and of each
type with a limit. TYPES are the types that it has handlers for, cut at the width of the terminal.

With --output json it prints an array of the nodes.`

// nodes is the command nodes.
type nodes struct {
	*client
	filter inspect.NodeFilter
}

func (p *program) nodesCommand() *cobra.Command {
	n := &nodes{client: p.client()}
	opts := []options.Option{
		{Flag: "all", Set: options.Bool(&n.filter.Ended),
			Usage: "also nodes that have ended, the last first, as long as retention keeps them"},
		{Flag: "of-service", Kind: "name", Set: options.Text(&n.filter.Service, store.MaxIDBytes),
			Usage: "only nodes of this service"},
		{Flag: "limit", Kind: "number", Default: "1000", Set: options.Int(&n.filter.Limit, 1, 10000),
			Usage: "how many nodes"},
	}
	return p.Bind(&cobra.Command{
		Use:   "nodes",
		Short: "Lists the nodes: which leads, what each works, and since when",
		Long:  nodesHelp,
		Example: `  tasktable nodes
  tasktable nodes --all --limit 20
  tasktable nodes --output json | jq -r '.[] | select(.state == "leads") | .host'`,
	}, append(opts, n.options()...), n.opened(n.run))
}

// nodeColors are those of states.
var nodeColors = map[inspect.NodeState]term.Color{inspect.NodeLeads: term.Green, inspect.NodeQuiet: term.Yellow,
	inspect.NodeSilent: term.Red, inspect.NodeEnded: term.Faint, inspect.NodeUnknown: term.Yellow}

func (n *nodes) run(ctx context.Context) error {
	found, err := n.inspector.Nodes(ctx, n.pool, n.filter)
	if err != nil {
		return err
	}
	t := term.NewTable("NODE", "STATE", "ROLE", "SERVICE", "VERSION", "HOST", "SINCE", "LAST SEEN", "ENDED AT",
		"QUEUES", "TYPES")
	for _, node := range found {
		types := strings.Join(slices.Sorted(slices.Values(node.Types)), " ")
		seen := ""
		if node.LastSeen != nil {
			seen = n.Relative(*node.LastSeen)
		}
		t.Add(node.Number, term.Cell{Text: string(node.State), Color: nodeColors[node.State]}, node.Role,
			node.Service, node.Version, node.Host, n.When(&node.StartedAt), seen, n.When(node.DeadAt), node.SlotsText(),
			types)
	}
	if !n.filter.Ended {
		t.Drop("ENDED AT")
	}
	return n.List(found, t, "There is no node: nothing is run. tasktable serve is one, or a service that embeds the "+
		"engine.")
}

func sortedKeys[V any](of map[string]V) []string { return slices.Sorted(maps.Keys(of)) }
