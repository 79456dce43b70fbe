//go:build unix && mutants

package torture

import "time"

var (
	// Tasks that fail at their first attempt and for good.
	dying = only("dying", doPermanent)
	// Attempts that ask for follow-ups, many of which are cancelled before they end.
	disowned = steered("disowned", func(s *settings) {
		s.Work, s.Chores, s.Pace = map[string]int{"one": 3, "regret": 4}, map[string]int{doFollow: 1}, 20*time.Millisecond
		s.Slots = 60
	})
	// Long work, much of which is asked for once more.
	repeated = steered("repeated", func(s *settings) {
		s.Work, s.Pace, s.Slots = map[string]int{"long": 1, "again": 4}, 100*time.Millisecond, 60
		s.Patience = 40 * time.Second
	})
)

// followMutants break what follows an attempt or a death, the time that a handler has, who begins first, and how many
// run at once.
var followMutants = []mutant{
	// The leader goes on reading the limit.
	{name: "a node runs more of a type than it has slots for", by: []string{"type slots"}, steer: wide, edits: []edit{
		{engine + "instance.go", "TypeSlots: i.config.TypeSlots, Places:", "Places:"},
		{engine + "instance.go", "TypeSlots: i.config.TypeSlots, LookAhead:", "LookAhead:"},
	}},
	{name: "a cancelled attempt has its follow-ups", by: []string{"follow-up"}, steer: disowned, edits: []edit{
		{engine + "internal/taskdb/followups.go",
			"if !state.Current && state.Status == string(store.StatusCancelled) && !one.InTx {",
			"if !state.Current && state.Status == \"\" {"},
	}},
	{name: "an edited attempt has no follow-ups", by: []string{"follow-up"}, steer: editing, edits: []edit{
		{engine + "internal/taskdb/followups.go",
			"if !state.Current && state.Status == string(store.StatusCancelled) && !one.InTx {",
			"if !state.Current {"},
	}},
	{name: "the last attempt has no follow-ups", by: []string{"follow-up"}, steer: dying, edits: []edit{
		{engine + "internal/outcome/outcome.go", "handlers.Effects{FollowUps: e.Effects().IfDead, Trace:",
			"handlers.Effects{Trace:"},
	}},
	{name: "an attempt that is not the last has the follow-ups of the last",
		by: []string{"follow-up"}, steer: failing, edits: []edit{
			{engine + "internal/outcome/outcome.go", "	default:\n		s.Outcome,",
				"	default:\n		s.Effects = handlers.Effects{FollowUps: e.Effects().IfDead}\n		s.Outcome,"},
		}},
	{name: "a death is not followed", by: []string{"if dead"}, steer: dying, edits: []edit{
		{schema + "00004_spawned.sql", "WHEN (NEW.if_dead IS NOT NULL AND",
			"WHEN (false AND NEW.if_dead IS NOT NULL AND"},
	}},
	{name: "what has expired has not died", by: []string{"if dead"}, steer: crowded, edits: []edit{
		{schema + "00004_spawned.sql", "IF NEW.status NOT IN ('FAILED', 'EXPIRED') THEN",
			"IF NEW.status NOT IN ('FAILED') THEN"},
	}},
	{name: "a death after a retry is not followed", by: []string{"if dead"}, steer: failing, edits: []edit{
		{schema + "00004_spawned.sql", "IF NEW.status NOT IN ('FAILED', 'EXPIRED') THEN",
			"IF NEW.status NOT IN ('FAILED', 'EXPIRED') OR NEW.attempt > 1 THEN"},
	}},
	{name: "what was completed has died", by: []string{"if dead"}, steer: busy, edits: []edit{
		{schema + "00004_spawned.sql", "IF NEW.status NOT IN ('FAILED', 'EXPIRED') THEN",
			"IF NEW.status NOT IN ('FAILED', 'EXPIRED', 'COMPLETED') THEN"},
	}},
	{name: "a schedule during an attempt is forgotten", by: []string{"again"}, steer: repeated, edits: []edit{
		{schema + "00003_verbs.sql",
			"            RETURN tasktable.run_again(task_id, schedule.scheduled_by, schedule.wake);\n",
			"            result.outcome := 'again';\n            RETURN result;\n"},
	}},
	{name: "a lease is not made longer for a task that has waited",
		by: []string{"time"}, steer: crowded, edits: []edit{
			{engine + "internal/worker/attempt.go", "if time.Until(leaseEnd) < expected+j.leaseMargin()+gateValid {",
				"if leaseEnd.IsZero() {"},
			{engine + "internal/worker/gate.go", "if a.lease.short(gateValid) {", "if a.lease == nil {"},
			{engine + "internal/worker/gate.go", "if !a.stale(asked) && !a.lease.short(0) {", "if !a.stale(asked) {"},
		}},
	{name: "a handler has half of its time", by: []string{"time"}, steer: busy, edits: []edit{
		{engine + "internal/worker/lease.go", "now.Add(l.expected); deadline", "now.Add(l.expected / 2); deadline"},
	}},
	{name: "a node fences itself late", by: []string{"fenced"}, steer: silent, edits: []edit{
		{engine + "internal/session/session.go", "	Timeout = 3 * time.Second\n", "	Timeout = 8 * time.Second\n"},
	}},
	// Passes leave them, so priority notices it, too. But urgency is to notice it by itself, because it knows nothing
	// of passes.
	{name: "the most urgent wait for some seconds", by: []string{"urgency"}, steer: wide, edits: []edit{
		{engine + "internal/leader/claims.go", "			return slices.Contains(slow, one.Key())\n",
			"			return slices.Contains(slow, one.Key()) || one.Priority == 60 && time.Now().Unix()%12 < 9\n"},
	}},
}
