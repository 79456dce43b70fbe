package dashboard

import (
	"testing"
	"time"

	"github.com/tasktable/tasktable/store"
	"github.com/tasktable/tasktable/store/inspect"
)

func TestSaturation(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)
	at := func(d time.Duration) *time.Time { return new(now.Add(d)) }
	kind, reason := "MAIL", "it moves."
	longest := &inspect.RunningTasks{Since: now.Add(-12 * time.Minute)}
	byQueue := store.Pause{Scope: "queue", Name: "mail", PausedBy: "ann", EndsAt: at(time.Hour), Reason: &reason}
	all, byType := store.Pause{Scope: "all", PausedBy: "bob"}, store.Pause{Scope: "type", Name: kind, PausedBy: "cy"}
	due := inspect.QueueState{Due: 3, OldestDue: at(-5 * time.Minute), Nodes: 2, Slots: 20, Running: 7}
	with := func(change func(*inspect.QueueState)) inspect.QueueState {
		state := due
		change(&state)
		return state
	}
	for name, c := range map[string]struct {
		state inspect.QueueState
		led   bool
		want  string
		tone  string
	}{
		"nothing":       {inspect.QueueState{Nodes: 1, Slots: 2}, true, "Nothing is due, and nothing waits.", "good"},
		"later":         {inspect.QueueState{Nodes: 1, Slots: 2, Waiting: 1, NextDue: at(time.Hour)}, true, "Nothing is due. The next task is due in 1 h.", "good"},
		"runs":          {inspect.QueueState{Nodes: 1, Slots: 2, Running: 1}, true, "Its tasks start as they become due.", "busy"},
		"just due":      {with(func(s *inspect.QueueState) { s.OldestDue = at(-time.Second) }), true, "Its tasks start as they become due.", "busy"},
		"full":          {with(func(s *inspect.QueueState) { s.Running = 20 }), true, "All 20 slots are busy. One task has run for 12 min. The oldest due task has waited for 5 min.", "warn"},
		"one slot":      {with(func(s *inspect.QueueState) { s.Slots, s.Running = 1, 3 }), true, "The only slot is busy. One task has run for 12 min. The oldest due task has waited for 5 min.", "warn"},
		"free, yet not": {due, true, "Slots are free, and yet tasks wait. The oldest due task has waited for 5 min.", "warn"},
		"limited": {with(func(s *inspect.QueueState) { s.Limits = []string{"a", "b"} }), true,
			"Held back by limit a and limit b. The oldest due task has waited for 5 min.", "warn"},
		"nobody leads": {due, false, "No node leads, so nobody claims its due tasks. The oldest due task has waited for 5 min.", "bad"},
		"no node":      {with(func(s *inspect.QueueState) { s.Nodes, s.Slots = 0, 0 }), true, "No node works this queue. The oldest due task has waited for 5 min.", "bad"},
		"no node yet":  {inspect.QueueState{Waiting: 2, NextDue: at(time.Minute)}, true, "No node works this queue. Its first task is due in 1 min.", "warn"},
		"not used":     {inspect.QueueState{}, false, "No node works this queue.", "warn"},
		"no node for the lane": {with(func(s *inspect.QueueState) { s.Nodes, s.Slots, s.Type = 0, 0, &kind }), true,
			"No node works this lane. The oldest due task has waited for 5 min.", "bad"},
		"paused": {with(func(s *inspect.QueueState) { s.Pauses = []store.Pause{all, byQueue, byType} }), false,
			"Everything is paused by bob. Queue mail is paused by ann until 2026-01-02 13:00:00 UTC: it moves. The oldest due task has waited for 5 min.", "warn"},
		"a type is paused": {with(func(s *inspect.QueueState) { s.Pauses = []store.Pause{byType} }), true,
			"Type MAIL is paused by cy. The oldest due task has waited for 5 min.", "warn"},
		"full, and a type is paused": {with(func(s *inspect.QueueState) { s.Running, s.Pauses = 20, []store.Pause{byType} }), true,
			"All 20 slots are busy. One task has run for 12 min. The oldest due task has waited for 5 min.", "warn"},
		"the lane's type is paused": {with(func(s *inspect.QueueState) { s.Slots, s.Type, s.Pauses = 0, &kind, []store.Pause{byType} }), true,
			"Type MAIL is paused by cy. The oldest due task has waited for 5 min.", "warn"},
	} {
		text, tone := saturation{c.state, c.led, longest, now, time.UTC}.sentence()
		if text != c.want || tone != c.tone {
			t.Errorf("%s:\n got %s %q\nwant %s %q", name, tone, text, c.tone, c.want)
		}
	}
}
