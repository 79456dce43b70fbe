package dashboard

import (
	"context"
	"slices"
	"strconv"
	"time"

	"github.com/tasktable/tasktable/store"
	"github.com/tasktable/tasktable/store/inspect"
)

// queuesView is the list of queues.
type queuesView struct {
	Queues []queueLine
	Pauses []pauseLine
	Form   pauseForm
}

// queueLine is a queue or a lane.
type queueLine struct {
	inspect.QueueState
	Key     string // within the page
	Longest *inspect.RunningTasks
	Text    string // what saturates it
	Tone    string
	// Filled is how many of its slots its claimed tasks fill.
	Filled int
}

// pauseLine is a pause that holds now.
type pauseLine struct {
	store.Pause
	Scope string // as store.ParseScope takes it
	Name  string // for people
	Key   string // it differs from that of a later pause of the scope
}

func queuesPage(ctx context.Context, v *visit) (any, error) {
	around, err := readAround(ctx, v)
	if err != nil {
		return nil, err
	}
	states, err := v.inspector.QueueStates(ctx, v.db, inspect.QueueFilter{})
	if err != nil {
		return nil, err
	}
	view := queuesView{Queues: around.lines(states), Pauses: pauseLines(around.pauses)}
	view.Form, err = pauseFormOf(ctx, v)
	return view, err
}

// around is what the sentences about queues need besides the state of a queue.
type around struct {
	visit  *visit
	led    bool
	work   inspect.Work
	pauses []store.Pause
}

func readAround(ctx context.Context, v *visit) (found around, err error) {
	found.visit = v
	nodes, err := v.inspector.Nodes(ctx, v.db, inspect.NodeFilter{})
	if err != nil {
		return found, err
	}
	found.led = slices.ContainsFunc(nodes, func(node inspect.Node) bool {
		return node.State == inspect.NodeLeads || node.State == inspect.NodeUnknown
	})
	if found.work, err = v.inspector.Work(ctx, v.db); err != nil {
		return found, err
	}
	found.pauses, err = v.tasks.Pauses(ctx, v.db)
	return found, err
}

func (a around) lines(states []inspect.QueueState) []queueLine {
	var lines []queueLine
	for _, state := range states {
		line := queueLine{QueueState: state, Key: state.Queue, Filled: min(state.Running, state.Slots)}
		if state.Type != nil {
			line.Key += " " + *state.Type + " " + strconv.Itoa(*state.Priority)
		} else { // Work does not tell tasks of lanes apart
			line.Longest = a.longest(state.Queue)
		}
		line.Text, line.Tone = saturation{state, a.led, line.Longest, a.visit.now, a.visit.look.zone}.sentence()
		lines = append(lines, line)
	}
	return lines
}

// longest returns the task of a queue that has run for longest.
func (a around) longest(queue string) *inspect.RunningTasks {
	for i := range a.work.Running { // the longest come first
		if a.work.Running[i].Queue == queue {
			return &a.work.Running[i]
		}
	}
	return nil
}

func pauseLines(pauses []store.Pause) []pauseLine {
	var lines []pauseLine
	for _, pause := range pauses {
		lines = append(lines, pauseLine{pause, pause.Of().String(), scopeName(pause.Of()), pauseKey(pause)})
	}
	return lines
}

func pauseKey(pause store.Pause) string { return pause.PausedAt.UTC().Format(time.RFC3339Nano) }

// queueView is one queue with its lanes.
type queueView struct {
	Queue  queueLine
	Lanes  []queueLine
	Pauses []pauseLine
	Form   pauseForm
}

func (q queueView) Title() string { return "Queue " + q.Queue.Queue }

func queuePage(ctx context.Context, v *visit) (any, error) {
	name := v.path("name")
	if err := store.CheckQueue(name); err != nil {
		return nil, err
	}
	around, err := readAround(ctx, v)
	if err != nil {
		return nil, err
	}
	states, err := v.inspector.QueueStates(ctx, v.db, inspect.QueueFilter{Queue: name})
	if err != nil {
		return nil, err
	}
	if len(states) == 0 { // nobody uses it yet
		states = []inspect.QueueState{{Queue: name}}
		for _, pause := range around.pauses {
			if pause.Of().Has(name, "") {
				states[0].Pauses = append(states[0].Pauses, pause)
			}
		}
	}
	lanes, err := v.inspector.QueueStates(ctx, v.db, inspect.QueueFilter{Queue: name, Lanes: true})
	if err != nil {
		return nil, err
	}
	view := queueView{
		Queue: around.lines(states)[0], Lanes: around.lines(lanes), Pauses: pauseLines(states[0].Pauses),
	}
	view.Form, err = pauseFormOf(ctx, v)
	if view.Form.Kind == "" {
		view.Form.Kind, view.Form.Name = "queue", name
	}
	return view, err
}
