//go:build unix && mutants

package torture

import "time"

// only is a run without faults in which all single tasks do one thing, at a pace that makes many of them.
func only(name string, does string) steer {
	return steered(name, func(s *settings) {
		s.Work, s.Chores, s.Pace = map[string]int{"one": 1}, map[string]int{does: 1}, 10*time.Millisecond
		s.Slots = 60
	})
}

var (
	telling   = only("telling", doTell)
	failing   = only("failing", doFail)
	deferring = only("deferring", doAfter)
	snoozing  = only("snoozing", doSnooze)
	// Some thousand follow-ups. More would not be noticed better, and half of the tasks that have them wait for a
	// connection: with two thousand of them the nodes would not come to an end.
	following = steered("following", func(s *settings) {
		s.Work, s.Chores = map[string]int{"one": 1}, map[string]int{doFollow: 1}
		s.Pace, s.Slots, s.Patience = 20*time.Millisecond, 60, 40*time.Second
	})
	extending = steered("extending", func(s *settings) {
		s.Work, s.Chores, s.Slots = map[string]int{"one": 1}, map[string]int{doExtend: 1}, 60
		s.Pace, s.Patience = 400*time.Millisecond, 40*time.Second // each takes longer than its first lease
	})
	// Syncs of entities, again and again.
	synced = steered("synced", func(s *settings) {
		s.Work, s.Chores = map[string]int{"sync": 1}, map[string]int{doWork: 1}
	})
	// Recurring tasks, and leaders that are frozen for longer than a fire takes to come round.
	missed = steered("missed", func(s *settings) {
		s.Length, s.Patience, s.Pace = 30*time.Second, 40*time.Second, 45*time.Millisecond
		s.Work, s.Faults = map[string]int{"one": 20, "recur": 3}, map[string]int{faultFreeze: 2, faultHush: 1}
	})
	// Little work, of which each task could start at once.
	idle = steered("idle", func(s *settings) {
		s.Work, s.Chores, s.Pace = map[string]int{"one": 1}, map[string]int{doWork: 1}, 100*time.Millisecond
	})
)

// contentMutants spoil contents, waits and policies, and who is served first.
var contentMutants = []mutant{
	{name: "claims by type before priority", by: []string{"priority"}, steer: backlog, edits: []edit{
		{engine + "internal/plan/plan.go", "cmp.Or(cmp.Compare(b.Priority, a.Priority),",
			"cmp.Or(cmp.Compare(a.Type, b.Type), cmp.Compare(b.Priority, a.Priority),"},
	}},
	{name: "the attempt is wrong in one line of forty", by: []string{"line"}, steer: busy, edits: []edit{
		{engine + "internal/taskdb/settle_completed.go", "u.id AS task_id, u.type, u.revision, u.attempt,",
			"u.id AS task_id, u.type, u.revision, u.attempt + CASE WHEN u.fence % 40 = 0 THEN 1 ELSE 0 END AS attempt,"},
	}},
	{name: "a retry does not wait", by: []string{"wait"}, steer: failing, edits: []edit{
		{engine + "internal/outcome/outcome.go", "max(delay(e.Attempt, err), 0)", "min(delay(e.Attempt, err), 0)"},
	}},
	{name: "RetryAfter does not wait", by: []string{"wait"}, steer: deferring, edits: []edit{
		{engine + "internal/outcome/outcome.go", "max(*wish.after, 0)", "min(*wish.after, 0)"},
	}},
	{name: "a snooze does not wait", by: []string{"wait"}, steer: snoozing, edits: []edit{
		{engine + "internal/outcome/outcome.go", "max(*wish.snooze, 0)", "min(*wish.snooze, 0)"},
	}},
	{name: "a pause does not end", by: []string{"pause until"}, steer: editing, edits: []edit{
		{engine + "internal/taskdb/pauses.go", "WHERE t.paused_until <= coalesce(",
			"WHERE false AND t.paused_until <= coalesce("},
	}},
	{name: "a pause ends before its time", by: []string{"pause until"}, steer: editing, edits: []edit{
		{engine + "internal/leader/leader.go", "t.paused_until <= statement_timestamp()",
			"t.paused_until - interval '2 seconds' <= statement_timestamp()"},
		{engine + "internal/taskdb/pauses.go", "WHERE t.paused_until <= coalesce(",
			"WHERE t.paused_until - interval '2 seconds' <= coalesce("},
		{engine + "internal/taskdb/pauses.go", "AND t.paused_until <= coalesce(",
			"AND t.paused_until - interval '2 seconds' <= coalesce("},
	}},
	{name: "one result in twenty is lost", by: []string{"result"}, steer: telling, edits: []edit{
		{engine + "internal/outcome/outcome.go", "if s.Effects.Result != nil {",
			"if s.Effects.Result != nil && claim.Fence%20 != 0 {"},
	}},
	{name: "a sync leaves one in three of the others", by: []string{"sync"}, steer: synced, edits: []edit{
		{schema + "00003_verbs.sql",
			"                -- The caller lists a recurring task, but not its occurrences.\n",
			"                AND hashtext(t.id) % 3 <> 0\n"},
	}},
	{name: "an edit keeps the old payload", by: []string{"content"}, steer: editing, edits: []edit{
		{schema + "00003_verbs.sql", "        task_time := CASE WHEN schedule.debounce",
			"        schedule.payload := task.payload;\n" + "        task_time := CASE WHEN schedule.debounce"},
	}},
	{name: "cancel_running cancels nothing", by: []string{"policy"}, steer: recurring, edits: []edit{
		{engine + "internal/taskdb/fork.go", "if f.Runs && due.cancels() {",
			"if task.Overlap == \"cancel_running\" && f.Runs && len(live) > 1000 {"},
	}},
	{name: "catch-up none runs the missed fires", by: []string{"policy"}, steer: missed, edits: []edit{
		{engine + "internal/fireplan/fireplan.go", "m.policy == \"none\" && (m.paused || !m.alone ||",
			"m.policy == \"none\" && (m.paused ||"},
	}},
	{name: "Extend extends nothing", by: []string{"extend"}, steer: extending, edits: []edit{
		{engine + "internal/worker/attempt.go", "return a.extend(new(min(d, store.MaxExpectedExecutionTime)))",
			"_ = min(d, store.MaxExpectedExecutionTime)\n		return nil"},
	}},
	{name: "one follow-up in three hundred is dropped", by: []string{"follow-up"}, steer: following, edits: []edit{
		{engine + "internal/taskdb/followups.go", "			if own && !state.Current {\n",
			"			if own && !state.Current || one.Fence%300 == 0 {\n"},
	}},
	{name: "the leader claims in one second of four", by: []string{"start latency"}, steer: idle, edits: []edit{
		{engine + "internal/leader/loop.go", "if pass && l.leads() {",
			"if pass && l.leads() && time.Now().Unix()%4 == 0 {"},
	}},
}
