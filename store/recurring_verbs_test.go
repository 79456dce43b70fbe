package store_test

import (
	"strings"
	"testing"
	"time"

	"github.com/tasktable/tasktable/store"
)

// recurringVerbs says what each verb comes to: a column for each of recurringKinds. The paused one is
// paused until a time.
const recurringVerbs = `
cancel      absent cancelled   cancelled   cancelled   cancelled   unchanged finished finished
pause       absent paused      paused      paused      paused      finished  finished finished
pause_until absent paused      paused      paused      unchanged   finished  finished finished
pause_other absent paused      paused      paused      paused      finished  finished finished
resume      absent unchanged   unchanged   unchanged   queued      finished  finished finished
run_now     absent queued      queued      queued      queued      queued    queued   queued
retry       absent unchanged   unchanged   unchanged   unchanged   unchanged finished queued
delete      absent deleted     deleted     deleted     deleted     deleted   deleted  deleted
re_other    absent rescheduled rescheduled rescheduled rescheduled rearmed   rearmed  rearmed
re_same     absent unchanged   unchanged   unchanged   unchanged   rearmed   finished finished`

func TestEachVerbOnEachRecurringRow(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	for line := range strings.Lines(strings.TrimSpace(recurringVerbs)) {
		cells := strings.Fields(line)
		for i, kind := range recurringKinds {
			b.each(cells[0]+"/"+kind, func(b *bench) {
				verb, id, outcome := cells[0], cells[0]+" "+kind, store.Outcome(cells[1+i])
				b.MakeRecurring(id, kind)
				expect := func(w *want) { expectedRecurring(w, verb, outcome) }
				if verb == "run_now" { // it makes an occurrence
					expect = nil
				}
				call := func() (store.Receipt, error) { return b.callRecurring(verb, id) }
				b.checkCall(id, lineVerb(verb), outcome, call, expect)
			})
		}
	}
}

// expectedRecurring makes of a row what a line of recurringVerbs makes of it.
func expectedRecurring(w *want, verb string, outcome store.Outcome) {
	status := store.StatusQueued
	switch outcome {
	case store.Cancelled:
		status = store.StatusCancelled
	case store.Rescheduled:
		status = w.row.Status
	case store.Paused:
		status = store.StatusPaused
		w.row.PausedUntil = map[string]*time.Time{
			"pause_until": pointerTo(far(60)), "pause_other": pointerTo(far(61)),
		}[verb]
	}
	if verb == "re_other" {
		w.row.ScheduledAt = far(5)
	}
	w.become(status)
}

func (b *bench) callRecurring(verb, id string) (store.Receipt, error) {
	switch verb {
	case "pause_until":
		return b.Tasks.PauseUntil(b.Ctx, b.Pool, id, far(60))
	case "pause_other":
		return b.Tasks.PauseUntil(b.Ctx, b.Pool, id, far(61))
	}
	return b.call(b.Pool, verb, id, store.Task{})
}

// What was forked goes on by itself, whatever becomes of the recurring task: cancel, delete and pause are of
// the row they name.
func TestOccurrencesOutliveTheirRecurringTask(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	for _, verb := range []string{"cancel", "pause", "pause_until", "re_other", "delete"} {
		b.each(verb, func(b *bench) {
			b.MakeRecurring(verb, "planned")
			var states []state
			occurrences := []string{b.fork(verb, "2100-01-01 09:00Z"), b.fork(verb, "2100-01-02 09:00Z", "not today")}
			for _, id := range occurrences {
				states = append(states, b.state(id))
			}
			b.succeeds(b.callRecurring(verb, verb))
			for i, id := range occurrences {
				same(b, id, b.state(id), states[i])
			}
		})
	}
}

// fork makes an occurrence, or a skipped one with its reason, as the leader does, and returns its id.
func (b *bench) fork(parent, fire string, skip ...string) string {
	b.Helper()
	var reason *string
	if len(skip) > 0 {
		reason = &skip[0]
	}
	id := one[*string](b, b.Pool, `SELECT tasktable.fork_occurrence($1, $2::text::timestamptz,
		$3, 'leader')`, parent, fire, reason)
	if id == nil {
		b.Fatalf("no occurrence of %s at %s", parent, fire)
	}
	return *id
}

// A paused task stays paused until its time, whatever it is scheduled for meanwhile; what ends the pause
// clears the time.
func TestPausedUntil(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	for name, c := range map[string]struct {
		then   step
		status store.Status
		until  bool
	}{
		"scheduled anew": {does("both"), "PAUSED", true},
		"made recurring": {func(b *bench, id string) {
			task := recurs(id)
			task.Replace = true
			b.Schedule(task)
		}, "PAUSED", true},
		"rescheduled":     {does("re_other"), "PAUSED", true},
		"paused for good": {does("pause"), "PAUSED", false},
		"resumed":         {does("resume"), "QUEUED", false},
		"run now":         {does("run_now"), "QUEUED", false},
		"cancelled":       {does("cancel"), "CANCELLED", false},
	} {
		b.each(name, func(b *bench) {
			b.Schedule(base(name))
			receipt, err := b.Tasks.PauseUntil(b.Ctx, b.Pool, name, far(60))
			if err != nil || receipt.Outcome != store.Paused {
				b.Fatalf("%+v, %v", receipt, err)
			}
			c.then(b, name)
			row := b.Get(name)
			if row.Status != c.status || (row.PausedUntil != nil) != c.until ||
				c.until && !row.PausedUntil.Equal(far(60)) {
				b.Errorf("%s until %v", row.Status, row.PausedUntil)
			}
		})
	}
}

// The time of a pause is a field of its change line, also when it alone is changed.
func TestLinesOfPausesUntil(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.Schedule(base("one"))
	for _, call := range []struct {
		sql, outcome string
		old, new     any
	}{
		{
			`SELECT * FROM tasktable.pause('one', until => '2100-01-01 01:00Z')`, "paused",
			map[string]any{"status": "QUEUED", "paused_until": nil},
			map[string]any{"status": "PAUSED", "paused_until": "2100-01-01T01:00:00Z"},
		},
		{`SELECT * FROM tasktable.pause('one', until => '2100-01-01 01:00Z')`, "unchanged", nil, nil},
		{
			`SELECT * FROM tasktable.pause('one', 'ann', '2100-01-01 02:00Z')`, "paused",
			map[string]any{"paused_until": "2100-01-01T01:00:00Z"},
			map[string]any{"paused_until": "2100-01-01T02:00:00Z"},
		},
		{
			`SELECT * FROM tasktable.pause('one')`, "paused", map[string]any{"paused_until": "2100-01-01T02:00:00Z"},
			map[string]any{"paused_until": nil},
		},
		{`SELECT * FROM tasktable.pause('one')`, "unchanged", nil, nil},
		{
			`SELECT * FROM tasktable.pause('one', until => '2100-01-01 03:00Z')`, "paused",
			map[string]any{"paused_until": nil}, map[string]any{"paused_until": "2100-01-01T03:00:00Z"},
		},
		{
			`SELECT * FROM tasktable.resume('one')`, "queued",
			map[string]any{"status": "PAUSED", "paused_until": "2100-01-01T03:00:00Z"},
			map[string]any{"status": "QUEUED", "paused_until": nil},
		},
	} {
		lines := len(b.Changes("one"))
		if got := b.ask(call.sql); got.Outcome != call.outcome || *got.Revision != b.Get("one").Revision {
			t.Errorf("%s: %s", call.sql, pretty(got))
		}
		changes := b.state("one").Changes
		if call.old == nil {
			same(b, call.sql, len(changes), lines)
			continue
		}
		last := changes[len(changes)-1]
		same(b, call.sql, []any{last.Verb, last.Outcome, last.Old, last.New}, []any{
			strings.SplitN(strings.SplitAfterN(call.sql, "tasktable.", 2)[1], "(", 2)[0], call.outcome, call.old,
			call.new,
		})
	}
	same(b, "lines", b.Lines("one")[2], "pause paused ann")
}
