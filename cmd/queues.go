package cmd

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/tasktable/tasktable/cmd/internal/options"
	"github.com/tasktable/tasktable/cmd/internal/term"
	"github.com/tasktable/tasktable/store"
	"github.com/tasktable/tasktable/store/inspect"
)

func (p *program) queuesCommand() *cobra.Command {
	return group(&cobra.Command{
		Use:   "queues",
		Short: "Lists queues and their work; pauses and resumes queues, types and everything",
		Example: `  tasktable queues list
  tasktable queues pause mail --until +1h --reason "the mail server moves"
  tasktable queues resume mail`,
	}, p.queuesListCommand(), p.queuesPauseCommand(), p.queuesResumeCommand())
}

const queuesListHelp = `Lists the queues in which tasks wait or run, that a node works, or that are paused:

  DUE         tasks that could run now
  WAITING     tasks whose time has not come, retries included
  RUNNING     claimed tasks, also those that wait for a slot
  SLOTS       how many of its tasks the running nodes run at once; if a node shares its slots, all of them count for
              each of its queues
  OLDEST DUE  when the first of the due tasks became due
  LIMITED     the limits that hold back due tasks of it now
  PAUSED      the pauses that keep tasks from starting: of everything, of the queue, and of types with tasks in it

It does not count recurring tasks, because they never run themselves, and it does not count tasks that are paused as
single tasks. --lanes prints a line for each type and priority of a queue. In each lane it counts at most 10000 due
tasks and 10000 waiting tasks, unless --exact is given. A + means that there are more. Below the table it prints all
current pauses, with their reasons.

With --output json it prints an array of the queues, or of the lanes, each with its pauses.`

// queuesList is the command queues list.
type queuesList struct {
	*client
	filter inspect.QueueFilter
	exact  bool
}

func (p *program) queuesListCommand() *cobra.Command {
	l := &queuesList{client: p.client()}
	opts := []options.Option{
		{Flag: "queue", Kind: "name", Set: queueName(&l.filter.Queue), Complete: l.queues, Usage: "only this queue"},
		{Flag: "lanes", Set: options.Bool(&l.filter.Lanes),
			Usage: "prints a line for each type and priority that has tasks"},
		{Flag: "exact", Set: options.Bool(&l.exact), Usage: "counts all tasks, however many there are"},
	}
	return p.Bind(&cobra.Command{
		Use:   "list",
		Short: "Lists queues: how many tasks are due, wait and run, and how many nodes work them",
		Long:  queuesListHelp,
		Example: `  tasktable queues list
  tasktable queues list --queue mail --lanes
  tasktable queues list --output json | jq '.[] | select(.due > 0 and .slots == 0) | .queue'   # nobody works these`,
	}, append(opts, l.options()...), l.opened(l.run))
}

func (l *queuesList) run(ctx context.Context) error {
	if l.exact {
		l.filter.CountMost = -1
	}
	states, err := l.inspector.QueueStates(ctx, l.pool, l.filter)
	if err != nil {
		return err
	}
	t := term.NewTable("QUEUE", "TYPE", "PRIORITY", "DUE", "WAITING", "RUNNING", "SLOTS", "NODES", "OLDEST DUE",
		"LIMITED", "PAUSED")
	for _, state := range states {
		slots := term.CellOf(state.Slots)
		if state.Slots == 0 && state.Due > 0 {
			slots.Color = term.Red // nobody will run them
		}
		t.Add(state.Queue, state.Type, state.Priority, atLeast(state.Due, state.DueMore),
			atLeast(state.Waiting, state.WaitingMore), state.Running, slots, state.Nodes, l.When(state.OldestDue),
			strings.Join(state.Limits, ", "), pausedBy(state.Pauses))
	}
	if !l.filter.Lanes {
		t.Drop("TYPE", "PRIORITY")
	}
	if err := l.List(states, t,
		"There is no such queue: in none does a task wait or run, and no node works any."); err != nil || l.JSON {
		return err
	}
	return l.printPauses(ctx, states)
}

func atLeast(count int, more bool) term.Cell {
	c := term.CellOf(count)
	if more {
		c.Text += "+"
	}
	return c
}

// pausedBy names the scopes.
func pausedBy(pauses []store.Pause) term.Cell {
	scopes := textsOf(pauses, func(pause store.Pause) string { return pause.Of().String() })
	return term.Cell{Text: strings.Join(scopes, ", "), Color: term.Yellow}
}

// printPauses prints all pauses that hold. If one queue was asked for, it prints those of that queue.
func (l *queuesList) printPauses(ctx context.Context, states []inspect.QueueState) error {
	pauses, err := l.tasks.Pauses(ctx, l.pool)
	if err != nil {
		return err
	}
	if l.filter.Queue != "" {
		pauses = slices.DeleteFunc(pauses, func(pause store.Pause) bool {
			return !slices.ContainsFunc(states, func(state inspect.QueueState) bool {
				return slices.ContainsFunc(state.Pauses, func(its store.Pause) bool { return its.Of() == pause.Of() })
			})
		})
	}
	if len(pauses) == 0 {
		return nil
	}
	t := term.NewTable("PAUSED", "SINCE", "BY", "UNTIL", "REASON")
	for _, pause := range pauses {
		until := "resumed"
		if pause.EndsAt != nil {
			until = l.When(pause.EndsAt)
		}
		t.Add(term.Cell{Text: pause.Of().String(), Color: term.Yellow}, l.When(&pause.PausedAt), pause.PausedBy, until,
			pause.Reason)
	}
	fmt.Fprintln(l.Data)
	return t.Print(l.Data, l.Colors, l.Width)
}
