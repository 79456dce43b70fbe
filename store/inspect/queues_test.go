package inspect_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tasktable/tasktable/store"
	"github.com/tasktable/tasktable/store/inspect"
)

// lane puts tasks that are due, that wait, and that are claimed into the table.
func (b *bench) lane(queue, kind string, priority, due, waiting, running int) {
	b.Helper()
	var tasks []store.Task
	for i := range due + waiting + running {
		task := store.Task{
			ID: fmt.Sprint(queue, kind, priority, " ", i), Payload: typed(kind), Queue: queue, Priority: priority,
			At: far(i),
		}
		if i < due {
			task.At = longAgo.Add(time.Duration(i) * time.Hour)
		}
		tasks = append(tasks, task)
	}
	b.must(b.Tasks.ScheduleMany(b.Ctx, b.Pool, tasks))
	b.Waited()
	b.AsEngine(func(tx pgx.Tx) {
		b.Exec(tx, `UPDATE tasktable.scheduled_tasks
			SET status = 'EXECUTING', fence = nextval('tasktable.task_numbers'), lease_expires_at = '2100-01-01Z',
			next_attempt_at = NULL WHERE queue = $1 AND type = $2 AND priority = $3
			AND substring(id FROM ' (.*)')::int >= $4`, queue, kind, priority, due+waiting)
	})
}

// longAgo is a time that was.
var longAgo = time.Date(2020, 1, 1, 0, 0, 0, 0, time.UTC)

func at(hours int) *time.Time { return new(longAgo.Add(time.Duration(hours) * time.Hour)) }

func inUTC(states []inspect.QueueState) []inspect.QueueState {
	for i := range states {
		for _, at := range []**time.Time{&states[i].OldestDue, &states[i].NextDue} {
			if *at != nil {
				*at = new((*at).UTC())
			}
		}
		for j := range states[i].Pauses {
			states[i].Pauses[j].PausedAt = time.Time{}
		}
	}
	return states
}

func TestQueueStates(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.lane("default", "AA", 0, 3, 4, 2)
	b.lane("default", "AA", 5, 1, 0, 0)
	b.lane("default", "BB", 0, 0, 1, 0)
	b.lane("mail", "BB", 0, 0, 0, 1)
	b.lane("lost", "AA", 0, 2, 0, 0)
	// None of these is a task to run.
	for i, kind := range []string{"PAUSED", "COMPLETED", "FAILED", "CANCELLED"} {
		b.Make(kind, kind)
		b.Exec(b.Pool, `UPDATE tasktable.scheduled_tasks SET queue = 'default' WHERE id = $1`, kind)
		b.MakeRecurring(fmt.Sprint("recurring ", i), "planned")
	}
	b.session(b.line("one", `{"default": 10, "mail": 2}`, `{AA,BB}`), true)
	b.session(b.line("two", `{"default": 5, "idle": 1}`, `{BB}`), false)
	b.Exec(b.Pool, `UPDATE tasktable.nodes SET shares_slots = true WHERE service = 'two'`)
	b.line("silent", `{"default": 100, "lost": 100, "gone": 1}`, `{AA,BB}`)
	for _, pause := range []struct {
		scope  store.Scope
		until  time.Time
		reason string
	}{
		{store.Queue("mail"), far(0), "it moves"}, {store.Type("BB"), time.Time{}, ""},
		{store.Queue("stopped"), time.Time{}, ""}, {store.Queue("idle"), longAgo, ""},
	} {
		b.must(b.Tasks.PauseScope(b.Ctx, b.Pool, pause.scope, pause.until, pause.reason))
	}
	mail := store.Pause{
		Scope: "queue", Name: "mail", PausedBy: service, EndsAt: new(far(0)), Reason: new("it moves"),
	}
	kindB := store.Pause{Scope: "type", Name: "BB", PausedBy: service}
	stopped := store.Pause{Scope: "queue", Name: "stopped", PausedBy: service}
	laneOf := func(kind string, priority int, state inspect.QueueState) inspect.QueueState {
		state.Type, state.Priority = &kind, &priority
		return state
	}
	queues := []inspect.QueueState{
		{
			Queue: "default", Due: 4, Waiting: 5, Running: 2, OldestDue: at(0), NextDue: new(far(0)), Nodes: 2,
			Slots: 16, Pauses: []store.Pause{kindB},
		},
		{Queue: "idle", Nodes: 1, Slots: 6},
		{Queue: "lost", Due: 2, OldestDue: at(0)},
		{Queue: "mail", Running: 1, Nodes: 1, Slots: 2, Pauses: []store.Pause{mail, kindB}},
		{Queue: "stopped", Pauses: []store.Pause{stopped}},
	}
	lanes := []inspect.QueueState{
		laneOf("AA", 5, inspect.QueueState{Queue: "default", Due: 1, OldestDue: at(0), Nodes: 1, Slots: 10}),
		laneOf("AA", 0, inspect.QueueState{
			Queue: "default", Due: 3, Waiting: 4, Running: 2, OldestDue: at(0), NextDue: new(far(3)), Nodes: 1,
			Slots: 10,
		}),
		laneOf("BB", 0, inspect.QueueState{
			Queue: "default", Waiting: 1, NextDue: new(far(0)), Nodes: 2, Slots: 16, Pauses: []store.Pause{kindB},
		}),
		laneOf("AA", 0, inspect.QueueState{Queue: "lost", Due: 2, OldestDue: at(0)}),
		laneOf("BB", 0, inspect.QueueState{
			Queue: "mail", Running: 1, Nodes: 1, Slots: 2, Pauses: []store.Pause{mail, kindB},
		}),
	}
	bounded := func(states []inspect.QueueState, change func(i int, s *inspect.QueueState)) []inspect.QueueState {
		changed := append([]inspect.QueueState{}, states...)
		for i := range changed {
			change(i, &changed[i])
		}
		return changed
	}
	for name, c := range map[string]struct {
		filter inspect.QueueFilter
		want   []inspect.QueueState
	}{
		"queues":       {inspect.QueueFilter{}, queues},
		"all of them":  {inspect.QueueFilter{CountMost: -1}, queues},
		"lanes":        {inspect.QueueFilter{Lanes: true}, lanes},
		"one":          {inspect.QueueFilter{Queue: "mail"}, queues[3:4]},
		"lanes of one": {inspect.QueueFilter{Queue: "default", Lanes: true}, lanes[:3]},
		"idle":         {inspect.QueueFilter{Queue: "idle"}, queues[1:2]},
		"none":         {inspect.QueueFilter{Queue: "none"}, []inspect.QueueState{}},
		"just enough":  {inspect.QueueFilter{CountMost: 4}, queues},
		"lanes up to two": {
			inspect.QueueFilter{Lanes: true, CountMost: 2}, bounded(lanes, func(i int, s *inspect.QueueState) {
				if i == 1 {
					s.Due, s.Waiting, s.DueMore, s.WaitingMore = 2, 2, true, true
				}
			}),
		},
		"up to three of a lane": {
			inspect.QueueFilter{CountMost: 3}, bounded(queues, func(i int, s *inspect.QueueState) {
				if i == 0 {
					s.Waiting, s.WaitingMore = 4, true
				}
			}),
		},
	} {
		for driver, db := range b.Readers() {
			states, err := b.Inspector.QueueStates(b.Ctx, db, c.filter)
			b.Check(err)
			same(b, name+": "+driver, inUTC(states), c.want)
		}
	}

	b.must(b.Tasks.PauseScope(b.Ctx, b.Pool, store.Everything(), time.Time{}, "all"))
	states, err := b.Inspector.QueueStates(b.Ctx, b.Pool, inspect.QueueFilter{})
	b.Check(err)
	for _, state := range states {
		if state.Pauses[0].Scope != "all" {
			t.Errorf("%s is not paused: %s", state.Queue, pretty(state))
		}
	}
	for _, filter := range []inspect.QueueFilter{{CountMost: -2}, {Queue: "a\x00"}} {
		if _, err := b.Inspector.QueueStates(b.Ctx, noDB(b), filter); !errors.Is(err, store.ErrInvalid) {
			t.Errorf("%+v: %v", filter, err)
		}
	}
}
