package inspect_test

import (
	"strings"
	"testing"
	"time"

	"github.com/tasktable/tasktable/store"
)

// A due task that a limit keeps from starting names the limit, and how far it is used.
func TestWhyLimited(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.Node(`{"default": 3}`, `{TEST}`, true)
	b.due("mine", nil)
	set := func(limit store.Limit) {
		t.Helper()
		b.must(b.Tasks.SetLimit(t.Context(), b.Pool, limit))
	}
	limit := store.Limit{Name: "tests", Of: store.Type("TEST"), MaxRunning: 2}
	set(limit)
	b.isNext("mine", "3 slots")
	b.Exec(b.Pool, `INSERT INTO tasktable.river_job (state, kind, args, max_attempts)
		SELECT 'available', kind, '{}', 1 FROM unnest('{TEST,TEST,OTHER}'::text[]) AS kind`)
	b.because("mine", "limited", "waits: 2 of 2 tasks of type TEST run (limit tests), due since T")
	limit.MaxRunning = 1
	set(limit)
	b.because("mine", "limited", "waits: 2 of 1 tasks of type TEST run (limit tests), due since T")
	limit.MaxRunning = 3
	set(limit)
	set(store.Limit{Name: "rate", Of: store.Queue("default"), Rate: 100, Interval: time.Minute, Burst: 20})
	b.isNext("mine", "3 slots")
	b.Exec(b.Pool, `INSERT INTO tasktable.limit_buckets VALUES ('rate', clock_timestamp() + interval '1 minute')`)
	b.because("mine", "limited", "waits, because at most 100 tasks of queue default may start in 1m (limit rate), "+
		"due since T, the next may start at T")
	set(store.Limit{Name: "whole", Of: store.Everything(), MaxRunning: 3, Rate: 1})
	b.must(b.Tasks.RemoveLimit(t.Context(), b.Pool, "rate"))
	b.because("mine", "limited", "waits: 3 of 3 tasks run (limit whole), due since T")
	for _, name := range []string{"whole", "tests"} {
		b.must(b.Tasks.RemoveLimit(t.Context(), b.Pool, name))
	}
	set(store.Limit{Name: "each", Of: store.Type("TEST"), Per: store.PerGroup, MaxRunning: 1})
	b.due("theirs", func(task *store.Task) { task.Group = "customer:42" })
	b.due("others", func(task *store.Task) { task.Group = "customer:43" })
	b.Exec(b.Pool, `INSERT INTO tasktable.river_job (state, kind, args, max_attempts, metadata)
		SELECT 'running', 'TEST', '{}', 1, '{"key": "g:customer:42"}'`)
	const each = "waits: 1 of 1 tasks of type TEST of group customer:42 run (limit each), due since T"
	b.because("theirs", "limited", each)
	for hung, more := range map[string]string{
		`{"OTHER": 1}`: "", `["TEST"]`: "", `{"TEST": "x"}`: "",
		`{"TEST": 1}`: ", and 1 handler that does not return may hold it until its node is restarted",
		`{"TEST": 2}`: ", and 2 handlers that do not return may hold it until their nodes are restarted",
	} {
		b.Exec(b.Pool, `UPDATE tasktable.nodes SET hung = $1::text::jsonb`, hung)
		b.because("theirs", "limited", strings.Replace(each, ", due", more+", due", 1))
	}
	b.Exec(b.Pool, `UPDATE tasktable.nodes SET hung = '{}'`)
	if code := b.why("others").Reason.Code; code != "in_line" {
		t.Errorf("the other customer's: %s", code)
	}
	b.Exec(b.Pool, `DELETE FROM tasktable.river_job`)
	set(store.Limit{Name: "each", Of: store.Type("TEST"), Per: store.PerGroup, Rate: 100, Interval: time.Minute, Burst: 20})
	b.Exec(b.Pool, `INSERT INTO tasktable.limit_buckets VALUES
		('each', clock_timestamp() + interval '1 minute', 'g:customer:42'),
		('each', clock_timestamp() + interval '9 seconds', 'g:customer:43')`)
	e := b.because("theirs", "limited", "waits, because at most 100 tasks of type TEST of group customer:42 may start in "+
		"1m (limit each), due since T, the next may start at T")
	if in := e.Reason.Until.Sub(b.Now()); in > 600*time.Millisecond { // no group waits longer than for an empty bucket
		t.Errorf("the next one starts in %s", in)
	}
	for _, id := range []string{"others", "mine"} {
		if code := b.why(id).Reason.Code; code != "in_line" {
			t.Errorf("%s: %s", id, code)
		}
	}
	if states, err := b.Tasks.Limits(t.Context(), b.Pool); err != nil || states[0].NextStartAt != nil {
		t.Errorf("%+v, %v", states, err)
	}
}

// A task that waits for a retry of an earlier one of its group names that one, and tells when it is tried again.
func TestWhyInOrder(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.Node(`{"default": 3}`, `{TEST}`, true)
	limit := store.Limit{Name: "each", Of: store.Queue("default"), Per: store.PerGroup, InOrder: true}
	b.must(b.Tasks.SetLimit(t.Context(), b.Pool, limit))
	for _, id := range []string{"first", "second", "other"} {
		b.due(id, func(task *store.Task) {
			if task.Group = "customer:42"; id == "other" {
				task.Group = "customer:43"
			}
		})
	}
	b.Exec(b.Pool, `UPDATE tasktable.scheduled_tasks SET goes_first = true,
		next_attempt_at = clock_timestamp() + interval '1 hour' WHERE id = 'first'`)
	b.because("second", "limited", "waits: task first of queue default of group customer:42 comes first, and waits for "+
		"its next attempt (limit each), due since T, the next may start at T")
	b.Exec(b.Pool, `UPDATE tasktable.scheduled_tasks SET next_attempt_at = clock_timestamp() WHERE id = 'first'`)
	b.because("second", "limited", "waits: task first of queue default of group customer:42 comes first, and waits for "+
		"its next attempt (limit each), due since T")
	for _, id := range []string{"first", "other"} {
		if code := b.why(id).Reason.Code; code != "in_line" {
			t.Errorf("%s: %s", id, code)
		}
	}
}
