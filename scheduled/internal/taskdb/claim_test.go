package taskdb_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tasktable/tasktable/scheduled/internal/enginetest"
	"github.com/tasktable/tasktable/scheduled/internal/taskdb"
	"github.com/tasktable/tasktable/store"
)

func TestClaimTakesATask(t *testing.T) {
	b := newBench(t)
	b.Schedule(store.Task{Payload: job{Name: "a"}, At: noon, ExpectedExecutionTime: 2 * time.Minute})
	b.Expect("before", "a", `
		QUEUED rev=1 attempt=0 scheduled=noon next=noon
		1 schedule created by test`)
	if early := b.Take(noon.Add(-time.Microsecond)); len(early) != 0 {
		t.Fatalf("claimed before its time: %v", early)
	}
	taken := b.ClaimFrom(noon.Add(time.Second), 0, enginetest.Jobs(0, 10))
	if len(taken) != 1 || len(taken[0].Tasks) != 1 {
		t.Fatalf("claimed %+v", taken)
	}
	got := taken[0].Tasks[0]
	if got.ID != "a" || got.Attempt != 1 || !got.Due.Equal(noon) || got.Fence <= got.Revision ||
		!taken[0].Last.Equal(noon) {
		t.Errorf("claimed %+v", got)
	}
	b.Expect("claimed", "a", `
		EXECUTING rev=1 attempt=1 scheduled=noon fence lease_expires_at=3m1s
		1 schedule created by test`)
	if again := b.Take(noon.Add(time.Hour)); len(again) != 0 {
		t.Errorf("a held task was claimed: %v", again)
	}
}

// A lease counts from the task's time, where it is claimed before that.
func TestClaimAhead(t *testing.T) {
	b := newBench(t)
	b.Due("a")
	if far := b.ClaimFrom(noon.Add(-1001*time.Millisecond), time.Second, enginetest.Jobs(0, 10)); len(far) != 0 {
		t.Fatalf("claimed beyond the look-ahead: %v", far)
	}
	if near := b.ClaimFrom(noon.Add(-time.Second), time.Second, enginetest.Jobs(0, 10)); len(near) != 1 ||
		!near[0].Last.Equal(noon) {
		t.Fatalf("claimed %v", near)
	}
	b.Expect("claimed", "a", `
		EXECUTING rev=1 attempt=1 scheduled=noon fence lease_expires_at=6m0s
		1 schedule created by test`)
}

// A task counts for the lane that the leader has granted, so that limits hold. A trigger of the application cannot give
// it another one at the claim.
func TestClaimOfATaskThatATriggerMoves(t *testing.T) {
	b := newBench(t)
	b.Schedule(store.Task{Payload: job{Name: "a"}, At: noon})
	b.Exec(`
CREATE FUNCTION move() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    NEW.priority := 7;
    RETURN NEW;
END $$;
CREATE TRIGGER move BEFORE UPDATE OF status ON tasktable.scheduled_tasks FOR EACH ROW EXECUTE FUNCTION move()`)
	grants := []taskdb.Grant{enginetest.Jobs(7, 10), enginetest.Jobs(0, 10)}
	taken := b.ClaimFrom(noon, 0, grants...)
	if len(taken) != 1 || taken[0].Grant != grants[1] || len(taken[0].Tasks) != 1 {
		t.Errorf("claimed %+v", taken)
	}
	if got := enginetest.Ask[int](b.Bench, `SELECT priority FROM tasktable.scheduled_tasks`); got != 7 {
		t.Errorf("priority %d: the trigger has done nothing", got)
	}
}

func TestClaimExpires(t *testing.T) {
	b := newBench(t)
	b.Schedule(
		store.Task{Payload: job{Name: "late"}, At: noon, Expiration: time.Minute},
		store.Task{Payload: job{Name: "just"}, At: noon, Expiration: time.Minute + time.Microsecond},
		store.Task{Payload: job{Name: "never"}, At: noon},
	)
	now := noon.Add(time.Minute)
	taken := b.ClaimFrom(now, 0, enginetest.Jobs(0, 10))
	if run := enginetest.ClaimsOf(taken); len(run) != 2 || run[0].ID != "just" || run[1].ID != "never" ||
		taken[0].Len() != 3 || taken[0].Expired[0].ID != "late" {
		t.Errorf("claimed: %+v", taken)
	}
	b.Expect("expired", "late", `
		EXPIRED rev=1 attempt=0 scheduled=noon finished=1m0s message="expired before it could start"
		EXPIRED rev=1 attempt=0 scheduled=noon due=noon finished=1m0s error="expired before it could start"
		1 schedule created by test`)
	// A retry counts from now: what ran out once may run again.
	b.Did(enginetest.Tasks.Retry(t.Context(), b.Pool, "late"))
	b.Exec(`UPDATE tasktable.scheduled_tasks SET run_now_at = $1 WHERE id = 'late'`, now)
	if again := b.Take(now.Add(59 * time.Second)); len(again) != 1 {
		t.Errorf("claimed %v after the retry", again)
	}
}

// The expiry counts from the task's time at every attempt, and the last error stays readable.
func TestClaimExpiresBetweenAttempts(t *testing.T) {
	b := newBench(t)
	h := b.TakeOne(store.Task{Payload: job{Name: "a"}, Expiration: time.Minute})
	b.End(noon.Add(time.Second), enginetest.Retried(h, 2*time.Minute, "mail server away"))
	b.Expect("waits for its second attempt", "a", `
		QUEUED rev=1 attempt=1 scheduled=noon next=2m1s started=noon message="mail server away"
		RETRIED rev=1 attempt=1 scheduled=noon due=noon started=noon finished=1s error="mail server away" node=7
		1 schedule created by test`)
	if taken := b.Take(noon.Add(3 * time.Minute)); len(taken) != 0 {
		t.Errorf("claimed %v", taken)
	}
	b.Expect("expired", "a", `
		EXPIRED rev=1 attempt=1 scheduled=noon started=noon finished=3m0s `+
		`message="expired before it could start; last error: mail server away"
		RETRIED rev=1 attempt=1 scheduled=noon due=noon started=noon finished=1s error="mail server away" node=7
		EXPIRED rev=1 attempt=1 scheduled=noon due=2m1s finished=3m0s error="expired before it could start"
		1 schedule created by test`)
}

// The oldest tasks of each lane are claimed, and no more than are granted. The answer is in their order.
func TestClaimOrder(t *testing.T) {
	b := newBench(t)
	at := func(offset time.Duration) time.Time { return noon.Add(offset) }
	b.Schedule(
		store.Task{Payload: job{Name: "low old"}, At: at(-time.Hour), Priority: -5},
		store.Task{Payload: job{Name: "mid new"}, At: at(-time.Second)},
		store.Task{Payload: job{Name: "mid old"}, At: at(-time.Minute)},
		store.Task{Payload: job{Name: "mid near"}, At: at(time.Second)},
		store.Task{Payload: job{Name: "mid far"}, At: at(3 * time.Second)},
		store.Task{Payload: job{Name: "high"}, At: at(0), Priority: 100},
	)
	for _, want := range []string{"[high mid old low old]", "[mid new]", "[mid near]", "[]"} {
		var got []string
		for _, c := range enginetest.ClaimsOf(b.ClaimFrom(noon, 2*time.Second,
			enginetest.Jobs(-5, 1), enginetest.Jobs(0, 1), enginetest.Jobs(100, 1))) {
			got = append(got, c.ID)
		}
		if fmt.Sprint(got) != want {
			t.Errorf("claimed %q, want %s", got, want)
		}
	}
}

// A look at lanes tells when their first tasks are due.
func TestPeek(t *testing.T) {
	b := newBench(t)
	for i := range 7 {
		for _, priority := range []int{0, 5} {
			b.Schedule(store.Task{
				ID: fmt.Sprint(priority, " ", i), Payload: job{}, Priority: priority,
				At: noon.Add(time.Duration(i-4) * time.Second),
			})
		}
	}
	peek := func(priority, most int, near bool) taskdb.Peek {
		lane := taskdb.Lane{Queue: "default", Type: "JOB", Priority: priority}
		return taskdb.Peek{Lane: lane, Most: most, Near: near}
	}
	found, err := b.Peek(t.Context(), b.Pool, &noon, time.Second, []taskdb.Peek{
		peek(5, 9, false), peek(7, 9, false), peek(0, 9, true), peek(0, 3, true),
	}, "5 1")
	want := "[[-4s -2s -1s 0s] [] [-4s -3s -2s -1s 0s 1s] [-4s -3s -2s]] <nil>"
	if got := fmt.Sprint(found, err); got != want {
		t.Errorf("found %s, want %s", got, want)
	}
}

// What an application's open transaction has locked is left for later, and does not hold up the pass.
func TestClaimSkipsLockedRows(t *testing.T) {
	b := newBench(t)
	b.Due("a", "b")
	unlock := enginetest.Lock(t, b.Pool, "a")
	if taken := b.Take(noon); len(taken) != 1 || taken["b"].Fence == 0 {
		t.Errorf("claimed %v, want b alone", taken)
	}
	unlock()
	if taken := b.Take(noon); len(taken) != 1 || taken["a"].Fence == 0 {
		t.Errorf("claimed %v, want a", taken)
	}
}

func TestClaimLeavesWhatIsNotWaiting(t *testing.T) {
	b := newBench(t)
	verbs := map[string]func(id string) (store.Receipt, error){
		"cancelled": func(id string) (store.Receipt, error) { return enginetest.Tasks.Cancel(t.Context(), b.Pool, id) },
		"paused":    func(id string) (store.Receipt, error) { return enginetest.Tasks.Pause(t.Context(), b.Pool, id) },
		"deleted":   func(id string) (store.Receipt, error) { return enginetest.Tasks.Delete(t.Context(), b.Pool, id) },
		"rescheduled": func(id string) (store.Receipt, error) {
			return enginetest.Tasks.Reschedule(t.Context(), b.Pool, id, noon.Add(time.Millisecond))
		},
	}
	for id, verb := range verbs {
		b.Due(id)
		if receipt, err := verb(id); err != nil || string(receipt.Outcome) != id {
			t.Fatalf("%s: %+v, %v", id, receipt, err)
		}
	}
	if taken := b.Take(noon); len(taken) != 0 {
		t.Errorf("claimed %v", taken)
	}
	if taken := b.Take(noon.Add(time.Millisecond)); len(taken) != 1 || taken["rescheduled"].Fence == 0 {
		t.Errorf("claimed %v, want the rescheduled one", taken)
	}
}

// The head of a lane, as the next claim would take it, is failed; the rest of the lane is not touched.
func TestFailHead(t *testing.T) {
	b := newBench(t)
	past := time.Now().Add(-time.Minute)
	b.Schedule(store.Task{Payload: job{Name: "first"}, At: past},
		// It was due earlier, but could be claimed later.
		store.Task{Payload: job{Name: "second"}, At: past.Add(-time.Second)},
		store.Task{Payload: job{Name: "other lane"}, At: past.Add(-time.Hour), Priority: 1},
		store.Task{Payload: job{Name: "later"}, At: time.Now().Add(time.Hour), Priority: 2})
	b.InTx(func(tx pgx.Tx) {
		b.Did(tx.Exec(t.Context(), taskdb.EnterSQL))
		if head, err := b.LockHead(t.Context(), tx, enginetest.Jobs(2, 1).Lane, time.Second); err != nil ||
			head != nil {
			t.Errorf("the head of what is not due: %+v, %v", head, err)
		}
		head, err := b.LockHead(t.Context(), tx, enginetest.Jobs(0, 1).Lane, time.Second)
		if err != nil || head == nil || head.ID != "first" {
			t.Fatalf("head %+v, %v", head, err)
		}
		b.OK(b.FailHead(t.Context(), tx, *head, "spoiled"))
	})
	b.Expect("failed", "first", `
		FAILED rev=1 attempt=0 scheduled=real finished=real message="spoiled"
		FAILED rev=1 attempt=0 scheduled=real finished=real error="spoiled"
		1 schedule created by test`)
	if taken := b.Take(time.Now()); len(taken) != 1 || taken["second"].Fence == 0 {
		t.Errorf("claimed %v, want the second", taken)
	}
}
