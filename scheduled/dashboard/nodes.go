package dashboard

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/tasktable/tasktable/store/inspect"
)

const (
	maxNodes   = 300
	endedSince = 7 * 24 * time.Hour // the page shows the nodes that ended since
)

// nodesView is the list of nodes.
type nodesView struct {
	Summary  nodesSummary
	Versions []string // sentences about services whose nodes have several versions
	Live     []nodeLine
	Ended    []inspect.Node // nil unless they were asked for
	ShowsEnd bool
	More     bool // there are more nodes than are shown
}

// nodeLine is a node that has not ended.
type nodeLine struct {
	inspect.Node
	Slots   int
	InHand  int // tasks that it has fetched
	Filled  int // InHand, at most Slots
	Running int // tasks that have run for at least a second
	Longest *inspect.RunningTasks
}

func nodesPage(ctx context.Context, v *visit) (any, error) {
	view := nodesView{ShowsEnd: v.query("ended") != ""}
	found, err := v.inspector.Nodes(ctx, v.db, inspect.NodeFilter{Ended: view.ShowsEnd, Limit: maxNodes + 1})
	if err != nil {
		return nil, err
	}
	work, err := v.inspector.Work(ctx, v.db)
	if err != nil {
		return nil, err
	}
	if len(found) > maxNodes {
		found, view.More = found[:maxNodes], true
	}
	var live []inspect.Node
	for _, node := range found {
		slices.Sort(node.Types)
		switch {
		case node.State != inspect.NodeEnded:
			live = append(live, node)
			view.Live = append(view.Live, nodeLineOf(node, work))
		case node.DeadAt != nil && v.now.Sub(*node.DeadAt) < endedSince:
			view.Ended = append(view.Ended, node)
		}
	}
	view.Summary, view.Versions = nodesSummaryOf(live), mixedVersions(live)
	return view, nil
}

func nodeLineOf(node inspect.Node, work inspect.Work) nodeLine {
	line := nodeLine{Node: node, InHand: work.InHand[node.Number]}
	for _, slots := range node.Queues {
		line.Slots += slots
	}
	line.Filled = min(line.InHand, line.Slots)
	for i, running := range work.Running { // the longest come first
		if running.Node != node.Number {
			continue
		}
		line.Running += running.Count
		if line.Longest == nil {
			line.Longest = &work.Running[i]
		}
	}
	return line
}

// mixedVersions tells which services have nodes of several versions, as during a deployment.
func mixedVersions(nodes []inspect.Node) (sentences []string) {
	services := map[string]map[string]int{}
	for _, node := range nodes {
		if services[node.Service] == nil {
			services[node.Service] = map[string]int{}
		}
		services[node.Service][node.Version]++
	}
	for _, service := range slices.Sorted(maps.Keys(services)) {
		versions := services[service]
		if len(versions) < 2 {
			continue
		}
		var told []string
		for _, version := range slices.Sorted(maps.Keys(versions)) {
			told = append(told, fmt.Sprintf("%s (%d)", version, versions[version]))
		}
		sentences = append(sentences, fmt.Sprintf("The nodes of %s have several versions: %s.", service,
			strings.Join(told, ", ")))
	}
	return sentences
}
