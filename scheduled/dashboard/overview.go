package dashboard

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/tasktable/tasktable/store"
	"github.com/tasktable/tasktable/store/inspect"
)

// How much of each list the overview shows.
const (
	maxTypes   = 10
	maxComing  = 10
	maxOverdue = 90 // more fires are read than shown, because overdue fires come first and are left out
	maxDead    = 5
	maxChanges = 8
	// maxChangesRead is how many changes are read to fold those of one act into a line.
	maxChangesRead = 200
)

const attentionFresh = time.Second

// attentionRead has what needs a person, and the nodes of the same time.
type attentionRead struct {
	found []inspect.Finding
	nodes []inspect.Node
}

// overviewView is the first page.
type overviewView struct {
	Cards     []attentionCard
	Calm      bool // nothing needs a person
	Nodes     nodesSummary
	Missing   []inspect.Finding // about nodes
	Window    window
	Windows   []window
	Charts    chartsView
	Types     []inspect.TypeStats // the busiest first
	TypesMore bool
	// TypesSince is set if the numbers of the types reach back less far than the window.
	TypesSince *time.Time
	Coming     []coming
	Trouble    []inspect.Finding // about recurring tasks
	Limits     []inspect.Finding
	Dead       []store.Row
	Changes    []changesFolded
}

// attentionCard is a kind of findings, with their sum.
type attentionCard struct {
	inspect.FindingKind
	inspect.Finding
	Tone string
}

// coming is a task that becomes due, or a recurring task that fires.
type coming struct {
	inspect.ComingTask
	Fires bool
}

func overviewPage(ctx context.Context, v *visit) (any, error) {
	chosen, err := windowOf(v.query("window"))
	if err != nil {
		return nil, err
	}
	view := overviewView{Window: chosen, Windows: windows}
	for _, read := range []func(context.Context, *visit, *overviewView) error{
		readAttention, readHistory, readComing, readLatest,
	} {
		if err := read(ctx, v, &view); err != nil {
			return nil, err
		}
	}
	return view, nil
}

func readAttention(ctx context.Context, v *visit, view *overviewView) error {
	read, err := v.board.attention.get(ctx, attentionFresh, func(attentionRead) (read attentionRead, err error) {
		if read.nodes, err = v.inspector.Nodes(ctx, v.db, inspect.NodeFilter{}); err != nil {
			return read, err
		}
		read.found, err = v.inspector.Attention(ctx, v.db)
		return read, err
	})
	if err != nil {
		return err
	}
	view.Nodes, view.Calm = nodesSummaryOf(read.nodes), len(read.found) == 0
	for _, kind := range inspect.FindingKinds() {
		of := slices.DeleteFunc(slices.Clone(read.found), func(f inspect.Finding) bool { return f.Kind != kind.Name })
		switch kind.Name {
		case "nodes":
			view.Missing = of
			continue
		case "recurring":
			view.Trouble = of
		case "limits":
			view.Limits = of
		}
		view.Cards = append(view.Cards, cardOf(kind, of))
	}
	return nil
}

// cardOf sums up the findings of a kind.
func cardOf(kind inspect.FindingKind, found []inspect.Finding) attentionCard {
	card := attentionCard{FindingKind: kind}
	for _, one := range found {
		card.Count, card.More = card.Count+one.Count, card.More || one.More
		if one.OldestAt != nil && (card.OldestAt == nil || one.OldestAt.Before(*card.OldestAt)) {
			card.OldestID, card.OldestAt = one.OldestID, one.OldestAt
		}
		if card.Tone != "bad" {
			card.Tone = findingTone(one)
		}
	}
	return card
}

// findingTone is the tone of a finding on a page.
func findingTone(found inspect.Finding) string {
	if found.Level == inspect.LevelError {
		return "bad"
	}
	return "warn"
}

// nodesSummary tells in short which nodes there are.
type nodesSummary struct {
	Leader *inspect.Node
	Text   string // about the others, or that nobody leads
	Tone   string
}

func nodesSummaryOf(nodes []inspect.Node) nodesSummary {
	summary := nodesSummary{Tone: "good"}
	counts := map[inspect.NodeState]int{}
	for i := range nodes {
		counts[nodes[i].State]++
		if nodes[i].State == inspect.NodeLeads {
			summary.Leader = &nodes[i]
		}
	}
	var told []string
	for _, one := range []struct {
		state inspect.NodeState
		word  string
	}{{inspect.NodeWorks, "working"}, {inspect.NodeQuiet, "quiet"}, {inspect.NodeSilent, "silent"}} {
		if n := counts[one.state]; n > 0 {
			told = append(told, fmt.Sprintf("%d %s", n, one.word))
		}
	}
	others := strings.Join(told, ", ")
	switch {
	case len(nodes) == 0:
		return nodesSummary{Text: "No node runs. Tasks wait until one does.", Tone: "bad"}
	case counts[inspect.NodeUnknown] > 0:
		return nodesSummary{Tone: "warn", Text: fmt.Sprintf("This database is a standby. It does not know which nodes "+
			"run. %d have not ended.", counts[inspect.NodeUnknown])}
	case summary.Leader == nil:
		summary.Text, summary.Tone = "No node leads, so nobody claims due tasks. Nodes: "+others+".", "bad"
	default:
		if others != "" {
			summary.Text = "Other nodes: " + others + "."
		}
		if counts[inspect.NodeSilent] > 0 {
			summary.Tone = "warn"
		}
	}
	return summary
}

func readHistory(ctx context.Context, v *visit, view *overviewView) error {
	buckets, err := v.series(ctx, view.Window)
	if err != nil {
		return err
	}
	view.Charts = chartsOf(buckets, view.Window, v.look.zone)
	found, err := v.busiest(ctx, view.Window)
	if err != nil {
		return err
	}
	if found.Bounded {
		view.TypesSince = &found.Since
	}
	view.Types = slices.SortedFunc(slices.Values(found.Types), func(a, b inspect.TypeStats) int {
		return cmp.Or(cmp.Compare(endedAttempts(b), endedAttempts(a)), cmp.Compare(a.Type, b.Type))
	})
	if len(view.Types) > maxTypes {
		view.Types, view.TypesMore = view.Types[:maxTypes], true
	}
	return nil
}

func endedAttempts(of inspect.TypeStats) int64 {
	return of.Completed + of.Failed + of.Retried + of.Lost + of.Expired + of.Other
}

func readComing(ctx context.Context, v *visit, view *overviewView) error {
	tasks, err := v.inspector.ComingTasks(ctx, v.db, maxComing)
	if err != nil {
		return err
	}
	fires, err := v.inspector.ComingFires(ctx, v.db, "", maxOverdue+maxComing)
	if err != nil {
		return err
	}
	for _, task := range tasks {
		view.Coming = append(view.Coming, coming{ComingTask: task})
	}
	for _, fire := range fires {
		if fire.At.Before(v.now) { // no node leads, which the page says first, or the leader is about to fire it
			continue
		}
		view.Coming = append(view.Coming, coming{inspect.ComingTask{
			ID: fire.ID, Type: fire.Type, Queue: fire.Queue, At: fire.At}, true})
	}
	slices.SortStableFunc(view.Coming, func(a, b coming) int { return a.At.Compare(b.At) })
	view.Coming = view.Coming[:min(len(view.Coming), maxComing)]
	return nil
}

// readLatest reads the last dead letters and the last changes.
func readLatest(ctx context.Context, v *visit, view *overviewView) error {
	filter := inspect.DeadLetters()
	filter.LatestFirst, filter.Limit = true, maxDead
	dead, err := v.inspector.Search(ctx, v.db, filter)
	if err != nil {
		return err
	}
	view.Dead = dead.Rows
	latest, err := v.inspector.Changes(ctx, v.db, inspect.ChangesFilter{Limit: maxChangesRead})
	view.Changes = foldChanges(latest.Changes, maxChanges, latest.After != 0)
	return err
}
