package scheduled

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tasktable/tasktable/scheduled/internal/taskdb"
	"github.com/tasktable/tasktable/store"
)

func TestClaimTakesATask(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.schedule(store.Task{Payload: job{"a"}, At: noon, ExpectedExecutionTime: 2 * time.Minute})
	b.expect("before", "a", `
		QUEUED rev=1 attempt=0 scheduled=noon next=noon
		1 schedule created by test`)
	if early := b.take(noon.Add(-time.Microsecond)); len(early) != 0 {
		t.Fatalf("claimed before its time: %v", early)
	}
	taken := b.claimFrom(noon.Add(time.Second), 0, 10, jobs(0, 0, 10))
	if len(taken) != 1 || taken[0].Fence == nil {
		t.Fatalf("claimed %+v", taken)
	}
	got := taken[0]
	if got.ID != "a" || got.Type != "JOB" || got.Queue != "default" || got.Priority != 0 || got.Attempt != 1 ||
		!got.Due.Equal(noon) || *got.Fence <= got.Revision {
		t.Errorf("claimed %+v", got)
	}
	b.expect("claimed", "a", `
		EXECUTING rev=1 attempt=1 scheduled=noon fence lease_expires_at=3m1s
		1 schedule created by test`)
	if again := b.take(noon.Add(time.Hour)); len(again) != 0 {
		t.Errorf("a held task was claimed: %v", again)
	}
}

// A lease counts from the task's time, where it is claimed before that.
func TestClaimAhead(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.schedule(store.Task{Payload: job{"a"}, At: noon})
	if far := b.claimFrom(noon.Add(-1001*time.Millisecond), time.Second, 10, jobs(0, 0, 10)); len(far) != 0 {
		t.Fatalf("claimed beyond the look-ahead: %v", far)
	}
	if near := b.claimFrom(noon.Add(-time.Second), time.Second, 10, jobs(0, 0, 10)); len(near) != 1 ||
		!near[0].Due.Equal(noon) {
		t.Fatalf("claimed %v", near)
	}
	b.expect("claimed", "a", `
		EXECUTING rev=1 attempt=1 scheduled=noon fence lease_expires_at=6m0s
		1 schedule created by test`)
}

func TestClaimExpires(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.schedule(
		store.Task{Payload: job{"late"}, At: noon, Expiration: time.Minute},
		store.Task{Payload: job{"just"}, At: noon, Expiration: time.Minute + time.Microsecond},
		store.Task{Payload: job{"never"}, At: noon},
	)
	now := noon.Add(time.Minute)
	taken := b.claimFrom(now, 0, 10, jobs(0, 0, 10))
	fences := map[string]bool{}
	for _, c := range taken {
		fences[c.ID] = c.Fence != nil
	}
	if fmt.Sprint(fences) != "map[just:true late:false never:true]" {
		t.Errorf("claimed, true to run: %v", fences)
	}
	b.expect("expired", "late", `
		EXPIRED rev=1 attempt=0 scheduled=noon finished=1m0s message="expired before it could start"
		EXPIRED rev=1 attempt=0 scheduled=noon due=noon finished=1m0s error="expired before it could start"
		1 schedule created by test`)
	// A retry counts from now: what ran out once may run again.
	if _, err := tasks.Retry(t.Context(), b.pool, "late"); err != nil {
		t.Fatal(err)
	}
	b.exec(`UPDATE tasktable.scheduled_tasks SET run_now_at = $1 WHERE id = 'late'`, now)
	if again := b.take(now.Add(59 * time.Second)); len(again) != 1 {
		t.Errorf("claimed %v after the retry", again)
	}
}

// The expiry counts from the task's time at every attempt, and the last error stays readable.
func TestClaimExpiresBetweenAttempts(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	h := b.takeOne(store.Task{Payload: job{"a"}, Expiration: time.Minute})
	b.end(noon.Add(time.Second), retried(h, 2*time.Minute, "mail server away"))
	b.expect("waits for its second attempt", "a", `
		QUEUED rev=1 attempt=1 scheduled=noon next=2m1s started=noon message="mail server away"
		RETRIED rev=1 attempt=1 scheduled=noon due=noon started=noon finished=1s error="mail server away" node=7
		1 schedule created by test`)
	if taken := b.take(noon.Add(3 * time.Minute)); len(taken) != 0 {
		t.Errorf("claimed %v", taken)
	}
	b.expect("expired", "a", `
		EXPIRED rev=1 attempt=1 scheduled=noon started=noon finished=3m0s message="expired before it could start; last error: mail server away"
		RETRIED rev=1 attempt=1 scheduled=noon due=noon started=noon finished=1s error="mail server away" node=7
		EXPIRED rev=1 attempt=1 scheduled=noon due=2m1s finished=3m0s error="expired before it could start"
		1 schedule created by test`)
}

// Over a backlog: the higher priority first, then the older, and what is due before what is only near,
// whatever its priority.
func TestClaimOrder(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	at := func(offset time.Duration) time.Time { return noon.Add(offset) }
	b.schedule(
		store.Task{Payload: job{"low old"}, At: at(-time.Hour), Priority: -5},
		store.Task{Payload: job{"mid new"}, At: at(-time.Second)},
		store.Task{Payload: job{"mid old"}, At: at(-time.Minute)},
		store.Task{Payload: job{"high new"}, At: at(0), Priority: 100},
		store.Task{Payload: job{"high old"}, At: at(-time.Second), Priority: 100},
		store.Task{Payload: job{"near high"}, At: at(time.Second), Priority: 100},
		store.Task{Payload: job{"near low"}, At: at(500 * time.Millisecond), Priority: -5},
		store.Task{Payload: job{"far"}, At: at(3 * time.Second), Priority: 100},
	)
	want := []string{"high old", "high new", "mid old", "mid new", "low old", "near high", "near low"}
	var got []string
	for range want { // one at a time shows the order; together it is only the order of the answer
		for _, c := range b.claimFrom(noon, 2*time.Second, 10, jobs(100, 0, 1), jobs(0, 0, 1), jobs(-5, 0, 1)) {
			got = append(got, c.ID)
		}
	}
	if !slices.Equal(got, want) {
		t.Errorf("claimed in the order %q, want %q", got, want)
	}
	if rest := b.claimFrom(noon, 2*time.Second, 10, jobs(100, 0, 1)); len(rest) != 0 {
		t.Errorf("claimed beyond the look-ahead: %v", rest)
	}
}

// Types that share their slots share one order, too: a lane of a type that comes first by name, or whose tasks are
// older, takes no room from a task of a higher priority.
func TestClaimOrderOverTypes(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	var lanes []taskdb.LaneQuota
	for i, kind := range []string{"ALPHA", "OMEGA", "MIDDLE"} {
		for _, priority := range []int{0, 10, 60} {
			id := fmt.Sprint(kind, " ", priority)
			at := noon.Add(-time.Duration(i) * time.Minute)
			payload := store.JSON(fmt.Sprintf(`{"type":%q}`, kind))
			b.schedule(store.Task{ID: id, Payload: payload, At: at, Priority: priority})
			shared := taskdb.Lane{Queue: "default", Type: kind, Priority: priority}
			lanes = append(lanes, taskdb.LaneQuota{Lane: shared, Room: 2, Near: 2, Slots: 2})
		}
	}
	want := [][]string{ // two at a time, as the room is: within a priority the older ones first
		{"MIDDLE 60", "OMEGA 60"}, {"ALPHA 60", "MIDDLE 10"}, {"ALPHA 10", "OMEGA 10"}, {"MIDDLE 0", "OMEGA 0"},
		{"ALPHA 0"},
	}
	for _, want := range want {
		var got []string
		for _, c := range b.claimFrom(noon, 0, 10, lanes...) {
			got = append(got, c.ID)
		}
		if slices.Sort(got); !slices.Equal(got, want) {
			t.Errorf("claimed %q, want %q", got, want)
		}
	}
}

func TestClaimRespectsTheRoomOfEachPool(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	for i := range 10 {
		at := noon.Add(time.Duration(i-10) * time.Second)
		b.schedule(
			store.Task{Payload: job{fmt.Sprintf("high %d", i)}, At: at, Priority: 1},
			store.Task{Payload: job{fmt.Sprintf("low %d", i)}, At: at},
			store.Task{ID: fmt.Sprintf("other %d", i), Payload: store.JSON(`{"type":"OTHER"}`), At: at, Priority: -9},
			store.Task{ID: fmt.Sprintf("bulk %d", i), Payload: job{"b"}, At: at, Queue: "bulk"},
		)
	}
	other := taskdb.LaneQuota{Lane: taskdb.Lane{Queue: "default", Type: "OTHER", Priority: -9}, Pool: 1, Room: 3}
	bulk := taskdb.LaneQuota{Lane: taskdb.Lane{Queue: "bulk", Type: "JOB"}, Pool: 2, Room: 0}
	claim := func(room, most int) map[string]int {
		found := map[string]int{}
		for _, c := range b.claimFrom(noon, 0, most, jobs(1, 0, room), jobs(0, 0, room), other, bulk) {
			found[fmt.Sprint(c.Queue, " ", c.Type, " ", c.Priority)]++
		}
		return found
	}
	for _, step := range []struct {
		room, most int
		want       string
	}{
		// The high lane first, the rest of the pool's room for the low.
		{12, 1000, "map[default JOB 0:2 default JOB 1:10 default OTHER -9:3]"},
		{5, 1000, "map[default JOB 0:5 default OTHER -9:3]"},
		{5, 4, "map[default JOB 0:2 default OTHER -9:2]"}, // most cuts all pools alike
		{0, 1000, "map[default OTHER -9:2]"},
	} {
		if got := fmt.Sprint(claim(step.room, step.most)); got != step.want {
			t.Errorf("room %d, most %d: claimed %s, want %s", step.room, step.most, got, step.want)
		}
	}
}

// What an application's open transaction has locked is left for later, and does not hold up the pass.
func TestClaimSkipsLockedRows(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.schedule(store.Task{Payload: job{"a"}, At: noon}, store.Task{Payload: job{"b"}, At: noon})
	unlock := lock(t, b.pool, "a")
	if taken := b.take(noon); len(taken) != 1 || taken["b"].Fence == 0 {
		t.Errorf("claimed %v, want b alone", taken)
	}
	unlock()
	if taken := b.take(noon); len(taken) != 1 || taken["a"].Fence == 0 {
		t.Errorf("claimed %v, want a", taken)
	}
}

func TestClaimLeavesWhatIsNotWaiting(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	verbs := map[string]func(id string) (store.Receipt, error){
		"cancelled": func(id string) (store.Receipt, error) { return tasks.Cancel(t.Context(), b.pool, id) },
		"paused":    func(id string) (store.Receipt, error) { return tasks.Pause(t.Context(), b.pool, id) },
		"deleted":   func(id string) (store.Receipt, error) { return tasks.Delete(t.Context(), b.pool, id) },
		"rescheduled": func(id string) (store.Receipt, error) {
			return tasks.Reschedule(t.Context(), b.pool, id, noon.Add(time.Millisecond))
		},
	}
	for id, verb := range verbs {
		b.schedule(store.Task{Payload: job{id}, At: noon})
		if receipt, err := verb(id); err != nil || string(receipt.Outcome) != id {
			t.Fatalf("%s: %+v, %v", id, receipt, err)
		}
	}
	if taken := b.take(noon); len(taken) != 0 {
		t.Errorf("claimed %v", taken)
	}
	if taken := b.take(noon.Add(time.Millisecond)); len(taken) != 1 || taken["rescheduled"].Fence == 0 {
		t.Errorf("claimed %v, want the rescheduled one", taken)
	}
}

// The head of a lane, as the next claim would take it, is failed; the rest of the lane is not touched.
func TestFailHead(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	past := time.Now().Add(-time.Minute)
	b.schedule(store.Task{Payload: job{"second"}, At: past},
		store.Task{Payload: job{"first"}, At: past.Add(-time.Second)},
		store.Task{Payload: job{"other lane"}, At: past.Add(-time.Hour), Priority: 1},
		store.Task{Payload: job{"later"}, At: time.Now().Add(time.Hour), Priority: 2})
	b.inTx(func(tx pgx.Tx) {
		if _, err := tx.Exec(t.Context(), taskdb.EnterSQL); err != nil {
			t.Fatal(err)
		}
		if head, err := b.LockHead(t.Context(), tx, jobs(2, 0, 1).Lane, time.Second); err != nil || head != nil {
			t.Errorf("the head of what is not due: %+v, %v", head, err)
		}
		head, err := b.LockHead(t.Context(), tx, jobs(0, 0, 1).Lane, time.Second)
		if err != nil || head == nil || head.ID != "first" {
			t.Fatalf("head %+v, %v", head, err)
		}
		if err := b.FailHead(t.Context(), tx, *head, "spoiled"); err != nil {
			t.Fatal(err)
		}
	})
	b.expect("failed", "first", `
		FAILED rev=1 attempt=0 scheduled=real finished=real message="spoiled"
		FAILED rev=1 attempt=0 scheduled=real finished=real error="spoiled"
		1 schedule created by test`)
	if taken := b.take(time.Now()); len(taken) != 1 || taken["second"].Fence == 0 {
		t.Errorf("claimed %v, want the second", taken)
	}
}
