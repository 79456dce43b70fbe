package inspect_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/tasktable/tasktable/store"
)

// run makes River jobs that run, each with the key of a group.
func (b *bench) run(kind string, keys ...string) {
	b.Helper()
	b.Exec(b.Pool, `INSERT INTO tasktable.river_job (state, kind, args, max_attempts, queue, metadata)
		SELECT 'running', $1::text, '{}', 1, 'default', jsonb_build_object('key', key) FROM unnest($2::text[]) AS key`,
		kind, keys)
}

// A task that waits for a limit is not late. Attention tells of the limit, and warns after an hour. A limit for a type or
// a queue that nobody has is told, too.
func TestAttentionToLimits(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.leads(`{"default": 5}`, `{TEST}`)
	set := func(limit store.Limit) {
		t.Helper()
		b.must(b.Tasks.SetLimit(b.Ctx, b.Pool, limit))
	}
	schedule := func(id, group string, ago time.Duration) {
		b.Schedule(store.Task{ID: id, Payload: payload(1), Group: group, At: b.Now().Add(-ago)})
	}
	told := func(kind string) (texts []string) {
		for _, text := range b.attention(kind) {
			head, tail, dated := strings.Cut(text, " since ")
			if _, tail, _ = strings.Cut(tail, "Z"); dated {
				head += " since T" + tail
			}
			if head, tail, dated = strings.Cut(head, " at 2"); dated {
				_, tail, _ = strings.Cut(tail, "Z")
				head += " at T" + tail
			}
			texts = append(texts, head)
		}
		return texts
	}
	set(store.Limit{Name: "tests", Of: store.Type("TEST"), MaxRunning: 1})
	set(store.Limit{Name: "typo", Of: store.Type("TSET"), MaxRunning: 1})
	set(store.Limit{Name: "mails", Of: store.Queue("mail"), MaxRunning: 1})
	schedule("new", "", 0)
	schedule("old", "", 50*time.Minute)
	unknown := []string{
		"warning 1: limit mails counts the tasks of queue mail, but no node and no waiting task has this queue",
		"warning 1: limit typo counts the tasks of type TSET, but no node and no waiting task has this type",
	}
	same(b, "none is reached", told("limits"), unknown)
	same(b, "late", told("late"), []string{
		"warning 1: 1 late task of type TEST in queue default, the first (old) since T: limited by tests"})
	b.run("TEST", "")
	same(b, "reached", told("limits"), append(unknown[:2:2],
		"info 1: limit tests holds back 2 due tasks of type TEST, the first (old) since T: 1 of 1 run"))
	same(b, "late", len(told("late")), 0)
	limits, err := b.Tasks.Limits(b.Ctx, b.Pool)
	b.Check(err)
	last := limits[1]
	if last.Name != "tests" || last.Waiting != 2 || last.WaitingMore || b.Now().Sub(*last.OldestDue) < 50*time.Minute ||
		limits[0].Waiting != 0 || limits[0].OldestDue != nil {
		t.Errorf("the list: %s", pretty(limits))
	}
	for _, name := range []string{"typo", "mails", "tests"} {
		b.must(b.Tasks.RemoveLimit(b.Ctx, b.Pool, name))
	}
	schedule("older", "", 2*time.Hour)
	set(store.Limit{Name: "all", Of: store.Everything(), Rate: 100, Interval: time.Minute, Burst: 20})
	const late = "warning 2: 2 late tasks of type TEST in queue default, the first (older) since T: limited by all"
	// Six tenths of a second give a token. The leader waits for ten.
	for left, want := range map[int]string{9: "1: limit all holds back 3 due tasks, the first (older) since T", 11: late} {
		b.Exec(b.Pool, `INSERT INTO tasktable.limit_buckets (name, full_at)
			VALUES ('all', clock_timestamp() + $1::text::interval)
			ON CONFLICT (name, limit_key) DO UPDATE SET full_at = excluded.full_at`, fmt.Sprint(float64(20-left)*0.6, " seconds"))
		got := append(told("limits"), told("late")...)
		if len(got) != 1 || !strings.Contains(got[0], want) || strings.HasPrefix(got[0], "info") {
			t.Errorf("with %d tokens: %s", left, got)
		}
	}
	b.Exec(b.Pool, `UPDATE tasktable.limit_buckets SET full_at = clock_timestamp() + interval '1 minute'`)
	same(b, "the next start", told("limits"), []string{"warning 1: limit all holds back 3 due tasks, the first (older) since T: " +
		"100 may start in 60s, the next at T"})
	set(store.Limit{Name: "all", Of: store.Everything(), Per: store.PerGroup, MaxRunning: 1})
	schedule("mine", "a", 3*time.Hour)
	schedule("theirs", "b", 4*time.Hour)
	b.run("TEST", "g:a", "g:c")
	same(b, "of a group", told("limits"), []string{
		"warning 1: limit all holds back 1 due task, the first (mine) since T: 1 of 1 run of a group"})
	same(b, "late", told("late"), []string{
		"warning 3: 3 late tasks of type TEST in queue default, the first (theirs) since T: limited by all"})
	b.must(b.Tasks.PauseScope(b.Ctx, b.Pool, store.Type("TEST"), time.Time{}, ""))
	same(b, "paused", len(told("limits")), 0)
}

// What no node works does not wait for a limit.
func TestALimitDoesNotHideThatNobodyWorks(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.leads(`{"default": 5}`, `{TEST}`)
	b.must(b.Tasks.SetLimit(b.Ctx, b.Pool, store.Limit{Name: "all", Of: store.Everything(), MaxRunning: 1}))
	b.run("TEST", "")
	b.Schedule(store.Task{ID: "a", Payload: payload(1), Queue: "mail", At: b.Now().Add(-time.Hour)})
	got := b.attention("late")
	if len(got) != 1 || !strings.HasSuffix(got[0], ": no live node works that queue") || len(b.attention("limits")) != 0 {
		t.Errorf("late: %s", pretty(got))
	}
}

// Of a million due tasks only the first are counted, and in each lane at least a hundred.
func TestLimitsCountUpToANumber(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.leads(`{"default": 5}`, `{MANY,ONE}`)
	b.seed(`INSERT INTO tasktable.scheduled_tasks (id, payload, type, revision, next_attempt_at)
		SELECT 'many ' || i, '{"type": "MANY"}'::jsonb, 'MANY', i, now() - interval '2 hours' FROM generate_series(1, 6000) AS i
		UNION ALL SELECT 'one', '{"type": "ONE"}'::jsonb, 'ONE', 1, now() - interval '3 hours'`)
	b.must(b.Tasks.SetLimit(b.Ctx, b.Pool, store.Limit{Name: "all", Of: store.Everything(), MaxRunning: 1}))
	b.run("TEST", "")
	limits, err := b.Tasks.Limits(b.Ctx, b.Pool)
	b.Check(err)
	if limits[0].Waiting != 5001 || !limits[0].WaitingMore || b.Now().Sub(*limits[0].OldestDue) < 3*time.Hour {
		t.Errorf("%s", pretty(limits))
	}
	if got := b.attention("limits"); len(got) != 1 ||
		!strings.HasPrefix(got[0], "warning 1: limit all holds back 5001 or more due tasks, the first (one) since") {
		t.Errorf("%s", pretty(got))
	}
}
