//go:build unix && mutants

package torture

import "time"

// steered are settings for a short run, changed as it is needed. The rest are those of an ordinary run.
func steered(name string, change func(s *settings)) steer {
	s := settings{
		Length: 12 * time.Second, Seed: 1, Nodes: 3, Writers: 3, Pace: 15 * time.Millisecond, Bulk: 20, Slots: 20,
		Expected: expectedTime, Expiring: expiringTasks, Faults: map[string]int{},
		// A handler that ignores its context keeps its slot for two leases, one after the other.
		Patience: 30 * time.Second,
	}
	change(&s)
	return steer{name, s}
}

var (
	// Much of everything, without faults.
	busy = steered("busy", func(*settings) {})
	// Few slots and long work: tasks wait after their claim, and expire.
	crowded = steered("crowded", func(s *settings) {
		s.Expiring = 1
		s.Slots, s.Millis, s.Work, s.Chores = 2, 400, map[string]int{"one": 3, "edit": 1}, map[string]int{doWork: 1}
		s.Pace = 60 * time.Millisecond
	})
	// Edits of what is claimed and waits for its time.
	editing = steered("editing", func(s *settings) { s.Work = map[string]int{"one": 2, "edit": 4, "shared": 4} })
	// Pauses of whole scopes, one after the other.
	paused = steered("paused", func(s *settings) { s.Work = map[string]int{"one": 20, "herd": 4, "scope": 4} })
	// Long work, much of which is cancelled.
	cancelling = steered("cancelling", func(s *settings) {
		s.Work, s.Chores, s.Millis, s.Slots = map[string]int{"one": 1, "edit": 3}, map[string]int{doWork: 1}, 2500, 60
		s.Pace = 50 * time.Millisecond
	})
	// Processes that are stopped for longer than a node may be silent, with work under long leases. When they go on,
	// other nodes run their tasks.
	frozen = steered("frozen", func(s *settings) {
		s.Length, s.Millis, s.Expected, s.Slots = 25*time.Second, 8000, 40*time.Second, 100
		s.Work, s.Faults, s.Alone, s.Frozen = map[string]int{"now": 1}, map[string]int{faultFreeze: 1}, true,
			11*time.Second
		s.Pace, s.Patience = 100*time.Millisecond, 40*time.Second
	})
	// Links that delay one direction more than the other.
	lopsided = steered("lopsided", func(s *settings) {
		s.Length, s.Work, s.Chores, s.Faults = 25*time.Second, map[string]int{"one": 1}, map[string]int{doWork: 1},
			map[string]int{faultSlow: 1}
	})
	// Nodes that nobody hears, with long work under long leases.
	silent = steered("silent", func(s *settings) {
		s.Length, s.Millis, s.Expected, s.Slots = 24*time.Second, 14000, 40*time.Second, 60
		s.Work, s.Faults = map[string]int{"now": 1}, map[string]int{faultHush: 1}
		s.Pace, s.Patience = 600*time.Millisecond, 40*time.Second
	})
	// Nodes that are killed one by one, with long work under long leases.
	mortal = steered("mortal", func(s *settings) {
		s.Length, s.Millis, s.Expected, s.Slots = 20*time.Second, 3000, 40*time.Second, 60
		s.Work, s.Faults, s.Alone = map[string]int{"now": 1}, map[string]int{faultKill: 1}, true
		s.Pace = 100 * time.Millisecond
	})
	// Nothing but long work, on nodes that live.
	long = steered("long", func(s *settings) {
		s.Millis, s.Expected, s.Slots, s.Work = 9000, 40*time.Second, 60, map[string]int{"now": 1}
		s.Pace, s.Patience = 300*time.Millisecond, 20*time.Second
	})
	// Little work, and listeners that lose their connections.
	deafened = steered("deafened", func(s *settings) {
		s.Length, s.Pace, s.Writers, s.Work = 44*time.Second, 7*time.Second, 1, map[string]int{"now": 1}
		s.Faults = map[string]int{faultListener: 1}
	})
	// Recurring tasks, and leaders that are lost. It is less work than others have, because groups in order would have
	// too much to do in the time.
	recurring = steered("recurring", func(s *settings) {
		s.Length, s.Pace, s.Work, s.Faults = 25*time.Second, 45*time.Millisecond, map[string]int{
			"one": 20, "recur": 3,
		}, map[string]int{faultLeader: 1}
	})
	// Quick work, and leaders whose sessions end.
	deposed = steered("deposed", func(s *settings) {
		s.Length, s.Pace = 30*time.Second, 45*time.Millisecond // less for groups in order
		s.Work, s.Faults = map[string]int{"one": 1}, map[string]int{faultLeader: 1}
	})
	// Rows that applications have locked.
	locked = steered("locked", func(s *settings) {
		s.Work, s.Chores, s.Pace = map[string]int{"one": 30, "hold": 2}, map[string]int{
			doWork: 20, doFail: 5,
		}, 10*time.Millisecond
		s.Millis, s.Hold = 150, 3*time.Second
	})
	// Nodes that are made quiet while claimed tasks wait for their time.
	hushed = steered("hushed", func(s *settings) {
		s.Slots, s.Millis, s.Work, s.Chores = 60, 100, map[string]int{"one": 3}, map[string]int{doWork: 1}
		s.Faults = map[string]int{faultQuiet: 1}
	})
	// Much of all types, so that a type with few slots needs all of them.
	wide = steered("wide", func(s *settings) {
		s.Work, s.Chores, s.Millis = map[string]int{"one": 1}, map[string]int{doWork: 1}, 500
	})
	// A backlog of several priorities, none of it scheduled for a time that has passed.
	backlog = steered("backlog", func(s *settings) {
		s.Slots, s.Work, s.Writers, s.Bulk, s.Pace, s.Millis = 2, map[string]int{"backlog": 1}, 1, 300, 4*time.Second,
			50
	})
)

// skewed is much of everything, under faults, on nodes whose clocks are wrong.
var skewed = steered("skewed", func(s *settings) {
	s.Length, s.Nodes, s.Skewed, s.Faults = 40*time.Second, 4, true, nil
})

const (
	engine = "scheduled/"
	schema = "migrations/"
)

// Two edits hide that a task lies before the mark of its lane: that looks go back eleven seconds, and the walk.
var (
	looksAfterMark = edit{
		engine + "internal/leader/marks.go", "lateCommit = 11 * time.Second", "lateCommit = -1500 * time.Millisecond",
	}
	noWalk = edit{engine + "internal/leader/walk.go", "if time.Now().Before(w.next) {", "if w.log != nil {"}
)

// mutants break the protocol: claim, gate, settle, hold, leadership and recovery.
var mutants = []mutant{
	// The history's primary key would refuse the line of the second outcome of a claim: it goes, too.
	{name: "settle without the fence",
		by: []string{"execution line", "stale completion"}, steer: frozen, edits: []edit{
			{engine + "internal/taskdb/settle.go",
				"WHERE t.id = s.id AND t.fence = s.fence\n        LIMIT 1 FOR NO KEY UPDATE SKIP LOCKED\n    ) AS t ON true",
				"WHERE t.id = s.id AND t.fence IS NOT NULL\n        LIMIT 1 FOR NO KEY UPDATE SKIP LOCKED\n" +
					"    ) AS t ON true"},
			{engine + "internal/taskdb/settle.go",
				"WHERE l.tid IS NOT NULL AND t.id = ANY (ARRAY[l.id]) AND t.fence = l.fence",
				"WHERE l.tid IS NOT NULL AND t.id = ANY (ARRAY[l.id])"},
			{engine + "internal/taskdb/settle_completed.go", "WHERE t.id = ANY (ARRAY[s.id]) AND t.fence = s.fence AND",
				"WHERE t.id = ANY (ARRAY[s.id]) AND"},
			{schema + "00001_tables.sql", "    fence        bigint      PRIMARY KEY,\n    task_id      text COLLATE",
				"    fence        bigint      NOT NULL,\n    task_id      text COLLATE"},
		}},
	{name: "settle does not look whether the task was edited",
		by: []string{"stale completion"}, steer: editing, edits: []edit{
			{engine + "internal/taskdb/settle.go",
				"(t.status IN ('EXECUTING', 'PAUSED') AND t.revision = s.revision) AS current", "true AS current"},
		}},
	// An edit of a claimed row makes it QUEUED: the status alone would tell, too.
	{name: "the gate does not look at the revision", by: []string{"stale start"}, steer: editing, edits: []edit{
		{engine + "internal/taskdb/gate.go",
			"CASE WHEN t.status <> 'EXECUTING' OR t.revision <> asked.revision THEN 'edited'",
			"CASE WHEN false THEN 'edited'"},
		{engine + "internal/worker/recheck.go", "case !state.Current:", "case false:"},
	}},
	{name: "the gate does not look at the time", by: []string{"early start"}, steer: lopsided, edits: []edit{
		{engine + "internal/taskdb/gate.go", "WHEN greatest(asked.due, t.first_due) > clock.now THEN 'early'",
			"WHEN false THEN 'early'"},
	}},
	{name: "the gate does not look at the expiry", by: []string{"late start"}, steer: crowded, edits: []edit{
		{engine + "internal/taskdb/gate.go",
			"WHEN least(t.first_due + t.expiration, t.deadline) <= clock.now THEN 'expired'",
			"WHEN false THEN 'expired'"},
	}},
	{name: "the gate does not look at pauses", by: []string{"paused start"}, steer: paused, edits: []edit{
		{engine + "internal/taskdb/gate.go", "WHEN paused.scopes && ARRAY", "WHEN false AND paused.scopes && ARRAY"},
	}},
	{name: "the claim does not look at pauses", by: []string{"claimed paused"}, steer: paused, edits: []edit{
		{engine + "internal/taskdb/pauses.go", "if len(paused) == 0 {\n		return lanes",
			"if len(paused) >= 0 {\n		return lanes"},
	}},
	{name: "the claim does not look at the expiry", by: []string{"claimed expired"}, steer: crowded, edits: []edit{
		{engine + "internal/taskdb/claim.go", "                <= clock.now, false) AS expired",
			"                <= clock.now AND false, false) AS expired"},
	}},
	{name: "a cancel does not reach the handler", by: []string{"cancel"}, steer: cancelling, edits: []edit{
		{engine + "internal/worker/recheck.go", "case state.Cancelled:\n			r.changed(handlers.ErrCancelled)",
			"case state.Cancelled:\n			r.changed(nil)"},
	}},
	{name: "a task that was asked for during its attempt does not run again",
		by: []string{"again"}, steer: cancelling, edits: []edit{
			{schema + "00002_triggers.sql", "WHEN (NEW.again_at IS NOT NULL AND OLD.fence",
				"WHEN (false AND NEW.again_at IS NOT NULL AND OLD.fence"},
		}},
	{name: "an edit clears the hold", by: []string{"execution line", "overlap"}, steer: editing, edits: []edit{
		{schema + "00002_triggers.sql",
			"        IF OLD.finished_at IS NOT NULL AND NEW.status = 'QUEUED' AND NEW.scheduled_at <> " +
				"OLD.scheduled_at THEN\n",
			"        NEW.fence := NULL;\n        NEW.lease_expires_at := NULL;\n" +
				"        IF OLD.finished_at IS NOT NULL AND NEW.status = 'QUEUED' AND NEW.scheduled_at <> " +
				"OLD.scheduled_at THEN\n"},
	}},
	{name: "a claim reuses a number", by: []string{"leadership"}, steer: busy, edits: []edit{
		{engine + "internal/taskdb/claim.go", "ELSE nextval('tasktable.task_numbers') END,\n        lease_expires_at",
			"ELSE t.revision END,\n        lease_expires_at"},
	}},
	{name: "an edit draws no number", by: []string{"application row"}, steer: editing, edits: []edit{
		{schema + "00002_triggers.sql",
			"    NEW.revision := nextval('tasktable.task_numbers');\n    -- The idempotency key",
			"    IF TG_OP = 'INSERT' THEN NEW.revision := nextval('tasktable.task_numbers'); END IF;\n" +
				"    -- The idempotency key"},
	}},
	{name: "a lease counts from the due time", by: []string{"lease"}, steer: busy, edits: []edit{
		{engine + "internal/taskdb/claim.go", "ELSE greatest(clock.now, t.next_attempt_at) + $3::interval",
			"ELSE t.next_attempt_at + $3::interval"},
	}},
	{name: "an attempt is not counted", by: []string{"attempts"}, steer: busy, edits: []edit{
		{engine + "internal/taskdb/claim.go", "expired THEN 0 ELSE 1 END", "expired THEN 0 ELSE 0 END"},
	}},
	{name: "what failed is given back", by: []string{"attempts"}, steer: busy, edits: []edit{
		{engine + "internal/taskdb/settle.go", "attempt = CASE WHEN l.current AND l.refund THEN",
			"attempt = CASE WHEN l.current AND NOT l.refund THEN"},
	}},
	{name: "claims are committed by the pool", by: []string{"leadership"}, steer: busy, edits: []edit{
		{engine + "internal/leader/term.go",
			"pgx.BeginTxFunc(ctx, l.conn, pgx.TxOptions{CommitQuery: l.commitSQL}, do)",
			"pgx.BeginTxFunc(ctx, l.config.Pool, pgx.TxOptions{}, do)"},
	}},
	// Each has a lock of its own. The commits of those that were not elected last would be refused.
	{name: "every node claims", by: []string{"leadership"}, steer: busy, edits: []edit{
		{engine + "internal/session/heartbeat.go", "THEN pg_try_advisory_lock($1, 0)",
			"THEN pg_try_advisory_lock($1, pg_backend_pid())"},
		{engine + "internal/leader/term.go", "AND l.objid = 0 ", ""},
		{schema + "00001_tables.sql", "IF term IS DISTINCT FROM", "IF false AND term IS DISTINCT FROM"},
	}},
	{name: "a leader that was replaced commits", by: []string{"leadership"}, steer: deposed, edits: []edit{
		{schema + "00001_tables.sql", "IF term IS DISTINCT FROM", "IF false AND term IS DISTINCT FROM"},
	}},
	// The moment between the look at the term and the commit is short.
	{name: "a new leader does not wait for commits", by: []string{"leadership"}, steer: deposed, edits: []edit{
		{schema + "00001_tables.sql", "    PERFORM pg_advisory_xact_lock_shared(lock_class, 1);\n", ""},
		{schema + "00001_tables.sql", "'object_not_in_prerequisite_state';\n    END IF;\nEND $$;",
			"'object_not_in_prerequisite_state';\n    END IF;\n    PERFORM pg_sleep(0.3);\nEND $$;"},
	}},
	{name: "a transactional handler is settled apart", by: []string{"effects"}, steer: busy, edits: []edit{
		{engine + "internal/worker/transactions.go", "a.settleTx(ctx, tx.querier)",
			"a.settleTx(ctx, a.config.EnginePool)"},
	}},
	{name: "settling waits for locks", by: []string{"settle"}, steer: locked, edits: []edit{
		{engine + "internal/taskdb/settle.go", "LIMIT 1 FOR NO KEY UPDATE SKIP LOCKED\n    ) AS t ON true",
			"LIMIT 1 FOR NO KEY UPDATE\n    ) AS t ON true"},
	}},
	// What the database refuses makes the task fail, with the reason: it does not halt the others, but it is not
	// what was to come of it.
	{name: "text is not scrubbed", by: []string{"given up", "outcome"}, steer: busy, edits: []edit{
		{engine + "internal/sanitize/sanitize.go", "whole := len(text) <= maxText\n",
			"whole := true\n	if whole {\n		return strings.Clone(text)\n	}\n"},
	}},
	// The look each second finds what a lost notification did not steps: it goes, too.
	{name: "nobody looks after listening again", by: []string{"gap"}, steer: deafened, edits: []edit{
		{engine + "instance.go", "i.health.note(\"\", CheckListener)\n",
			"i.health.note(\"\", CheckListener)\n			if ctx != nil {\n				return\n			}\n"},
		{engine + "internal/leader/leader.go", "found := look{next: l.plan(seen.listed, nil).First, tick: -1}",
			"found := look{next: -1, tick: -1}"},
	}},
	// Either would do: a node counts as dead once its lock is free, and is only taken for dead with
	// the lock in hand.
	{name: "living nodes are taken for dead", by: []string{"overlap"}, steer: long, edits: []edit{
		{engine + "internal/leader/failuredetector.go", "case node.Held || !known && node.Silent < 0:",
			"case !known && node.Silent < 0:"},
		{engine + "internal/leader/failuredetector.go", "		if node.Held {\n			continue\n		}\n", ""},
		{engine + "internal/leader/reclaim.go", "if !free {\n			return nil, true, nil\n		}", "_ = free"},
	}},
	// The end of the lease would end the handlers as well: these are long. So would the end of the
	// node's life, in time.
	{name: "a node that nobody hears goes on", by: []string{"overlap"}, steer: silent, edits: []edit{
		{engine + "instance.go",
			"i.log.Error(\"session lost; handlers are stopped\", \"error\", lost)\n" +
				"		i.worker.Interrupt(handlers.ErrLeaseLost)", "i.log.Error(\"session lost\", \"error\", lost)"},
		{engine + "instance.go",
			"if sessionCtx.Err() != nil { // the session is lost, so the handlers' contexts end\n" +
				"		i.worker.Interrupt(handlers.ErrLeaseLost)", "if sessionCtx.Err() != nil {"},
		{engine + "internal/worker/worker.go", "	w.endHandlers(nil)\n", ""},
	}},
	// The end of the leases would bring the tasks back: these are long.
	{name: "the River job goes before its tasks are settled", by: []string{"recovery"}, steer: mortal, edits: []edit{
		{engine + "internal/worker/jobs.go", "	j.serving.Go(all.serve)\n",
			"	_, _ = w.config.EnginePool.Exec(w.settling, w.config.Statements.Schema.SQL(riverjobs.DeleteSQL), " +
				"[]int64{j.id})\n" + "	j.serving.Go(all.serve)\n"},
	}},
	{name: "tasks of dead nodes are left to their leases", by: []string{"recovery"}, steer: mortal, edits: []edit{
		{engine + "internal/leader/leader.go", "	next, err = l.reclaimDead(ctx)\n", "	next = -1\n"},
	}},
	// It still fetches nothing more, and its row says that it works nothing.
	{name: "a quiet node goes on starting what it holds", by: []string{"quiet start"}, steer: hushed, edits: []edit{
		{engine + "internal/quiet/quiet.go", "{ return s.now.Load().begins }", "{ return nil }"},
	}},
	{name: "a fork does not plan the next fire", by: []string{"fork"}, steer: recurring, edits: []edit{
		{engine + "internal/taskdb/fork.go", "	return s.Advance(ctx, q, w.advanced)",
			"	if len(w.forked) > 0 {\n		return nil\n	}\n	return s.Advance(ctx, q, w.advanced)"},
	}},
	{name: "one recurring task in five is never picked",
		by: []string{"steady fires"}, steer: recurring, edits: []edit{
			{engine + "internal/taskdb/duefires.go", "            AND t.id <> ALL ($5::text[])\n",
				"            AND t.id <> ALL ($5::text[]) AND hashtext(t.id) % 5 <> 0\n"},
		}},
	{name: "missed fires leave nothing", by: []string{"steady fires"}, steer: recurring, edits: []edit{
		{engine + "internal/taskdb/fork.go", "	for _, one := range f.Fires {\n		w.forked",
			"	for _, one := range f.Fires {\n		if one.Skip != \"\" {\n			continue\n		}\n" +
				"		w.forked"},
	}},
	{name: "occurrences overlap", by: []string{"skipped"}, steer: recurring, edits: []edit{
		{engine + "internal/taskdb/fork.go", "if len(live) > 0 && task.Overlap == \"skip\" {",
			"if len(live) > 1000 && task.Overlap == \"skip\" {"},
	}},
	{name: "a line of the history is not written", by: []string{"execution line"}, steer: busy, edits: []edit{
		{engine + "internal/taskdb/settle.go", "WHERE l.tid IS NOT NULL AND NOT coalesce(",
			"WHERE l.tid IS NOT NULL AND l.outcome <> 'RETRIED' AND NOT coalesce("},
	}},
	{name: "what expires leaves no line of the history",
		by: []string{"execution line"}, steer: crowded, edits: []edit{
			{engine + "internal/taskdb/history.go", "` FROM ended\n", "` FROM ended WHERE outcome <> 'EXPIRED'\n"},
		}},
	{name: "what is lost leaves no line of the history", by: []string{"execution line"}, steer: mortal, edits: []edit{
		{engine + "internal/taskdb/history.go", "` FROM ended\n", "` FROM ended WHERE outcome <> 'LOST'\n"},
	}},
	{name: "follow-ups are forgotten", by: []string{"follow-up"}, steer: busy, edits: []edit{
		{engine + "internal/taskdb/followups.go", "for left := asked; len(left)", "for left := asked[:0]; len(left)"},
	}},
	{name: "a look begins after the mark", by: []string{"priority", "start latency"}, steer: busy, edits: []edit{
		looksAfterMark,
	}},
	{name: "nobody looks before the marks", by: []string{"lost"}, steer: busy, edits: []edit{
		looksAfterMark,
		noWalk,
	}},
	{name: "new lanes of a known type are overlooked", by: []string{"lost"}, steer: busy, edits: []edit{
		{engine + "internal/leader/marks.go", "if m.recurring || high.Priority <= low.Priority+1 {",
			"if low.Priority > math.MinInt32 || m.recurring {"},
		{engine + "internal/leader/marks.go", "if known && m.recurring {", "if known {"},
	}},
	{name: "the next leader looks too late", by: []string{"lost", "gap"}, steer: recurring, edits: []edit{
		{engine + "internal/leader/handover.go", "far: one.From, half: one.From", "far: one.At.Add(time.Hour)"},
	}},
	{name: "the lowest priority comes first", by: []string{"priority"}, steer: backlog, edits: []edit{
		{engine + "internal/plan/plan.go", "cmp.Or(cmp.Compare(b.Priority, a.Priority),",
			"cmp.Or(cmp.Compare(a.Priority, b.Priority),"},
	}},
}
