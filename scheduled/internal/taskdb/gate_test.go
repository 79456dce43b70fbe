package taskdb_test

import (
	"encoding/json"
	"fmt"
	"reflect"
	"testing"
	"time"

	"github.com/tasktable/tasktable/handlers"
	"github.com/tasktable/tasktable/scheduled/internal/enginetest"
	"github.com/tasktable/tasktable/scheduled/internal/taskdb"
	"github.com/tasktable/tasktable/store"
)

func TestGateLetsTheRightOneThrough(t *testing.T) {
	b := newBench(t)
	h := b.TakeOne(store.Task{
		ID: "a", Payload: job{Name: "n"}, Entity: "event:1", TenantID: "acme",
		ExpectedExecutionTime: time.Minute, MaxAttempts: 3,
	})
	answer := b.Ask(noon.Add(30*time.Second), h)[h.Fence]
	if answer.Verdict != taskdb.VerdictGo || answer.Lease != 90 || answer.Expected != 60 || answer.DueIn != -30 {
		t.Errorf("answer %+v", answer)
	}
	want := &handlers.Execution{
		ID: "a", Type: "JOB", Queue: "default", Entity: "event:1", TenantID: "acme",
		Payload: json.RawMessage(`{"name": "n", "type": "JOB"}`), ScheduledAt: noon, DueAt: noon,
		StartedAt: noon.Add(30 * time.Second), Revision: h.Revision, AskedRevision: h.Revision,
		Fence: h.Fence, Attempt: 1, MaxAttempts: 3,
	}
	got := answer.Execution(h)
	for _, at := range []*time.Time{&got.ScheduledAt, &got.DueAt, &got.StartedAt} {
		*at = at.UTC()
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
}

// By the database's clock a task is never let through before its time, nor from its expiry on.
func TestGateWatchesTheTime(t *testing.T) {
	b := newBench(t)
	b.Schedule(store.Task{Payload: job{Name: "a"}, At: noon, Expiration: time.Minute})
	taken := b.ClaimFrom(noon.Add(-time.Second), time.Second, enginetest.Jobs(0, 1))
	h := taken[0].Tasks[0].Claim
	for _, test := range []struct {
		now  time.Duration
		want string
	}{
		{-time.Second, "early 1"},
		{-time.Microsecond, "early 1e-06"},
		{0, "go 0"},
		{time.Minute - time.Microsecond, "go -59.999999"},
		{time.Minute, "expired -60"},
	} {
		answer := b.Ask(noon.Add(test.now), h)[h.Fence]
		if got := fmt.Sprint(answer.Verdict, " ", answer.DueIn); got != test.want {
			t.Errorf("at noon %+v: %s, want %s", test.now, got, test.want)
		}
	}
	b.End(noon.Add(time.Minute), taskdb.Expired(h))
	b.Expect("expired at the gate", "a", `
		EXPIRED rev=1 attempt=0 scheduled=noon finished=1m0s message="expired before it could start"
		EXPIRED rev=1 attempt=1 scheduled=noon due=noon finished=1m0s error="expired before it could start" node=7
		1 schedule created by test`)
}

// What commits between claim and gate keeps the task from starting; the claim is handed back, and the
// row keeps the edit.
func TestGateRefusesWhatWasEditedSinceTheClaim(t *testing.T) {
	b := newBench(t)
	verb := func(do func(id string) (store.Receipt, error)) func(string) error {
		return func(id string) error { _, err := do(id); return err }
	}
	sql := func(statement string) func(string) error {
		return func(id string) error { _, err := b.Pool.Exec(t.Context(), statement, id); return err }
	}
	cancel := verb(func(id string) (store.Receipt, error) { return enginetest.Tasks.Cancel(t.Context(), b.Pool, id) })
	for _, test := range []struct{ name, edit, after string }{
		{"cancel", "", `
			CANCELLED rev=2 attempt=1 scheduled=noon finished=real
			CANCELLED rev=1 attempt=1 scheduled=noon due=noon finished=1s error="edited or cancelled meanwhile" node=7
			1 schedule created by test
			2 cancel cancelled by test`},
		{"pause by SQL", "", `
			PAUSED rev=1 attempt=0 scheduled=noon
			RELEASED rev=1 attempt=1 scheduled=noon due=noon finished=1s error="edited or cancelled meanwhile" node=7
			1 schedule created by test
			2 sql paused by tester`},
		{"another time", "", `
			QUEUED rev=2 attempt=0 scheduled=1h0m0s next=1h0m0s
			RELEASED rev=1 attempt=1 scheduled=1h0m0s due=noon finished=1s error="edited or cancelled meanwhile" node=7
			1 schedule created by test
			2 reschedule rescheduled by test`},
		{"another payload", "", `
			QUEUED rev=2 attempt=0 scheduled=noon next=1s
			RELEASED rev=1 attempt=1 scheduled=noon due=noon finished=1s error="edited or cancelled meanwhile" node=7
			1 schedule created by test
			2 sql rescheduled by tester`},
		{"cancel, then schedule", "", `
			QUEUED rev=3 attempt=0 scheduled=noon next=1s
			RELEASED rev=1 attempt=1 scheduled=noon due=noon finished=1s error="edited or cancelled meanwhile" node=7
			1 schedule created by test
			2 cancel cancelled by test
			3 schedule rearmed by test`},
		{"completed by SQL", "", `
			COMPLETED rev=2 attempt=1 scheduled=noon finished=real
			RELEASED rev=1 attempt=1 scheduled=noon due=noon finished=1s error="edited or cancelled meanwhile" node=7
			1 schedule created by test
			2 sql edited by tester`},
	} {
		t.Run(test.name, func(t *testing.T) {
			edit := map[string]func(string) error{
				"cancel":       cancel,
				"pause by SQL": sql(`UPDATE tasktable.scheduled_tasks SET status = 'PAUSED' WHERE id = $1`),
				"another time": verb(func(id string) (store.Receipt, error) {
					return enginetest.Tasks.Reschedule(t.Context(), b.Pool, id, noon.Add(time.Hour))
				}),
				"another payload": sql(`UPDATE tasktable.scheduled_tasks SET payload = payload || '{"name":"other"}'
					WHERE id = $1`),
				"cancel, then schedule": func(id string) error {
					if err := cancel(id); err != nil {
						return err
					}
					_, err := enginetest.Tasks.Schedule(t.Context(), b.Pool, store.Task{
						ID: id, Payload: job{Name: id},
					})
					return err
				},
				"completed by SQL": sql(`UPDATE tasktable.scheduled_tasks SET status = 'COMPLETED' WHERE id = $1`),
			}[test.name]
			h := b.TakeOne(store.Task{Payload: job{Name: test.name}})
			enginetest.OK(t, edit(test.name))
			if again := b.Take(noon.Add(2 * time.Hour)); len(again) != 0 {
				t.Errorf("claimed while it is held: %v", again)
			}
			if answer := b.Ask(noon, h)[h.Fence]; answer.Verdict != taskdb.VerdictEdited {
				t.Errorf("verdict %q", answer.Verdict)
			}
			b.End(noon.Add(time.Second), taskdb.Released(h, "edited or cancelled meanwhile"))
			b.Expect("handed back", test.name, test.after)
			if answers := b.Ask(noon, h); len(answers) != 0 {
				t.Errorf("a fence that is gone has answers: %v", answers)
			}
			b.Exec(`DELETE FROM tasktable.scheduled_tasks`)
		})
	}
}

// An edit that comes to the same as before is none: the claim goes on.
func TestGateLetsAnUnchangedTaskThrough(t *testing.T) {
	b := newBench(t)
	h := b.TakeOne(store.Task{Payload: job{Name: "a"}})
	if receipt := enginetest.Schedule(t, b.Pool, store.Task{
		ID: "a", Payload: job{Name: "a"}, At: noon,
	}); receipt.Outcome != store.Unchanged {
		t.Errorf("outcome %s", receipt.Outcome)
	}
	b.Exec(`UPDATE tasktable.scheduled_tasks SET priority = priority, payload = payload, message = 'a remark'`)
	if answer := b.Ask(noon, h)[h.Fence]; answer.Verdict != taskdb.VerdictGo {
		t.Errorf("verdict %q", answer.Verdict)
	}
}

// Either sign of an edit is enough, should one have come past the triggers.
func TestGateSeesEditsPastTheTriggers(t *testing.T) {
	b := newBench(t)
	b.Exec(`ALTER TABLE tasktable.scheduled_tasks DISABLE TRIGGER USER`)
	insert := func(id string) {
		b.Exec(`INSERT INTO tasktable.scheduled_tasks (id, payload, type, revision, scheduled_at, next_attempt_at)
			VALUES ($1, '{"type":"JOB"}', 'JOB', 7, $2::timestamptz, $2::timestamptz)`, id, noon)
	}
	for _, edit := range []string{`status = 'PAUSED'`, `status = 'CANCELLED', finished_at = now()`, `revision = 8`} {
		insert(edit)
		h := b.Take(noon)[edit]
		b.Exec(`UPDATE tasktable.scheduled_tasks SET ` + edit)
		if answer := b.Ask(noon, h)[h.Fence]; answer.Verdict != taskdb.VerdictEdited {
			t.Errorf("%s: verdict %q", edit, answer.Verdict)
		}
		b.Exec(`DELETE FROM tasktable.scheduled_tasks`)
	}
}

// Holds that are not the row's do not come back; the others do, each with its own answer.
func TestGateAnswersManyAtOnce(t *testing.T) {
	b := newBench(t)
	var asked []taskdb.Claim
	for i := range 20 {
		b.Due(fmt.Sprint(i))
	}
	for _, h := range b.Take(noon) {
		asked = append(asked, h)
	}
	if len(asked) != 20 {
		t.Fatalf("claimed %d", len(asked))
	}
	foreign := asked[0]
	foreign.Fence++ // another's
	elsewhere := asked[1]
	elsewhere.ID = "no such task"
	answers := b.Ask(noon, append(asked[2:], foreign, elsewhere)...)
	for _, h := range asked[2:] {
		answer, found := answers[h.Fence]
		if found && answer.Payload != fmt.Sprintf(`{"name": "%s", "type": "JOB"}`, h.ID) {
			t.Errorf("task %s got the answer of another: %s", h.ID, answer.Payload)
		}
		delete(answers, h.Fence)
	}
	if len(answers) != 0 {
		t.Errorf("answers to holds that are not: %v", answers)
	}
}

func TestExtend(t *testing.T) {
	b := newBench(t)
	for _, id := range []string{"a", "locked", "lost"} {
		b.Schedule(store.Task{
			Payload: job{Name: id}, At: time.Now().Add(-time.Minute), ExpectedExecutionTime: time.Minute,
		})
	}
	holds := b.Take(time.Now())
	extend := func(allowance time.Duration, d *time.Duration, ids ...string) map[string]time.Duration {
		t.Helper()
		byID := map[string]time.Duration{}
		for _, id := range ids {
			lease, done, err := b.Extend(t.Context(), b.Pool, holds[id], allowance, d)
			b.OK(err)
			if done {
				byID[id] = lease.Round(time.Second) // by the real clock
			}
		}
		return byID
	}
	gone := holds["lost"]
	b.End(time.Now(), taskdb.Lost(gone, "gone"))
	defer enginetest.Lock(t, b.Pool, "locked")()
	for _, step := range []struct {
		allowance time.Duration
		d         *time.Duration
		want      string
	}{
		{5 * time.Minute, nil, "map[a:6m0s]"},
		{time.Second, nil, "map[a:6m0s]"}, // never shorter
		{time.Minute, new(10 * time.Minute), "map[a:11m0s]"},
	} {
		if got := extend(step.allowance, step.d, "a", "locked", "lost"); fmt.Sprint(got) != step.want {
			t.Errorf("extended %v, want %s", got, step.want)
		}
	}
	answer, err := b.Gate(t.Context(), b.Pool, nil, []taskdb.Claim{holds["a"], holds["locked"]}, true)
	b.OK(err)
	if a, l := answer[holds["a"].Fence].Lease, answer[holds["locked"].Fence].Lease; a < 11*60-5 || a > 11*60 ||
		l > 2*60 {
		t.Errorf("leases by the gate: %v and, locked, %v", a, l)
	}
}

func TestRecheck(t *testing.T) {
	b := newBench(t)
	ids := []string{"as it was", "cancelled", "edited", "lost", "rearmed"}
	for _, id := range ids {
		b.Due(id)
	}
	holds := b.Take(noon)
	for _, id := range []string{"cancelled", "rearmed"} {
		b.Did(enginetest.Tasks.Cancel(t.Context(), b.Pool, id))
	}
	enginetest.Schedule(t, b.Pool, store.Task{ID: "rearmed", Payload: job{Name: "rearmed"}})
	enginetest.Schedule(t, b.Pool, store.Task{ID: "edited", Payload: job{Name: "edited"}, At: noon.Add(time.Minute)})
	b.End(noon, taskdb.Lost(holds["lost"], "gone"))
	var asked []taskdb.Claim
	for _, id := range ids {
		asked = append(asked, holds[id])
	}
	states, err := b.Recheck(t.Context(), b.Pool, asked)
	b.OK(err)
	got := map[int64]taskdb.RecheckRow{}
	for _, state := range states {
		got[state.Fence] = state
	}
	for id, want := range map[string]taskdb.RecheckRow{
		"as it was": {Held: true, Current: true},
		"cancelled": {Held: true, Cancelled: true},
		"edited":    {Held: true},
		"rearmed":   {Held: true},
		"lost":      {},
	} {
		want.Fence = holds[id].Fence
		if got[want.Fence] != want {
			t.Errorf("%s: %+v, want %+v", id, got[want.Fence], want)
		}
	}
}

// A trigger of an application may move a task without an edit, in the very update that claims it. The
// Gate goes by the row.
func TestGateGoesByTheTimeOfTheRow(t *testing.T) {
	b := newBench(t)
	h := b.TakeOne(store.Task{ID: "a", Payload: job{Name: "n"}})
	b.Exec(`ALTER TABLE tasktable.scheduled_tasks DISABLE TRIGGER USER`)
	b.Exec(`UPDATE tasktable.scheduled_tasks SET scheduled_at = $1 WHERE id = 'a'`, noon.Add(10*time.Minute))
	for at, want := range map[time.Duration]string{9 * time.Minute: "early 60", 10 * time.Minute: "go 0"} {
		answer := b.Ask(noon.Add(at), h)[h.Fence]
		if got := fmt.Sprint(answer.Verdict, " ", answer.DueIn); got != want {
			t.Errorf("at noon %+v: %s, want %s", at, got, want)
		}
	}
}
