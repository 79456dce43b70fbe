package leader

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tasktable/tasktable/scheduled/internal/enginetest"
	"github.com/tasktable/tasktable/scheduled/internal/taskdb"
	"github.com/tasktable/tasktable/store"
)

// limitEach sets a limit of one at a time for each group.
func (b *bench) limitEach() {
	b.T.Helper()
	limit := store.Limit{Name: "each", Of: store.Type("JOB"), Per: store.PerGroup, MaxRunning: 1}
	b.Did(b.Tasks.SetLimit(b.T.Context(), b.Pool, limit))
}

func group(of string) func(*store.Task) { return func(task *store.Task) { task.Group = of } }

// passUntil has the leader make passes until the keys of the River jobs are those.
func (b *bench) passUntil(l *Leader, want string) {
	b.T.Helper()
	var got string
	enginetest.Eventually(b.T, enginetest.Patience, "jobs of the keys "+want, func() bool {
		b.Did(l.pass(b.T.Context()))
		got = enginetest.Ask[string](b.Bench, `SELECT coalesce(string_agg(metadata ->> 'key', ', ' ORDER BY id), '')
			FROM tasktable.river_job`)
		return got == want
	})
}

// The leader finds the tasks of each group, also those that were scheduled before the limit, and hands over one job of
// a group at a time. An edit of a task's group counts.
func TestKeysOfTasks(t *testing.T) {
	b := newBench(t)
	l := b.elected(slots(20))
	for _, id := range []string{"a1", "a2", "b1"} {
		b.Add(id, group(id[:1]))
	}
	b.limitEach()
	b.passUntil(l, "g:a, g:b")
	b.Add("a3", group("a"))
	b.Add("c1", group("c"))
	b.Add("none", nil)
	b.passUntil(l, "g:a, g:b, g:c, g:")
	b.Exec(`UPDATE tasktable.scheduled_tasks SET group_key = 'd' WHERE id = 'a3'`)
	b.passUntil(l, "g:a, g:b, g:c, g:, g:d")
	if got, want := b.states(),
		"a1 EXECUTING, a2 QUEUED, a3 EXECUTING, b1 EXECUTING, c1 EXECUTING, none EXECUTING"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	b.Exec(`DELETE FROM tasktable.river_job WHERE metadata ->> 'key' = 'g:a'`)
	b.passUntil(l, "g:b, g:c, g:, g:d, g:a")
}

// If the limit counts by something else, the keys are set anew. Without it all tasks are claimed.
func TestOtherKeys(t *testing.T) {
	b := newBench(t)
	l := b.elected(slots(20))
	b.limitEach()
	for i := range 3 {
		b.Add(fmt.Sprint("a", i), func(task *store.Task) { task.Group, task.TenantID = "a", fmt.Sprint("tenant-", i) })
	}
	b.passUntil(l, "g:a")
	b.Did(b.Tasks.SetLimit(t.Context(), b.Pool,
		store.Limit{Name: "each", Of: store.Type("JOB"), Per: store.PerTenant, MaxRunning: 1}))
	b.passUntil(l, "g:a, t:tenant-1, t:tenant-2")
	b.Add("late", group("a"))
	b.Add("later", group("a"))
	b.Did(b.Tasks.RemoveLimit(t.Context(), b.Pool, "each"))
	enginetest.Eventually(t, enginetest.Patience, "all are claimed", func() bool {
		b.Did(l.pass(t.Context()))
		return b.Count(`SELECT count(*) FROM tasktable.scheduled_tasks WHERE fence IS NULL`) == 0
	})
}

// A task whose transaction was open for long comes to its turn, although the leader has read on, and although an older
// task of another group waits for its limit.
func TestLateTasksOfKeys(t *testing.T) {
	b := newBench(t)
	l := b.elected(slots(20))
	b.limitEach()
	b.Add("first", group("a"))
	b.Add("waits", group("a"))
	b.passUntil(l, "g:a")
	b.Add("late", group("b"))
	b.Exec(`UPDATE tasktable.scheduled_tasks SET next_attempt_at = next_attempt_at - interval '1 minute'
		WHERE id IN ('waits', 'late')`) // as if it had been committed after a minute
	enginetest.Eventually(t, enginetest.Patience, "the late task is claimed", func() bool {
		b.Did(l.tick(t.Context()))
		b.Did(l.pass(t.Context()))
		return b.Count(`SELECT count(*) FROM tasktable.scheduled_tasks WHERE id = 'late' AND fence IS NOT NULL`) == 1
	})
}

// The database's clock was set back. Looks read the tasks that were scheduled since, also those that have no key yet.
func TestKeysAfterTheClockWasSetBack(t *testing.T) {
	b := newBench(t)
	l := b.elected(slots(20))
	b.limitEach()
	b.Add("first", group("a"))
	b.passUntil(l, "g:a")
	for _, one := range l.lanes.keys.lanes {
		one.read.at = time.Now().Add(time.Hour) // as the clock showed before
		for _, known := range one.keys {
			known.at = one.read.at
		}
	}
	b.Add("second", group("a"))
	b.Add("none", nil)
	b.Exec(`UPDATE tasktable.scheduled_tasks SET next_attempt_at = next_attempt_at - interval '5 seconds'
		WHERE id IN ('second', 'none')`) // as if some seconds had passed until the leader knew the clock
	b.passUntil(l, "g:a, g:")
	b.Exec(`DELETE FROM tasktable.river_job WHERE metadata ->> 'key' = 'g:a'`)
	b.passUntil(l, "g:, g:a")
}

// If very many tasks have the same time, looks read them in parts. They forget keys that have no task.
func TestKeysAreReadInParts(t *testing.T) {
	b := newBench(t)
	b.limitEach()
	const each = 3 * taskdb.MaxKeysRead / 2
	b.Exec(`INSERT INTO tasktable.scheduled_tasks (id, payload, scheduled_at, group_key)
		SELECT g || ' ' || i, '{"type": "JOB"}', $1::timestamptz, g
		FROM generate_series(1, $2::int) AS i, unnest('{a,b,c}'::text[]) AS g`, time.Now(), each)
	known := newLanes()
	known.work(nodeOf([]string{"JOB"}, "default"))
	keys := func() string {
		var batch pgx.Batch
		known.queue(b.Queries, &batch, time.Now(), time.Now().Add(time.Second))
		results := b.Pool.SendBatch(t.Context(), &batch)
		found, _, err := known.read(results, time.Now())
		if closeErr := results.Close(); err != nil || closeErr != nil {
			t.Fatal(err, closeErr)
		}
		known.expand(&found, nil, time.Now())
		var names []string
		for _, one := range known.keys.lanes {
			for name := range one.keys {
				names = append(names, name)
			}
		}
		slices.Sort(names)
		return strings.Join(names, " ")
	}
	for looks := 0; keys() != "g:a g:b g:c"; looks++ {
		if looks > 10 {
			t.Fatalf("after ten looks: %s", keys())
		}
	}
	b.Exec(`DELETE FROM tasktable.scheduled_tasks WHERE group_key = 'b'`)
	for _, one := range known.keys.lanes {
		for name := range one.keys { // as after a claim
			known.keys.granted([]taskdb.Grant{{Lane: taskdb.Lane{Queue: "default", Type: "JOB", LimitKey: name}}})
		}
	}
	if got := keys(); got != "g:a g:c" {
		t.Errorf("known are %s", got)
	}
	b.Exec(`DELETE FROM tasktable.limits`)
	if got := keys(); got != "" || len(known.keys.lanes) != 0 {
		t.Errorf("without a limit %d lanes are known: %s", len(known.keys.lanes), got)
	}
}

// A new leader goes through the old tasks of a group, one after the other, although it first learns of a newer one.
func TestOldTasksOfAKey(t *testing.T) {
	b := newBench(t)
	b.limitEach()
	for i := range 4 {
		b.Add(fmt.Sprint("a", i), group("a"))
	}
	b.Exec(`UPDATE tasktable.scheduled_tasks SET next_attempt_at = next_attempt_at - interval '1 hour' WHERE id < 'a3'`)
	l := b.elected(slots(20))
	for i := range 4 {
		b.passUntil(l, "g:a")
		if got := enginetest.Ask[string](b.Bench, `SELECT string_agg(id, ' ') FROM tasktable.scheduled_tasks
			WHERE status = 'EXECUTING'`); i > 0 && got != fmt.Sprint("a", i) && got != fmt.Sprint("a", i-1) {
			t.Errorf("at turn %d %s runs", i, got)
		}
		b.Exec(`UPDATE tasktable.scheduled_tasks SET status = 'COMPLETED', fence = NULL, lease_expires_at = NULL,
			finished_at = now() WHERE status = 'EXECUTING'`)
		b.Exec(`DELETE FROM tasktable.river_job`)
	}
}

// A tick that finds a task whose key is not set yet has a pass follow.
func TestATickFindsTasksWithoutAKey(t *testing.T) {
	b := newBench(t)
	l := b.elected(slots(20))
	b.limitEach()
	b.Add("a1", group("a"))
	b.passUntil(l, "g:a")
	b.Add("none", func(task *store.Task) { task.At = time.Now().Add(soon / 2) })
	enginetest.Eventually(t, enginetest.Patience, "a pass is to follow", func() bool {
		found, err := l.tick(t.Context())
		b.OK(err)
		return found.next == 0
	})
	b.passUntil(l, "g:a, g:")
}
