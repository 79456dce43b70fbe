//go:build unix && mutants

package torture

import "time"

var (
	// Recurring tasks, which writers edit again and again.
	replanned = steered("replanned", func(s *settings) {
		s.Length, s.Work = 15*time.Second, map[string]int{"one": 2, "recur": 1}
	})
	// Recurring tasks, some of which writers have locked.
	scheduleLocked = steered("scheduleLocked", func(s *settings) {
		s.Length, s.Hold = 15*time.Second, 8*time.Second
		s.Work = map[string]int{"one": 4, "recur": 1, "lock schedule": 2}
	})
	// Recurring tasks, of which an application's trigger refuses some occurrences.
	refusing = steered("refusing", func(s *settings) {
		s.Length, s.Work = 15*time.Second, map[string]int{"one": 60, "recur": 2, "refused": 1}
	})
	// Pauses of single tasks, and nothing that edits these tasks.
	resting = steered("resting", func(s *settings) { s.Work = map[string]int{"one": 1, "rest": 3} })
)

// ruleMutants break the rules that nothing becomes claimable in the past, that the leader works apart from its session
// and for a term, that a task ends in one place, and that nothing long or broken holds up the leader.
var ruleMutants = []mutant{
	{name: "a task becomes claimable in the past", by: []string{"lost"}, steer: busy, edits: []edit{
		{schema + "00002_triggers.sql", "WHEN due < tasktable.asked_now() - interval '500 ms' THEN",
			"WHEN false THEN"},
		noWalk,
	}},
	{name: "a released claim becomes claimable in the past", by: []string{"lost"}, steer: crowded, edits: []edit{
		{engine + "internal/taskdb/settle.go",
			"WHEN l.next IS NOT NULL THEN l.now + (l.place - 1) * interval '1 microsecond'",
			"WHEN l.next IS NOT NULL THEN l.next - interval '1 hour'"},
		noWalk,
	}},
	{name: "the walk leaves tasks where they are", by: []string{"lost"}, steer: busy, edits: []edit{
		looksAfterMark,
		{engine + "internal/taskdb/requeue.go",
			"SET next_attempt_at = clock_timestamp() + late.place * interval '1 microsecond'",
			"SET next_attempt_at = t.next_attempt_at"},
	}},
	{name: "the walk forgets when a task was due", by: []string{"line"}, steer: busy, edits: []edit{
		looksAfterMark,
		{engine + "internal/taskdb/requeue.go",
			"CASE WHEN t.cron IS NULL THEN coalesce(t.due_at, t.next_attempt_at) END", "NULL"},
	}},
	// Its commits are refused.
	{name: "a new term is older than the one before", by: []string{"gap", "lost"}, steer: deposed, edits: []edit{
		{engine + "internal/leader/term.go",
			"greatest(clock_timestamp(),\n" +
				"    (SELECT max(n.elected_at) FROM tasktable.nodes AS n) + interval '1 microsecond')",
			"coalesce((SELECT min(n.elected_at) FROM tasktable.nodes AS n) - interval '1 microsecond',\n" +
				"    clock_timestamp())"},
	}},
	// Not always, because then no node would lead for long enough to claim anything. A beat comes at the same time
	// as a tick, so the statement begins a little later.
	{name: "the leader works on its session's connection", by: []string{"interrupted"}, steer: long, edits: []edit{
		{engine + "internal/leader/leader.go", "	limit, sent := l.limit(), time.Now()\n",
			"	if time.Now().Unix()%8 == 0 {\n		time.Sleep(100 * time.Millisecond)\n" +
				"		_, _ = l.session.Conn.Exec(ctx, \"SELECT pg_sleep(1)\")\n	}\n" +
				"	limit, sent := l.limit(), time.Now()\n"},
	}},
	{name: "a line has the transaction of another", by: []string{"event"}, steer: called, edits: []edit{
		{schema + "00001_tables.sql", "    tx           bigint      NOT NULL DEFAULT txid_current(),",
			"    tx           bigint      NOT NULL DEFAULT txid_current() - 20,"},
	}},
	{name: "events of transactions that commit late are skipped", by: []string{"event"}, steer: called, edits: []edit{
		{engine + "api/eventreader.go", "AS open (tx) ORDER BY open.tx LIMIT",
			"AS open (tx) WHERE false ORDER BY open.tx LIMIT"},
	}},
	// Else the moment between the look and the write is short.
	{name: "fires are written though the task was edited", by: []string{"fork"}, steer: replanned, edits: []edit{
		{engine + "internal/taskdb/fork.go",
			"row.ID == one.Task.ID && row.Revision == one.Task.Revision && row.NextFire.Equal(one.Task.NextFire)",
			"row.ID == one.Task.ID"},
		{engine + "internal/leader/fires.go", "	var fired taskdb.ForkResult\n",
			"	time.Sleep(300 * time.Millisecond)\n	var fired taskdb.ForkResult\n"},
	}},
	{name: "the pick of fires waits for locks", by: []string{"steady fires"}, steer: scheduleLocked, edits: []edit{
		{engine + "internal/taskdb/duefires.go", "        FOR NO KEY UPDATE SKIP LOCKED\n",
			"        FOR NO KEY UPDATE\n"},
	}},
	{name: "one refused task takes the others of its step with it",
		by: []string{"steady fires"}, steer: refusing, edits: []edit{
			{engine + "internal/pg/isolate.go", "	half := len(items) / 2\n",
				"	for _, one := range items {\n		if err := giveUp(one, err); err != nil {\n" +
					"			return err\n		}\n	}\n" +
					"	if err != nil {\n		return nil\n	}\n	half := len(items) / 2\n"},
		}},
	{name: "one pause in three does not end", by: []string{"pause until"}, steer: resting, edits: []edit{
		{engine + "internal/taskdb/pauses.go", "AND t.id <> ALL ($3::text[])\nORDER BY t.paused_until",
			"AND t.id <> ALL ($3::text[])\n    AND hashtext(t.id) % 3 <> 0\nORDER BY t.paused_until"},
	}},
}
