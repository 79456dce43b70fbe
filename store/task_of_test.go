package store_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/tasktable/tasktable/store"
)

// A row of each kind, read as a task and scheduled again, stays as it is, and so does its history. A task that has
// ended stays ended, but a cancelled one is queued again, as by any Schedule.
func TestTaskOfChangesNothing(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.Tasks = store.New(store.Config{Service: service, Codec: secret(t, 1)})
	want := map[string]store.Outcome{}
	for _, kind := range rowKinds[1:] {
		b.Make(kind, kind)
		want[kind] = store.Unchanged
	}
	for _, kind := range recurringKinds[1:] {
		b.MakeRecurring("recurring "+kind, kind)
		want["recurring "+kind] = store.Unchanged
	}
	full := mortal("full")
	full.Expiration, full.ExpectedExecutionTime, full.MaxAttempts = 90*time.Minute+time.Microsecond, 1500*time.Millisecond, 3
	full.Priority, full.Queue, full.Jitter, full.Retention = -7, "mail", time.Hour, 40*24*time.Hour
	full.Group, full.Backoff, full.Timeout = "customer:1", "10s x3 max 1h jitter 25%", time.Minute
	recurring := full
	recurring.ID, recurring.Recurrence = "full recurring", &store.Recurrence{
		Cron: "0 3 * * *", TimeZone: "Europe/Berlin", Overlap: store.OverlapAllow, CatchUp: store.CatchUpAll,
		CatchUpPaused: store.CatchUpLatest, CatchUpLimit: 7, EndsAt: far(900000), MaxOccurrences: 12,
	}
	full.Deadline = far(90)
	sealed, sealedRecurring := full, recurring
	sealed.ID, sealedRecurring.ID = "sealed", "sealed recurring"
	for _, task := range []store.Task{full, recurring} {
		b.Schedule(task)
	}
	for _, task := range []store.Task{sealed, sealedRecurring} {
		b.succeeds(b.Tasks.Schedule(b.Ctx, b.Pool, task))
	}
	b.Schedule(store.Task{ID: "plain", Payload: payload(1), At: far(0).Add(time.Microsecond)})
	for _, id := range []string{"full", "sealed", "plain", "full recurring", "sealed recurring"} {
		want[id] = store.Unchanged
	}
	for _, id := range []string{"full recurring", "sealed recurring"} {
		want[one[string](b, b.Pool, `SELECT tasktable.fork_occurrence($1, '2026-11-23 12:00Z')`, id)] = store.Unchanged
	}
	for id := range want {
		switch b.Get(id).Status {
		case store.StatusCompleted, store.StatusFailed, store.StatusExpired, store.StatusSkipped:
			want[id] = store.Finished
		case store.StatusCancelled:
			want[id] = store.Rearmed
		}
	}
	for id, outcome := range want {
		before := pretty([]any{b.Get(id), b.Lines(id)})
		task, err := store.TaskOf(*b.Get(id))
		b.Check(err)
		for name, tasks := range map[string]*store.Store{"without a codec": store.New(store.Config{}), "": b.Tasks} {
			got, err := tasks.Schedule(b.Ctx, b.Pool, task)
			b.Check(err)
			if got.Outcome != outcome {
				t.Errorf("%s %s: %s, not %s", id, name, got.Outcome, outcome)
			}
			if outcome == store.Rearmed {
				break
			}
			same(b, id, pretty([]any{b.Get(id), b.Lines(id)}), before)
		}
	}
}

// One changed field is the only one that an edit changes, also of a task whose codec the program does not have.
func TestTaskOfChangesOneField(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	sealed := store.New(store.Config{Service: service, Codec: secret(t, 1)})
	task := mortal("one")
	task.Recurrence = &store.Recurrence{Cron: "@daily", TimeZone: "Europe/Berlin"}
	b.succeeds(sealed.Schedule(b.Ctx, b.Pool, task))
	before := b.Get("one")
	edited, err := store.TaskOf(*before)
	b.Check(err)
	edited.Priority = 42
	if got := b.Schedule(edited); got.Outcome != store.Rescheduled {
		t.Fatal(got.Outcome)
	}
	after := b.Get("one")
	if after.Priority != 42 || after.AskedRevision != before.AskedRevision {
		t.Errorf("priority %d, asked revision %d after %d", after.Priority, after.AskedRevision, before.AskedRevision)
	}
	after.Priority, after.Revision = before.Priority, before.Revision
	same(b, "the rest", pretty(after), pretty(before))
}

// A row whose if_dead cannot be read is refused, because scheduling it without would remove these tasks.
func TestTaskOfOfABrokenRow(t *testing.T) {
	t.Parallel()
	if _, err := store.TaskOf(store.Row{ID: "one", IfDead: json.RawMessage(`{`)}); err == nil ||
		!strings.Contains(err.Error(), "if_dead of task one") {
		t.Error(err)
	}
}

func TestTyped(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ name, text, want, wrong string }{
		{name: "LOG", want: `{"type":"LOG"}`},
		{name: "LOG", text: `{"n": 1}`, want: `{"type":"LOG","n":1}`},
		{text: `{"n": 12345678901234567890, "type": "LOG"}`, want: `{"n":12345678901234567890,"type":"LOG"}`},
		{name: "LOG", text: `{"type": "LOG"}`, want: `{"type":"LOG"}`},
		{text: `{}`, wrong: "type must be given, because the payload has no field type that says it"},
		{wrong: "type must be given, because the payload has no field type that says it"},
		{name: "LOG", text: `{"secret"`, wrong: "payload must be a JSON object: it is wrong at byte 9"},
		{name: "LOG", text: `["secret"]`, wrong: "payload must be a JSON object"},
		{name: "LOG", text: `null`, wrong: "payload must be a JSON object"},
		{name: "LOG", text: `{"type": "TEST"}`, wrong: `payload must have no field type other than "LOG", got "TEST"`},
		{name: "L", text: `{}`, wrong: `type must be 2 to 127 letters, digits or _-[]<>/.·:+, got "L"`},
	} {
		payload, err := store.Typed(c.name, []byte(c.text))
		if c.wrong != "" {
			if !errors.Is(err, store.ErrInvalid) || err.Error() != "invalid: "+c.wrong {
				t.Errorf("%q %q: %v", c.name, c.text, err)
			}
			continue
		}
		text, _ := json.Marshal(payload)
		if err != nil || string(text) != c.want {
			t.Errorf("%q %q: %s, %v", c.name, c.text, text, err)
		}
	}
}
