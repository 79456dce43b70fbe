package taskdb_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tasktable/tasktable/scheduled/internal/enginetest"
	"github.com/tasktable/tasktable/scheduled/internal/taskdb"
	"github.com/tasktable/tasktable/store"
)

func TestClaimTakesATask(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.Schedule(store.Task{
		Payload: enginetest.Job{Name: "a"}, At: enginetest.Noon, ExpectedExecutionTime: 2 * time.Minute,
	})
	b.Expect("before", "a", `
		QUEUED rev=1 attempt=0 scheduled=noon next=noon
		1 schedule created by test`)
	if early := b.Take(enginetest.Noon.Add(-time.Microsecond)); len(early) != 0 {
		t.Fatalf("claimed before its time: %v", early)
	}
	taken := b.ClaimFrom(enginetest.Noon.Add(time.Second), 0, 10, enginetest.Jobs(0, 0, 10))
	if len(taken) != 1 || taken[0].Fence == nil {
		t.Fatalf("claimed %+v", taken)
	}
	got := taken[0]
	if got.ID != "a" || got.Type != "JOB" || got.Queue != "default" || got.Priority != 0 || got.Attempt != 1 ||
		!got.Due.Equal(enginetest.Noon) || *got.Fence <= got.Revision {
		t.Errorf("claimed %+v", got)
	}
	b.Expect("claimed", "a", `
		EXECUTING rev=1 attempt=1 scheduled=noon fence lease_expires_at=3m1s
		1 schedule created by test`)
	if again := b.Take(enginetest.Noon.Add(time.Hour)); len(again) != 0 {
		t.Errorf("a held task was claimed: %v", again)
	}
}

// A lease counts from the task's time, where it is claimed before that.
func TestClaimAhead(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.Schedule(store.Task{Payload: enginetest.Job{Name: "a"}, At: enginetest.Noon})
	if far := b.ClaimFrom(
		enginetest.Noon.Add(-1001*time.Millisecond), time.Second, 10, enginetest.Jobs(0, 0, 10),
	); len(far) != 0 {
		t.Fatalf("claimed beyond the look-ahead: %v", far)
	}
	if near := b.ClaimFrom(
		enginetest.Noon.Add(-time.Second), time.Second, 10, enginetest.Jobs(0, 0, 10),
	); len(near) != 1 ||
		!near[0].Due.Equal(enginetest.Noon) {
		t.Fatalf("claimed %v", near)
	}
	b.Expect("claimed", "a", `
		EXECUTING rev=1 attempt=1 scheduled=noon fence lease_expires_at=6m0s
		1 schedule created by test`)
}

func TestClaimExpires(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.Schedule(
		store.Task{Payload: enginetest.Job{Name: "late"}, At: enginetest.Noon, Expiration: time.Minute},
		store.Task{
			Payload: enginetest.Job{Name: "just"}, At: enginetest.Noon, Expiration: time.Minute + time.Microsecond,
		},
		store.Task{Payload: enginetest.Job{Name: "never"}, At: enginetest.Noon},
	)
	now := enginetest.Noon.Add(time.Minute)
	taken := b.ClaimFrom(now, 0, 10, enginetest.Jobs(0, 0, 10))
	fences := map[string]bool{}
	for _, c := range taken {
		fences[c.ID] = c.Fence != nil
	}
	if fmt.Sprint(fences) != "map[just:true late:false never:true]" {
		t.Errorf("claimed, true to run: %v", fences)
	}
	b.Expect("expired", "late", `
		EXPIRED rev=1 attempt=0 scheduled=noon finished=1m0s message="expired before it could start"
		EXPIRED rev=1 attempt=0 scheduled=noon due=noon finished=1m0s error="expired before it could start"
		1 schedule created by test`)
	// A retry counts from now: what ran out once may run again.
	if _, err := enginetest.Tasks.Retry(t.Context(), b.Pool, "late"); err != nil {
		t.Fatal(err)
	}
	b.Exec(`UPDATE tasktable.scheduled_tasks SET run_now_at = $1 WHERE id = 'late'`, now)
	if again := b.Take(now.Add(59 * time.Second)); len(again) != 1 {
		t.Errorf("claimed %v after the retry", again)
	}
}

// The expiry counts from the task's time at every attempt, and the last error stays readable.
func TestClaimExpiresBetweenAttempts(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	h := b.TakeOne(store.Task{Payload: enginetest.Job{Name: "a"}, Expiration: time.Minute})
	b.End(enginetest.Noon.Add(time.Second), enginetest.Retried(h, 2*time.Minute, "mail server away"))
	b.Expect("waits for its second attempt", "a", `
		QUEUED rev=1 attempt=1 scheduled=noon next=2m1s started=noon message="mail server away"
		RETRIED rev=1 attempt=1 scheduled=noon due=noon started=noon finished=1s error="mail server away" node=7
		1 schedule created by test`)
	if taken := b.Take(enginetest.Noon.Add(3 * time.Minute)); len(taken) != 0 {
		t.Errorf("claimed %v", taken)
	}
	b.Expect("expired", "a", `
		EXPIRED rev=1 attempt=1 scheduled=noon started=noon finished=3m0s `+
		`message="expired before it could start; last error: mail server away"
		RETRIED rev=1 attempt=1 scheduled=noon due=noon started=noon finished=1s error="mail server away" node=7
		EXPIRED rev=1 attempt=1 scheduled=noon due=2m1s finished=3m0s error="expired before it could start"
		1 schedule created by test`)
}

// Over a backlog: the higher priority first, then the older, and what is due before what is only near,
// whatever its priority.
func TestClaimOrder(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	at := func(offset time.Duration) time.Time { return enginetest.Noon.Add(offset) }
	b.Schedule(
		store.Task{Payload: enginetest.Job{Name: "low old"}, At: at(-time.Hour), Priority: -5},
		store.Task{Payload: enginetest.Job{Name: "mid new"}, At: at(-time.Second)},
		store.Task{Payload: enginetest.Job{Name: "mid old"}, At: at(-time.Minute)},
		store.Task{Payload: enginetest.Job{Name: "high new"}, At: at(0), Priority: 100},
		store.Task{Payload: enginetest.Job{Name: "high old"}, At: at(-time.Second), Priority: 100},
		store.Task{Payload: enginetest.Job{Name: "near high"}, At: at(time.Second), Priority: 100},
		store.Task{Payload: enginetest.Job{Name: "near low"}, At: at(500 * time.Millisecond), Priority: -5},
		store.Task{Payload: enginetest.Job{Name: "far"}, At: at(3 * time.Second), Priority: 100},
	)
	want := []string{"high old", "high new", "mid old", "mid new", "low old", "near high", "near low"}
	var got []string
	for range want { // one at a time shows the order; together it is only the order of the answer
		for _, c := range b.ClaimFrom(
			enginetest.Noon, 2*time.Second, 10, enginetest.Jobs(100, 0, 1), enginetest.Jobs(0, 0, 1),
			enginetest.Jobs(-5, 0, 1),
		) {
			got = append(got, c.ID)
		}
	}
	if !slices.Equal(got, want) {
		t.Errorf("claimed in the order %q, want %q", got, want)
	}
	if rest := b.ClaimFrom(enginetest.Noon, 2*time.Second, 10, enginetest.Jobs(100, 0, 1)); len(rest) != 0 {
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
			at := enginetest.Noon.Add(-time.Duration(i) * time.Minute)
			payload := store.JSON(fmt.Sprintf(`{"type":%q}`, kind))
			b.Schedule(store.Task{ID: id, Payload: payload, At: at, Priority: priority})
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
		for _, c := range b.ClaimFrom(enginetest.Noon, 0, 10, lanes...) {
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
		at := enginetest.Noon.Add(time.Duration(i-10) * time.Second)
		b.Schedule(
			store.Task{Payload: enginetest.Job{Name: fmt.Sprintf("high %d", i)}, At: at, Priority: 1},
			store.Task{Payload: enginetest.Job{Name: fmt.Sprintf("low %d", i)}, At: at},
			store.Task{ID: fmt.Sprintf("other %d", i), Payload: store.JSON(`{"type":"OTHER"}`), At: at, Priority: -9},
			store.Task{ID: fmt.Sprintf("bulk %d", i), Payload: enginetest.Job{Name: "b"}, At: at, Queue: "bulk"},
		)
	}
	other := taskdb.LaneQuota{Lane: taskdb.Lane{Queue: "default", Type: "OTHER", Priority: -9}, Pool: 1, Room: 3}
	bulk := taskdb.LaneQuota{Lane: taskdb.Lane{Queue: "bulk", Type: "JOB"}, Pool: 2, Room: 0}
	claim := func(room, most int) map[string]int {
		found := map[string]int{}
		for _, c := range b.ClaimFrom(
			enginetest.Noon, 0, most, enginetest.Jobs(1, 0, room), enginetest.Jobs(0, 0, room), other, bulk,
		) {
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

// A lane that is claimed alone gets the tasks that it gets beside an empty lane, for which Postgres ranks them.
func TestClaimFromASingleLane(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	random := rand.New(rand.NewPCG(1, 2))
	for i := range 60 {
		due, near := random.IntN(8), random.IntN(8)
		room, cost, most := random.IntN(20), 1+random.IntN(3), 1+random.IntN(12)
		nearRoom := random.IntN(room + 3)
		claim := func(queue string, more ...taskdb.LaneQuota) (got []string) {
			for n := range due + near {
				b.Schedule(store.Task{
					ID: fmt.Sprint(queue, " ", n), Payload: enginetest.Job{}, Queue: queue,
					At: enginetest.Noon.Add(time.Duration(n-due+1) * time.Second),
				})
			}
			lane := taskdb.LaneQuota{
				Lane: taskdb.Lane{Queue: queue, Type: "JOB"}, Room: room, Near: nearRoom, Cost: cost,
			}
			for _, c := range b.ClaimFrom(enginetest.Noon, time.Minute, most, append(more, lane)...) {
				got = append(got, strings.TrimPrefix(c.ID, queue))
			}
			return got
		}
		empty := taskdb.LaneQuota{Lane: taskdb.Lane{Queue: "empty", Type: "JOB"}, Room: 9}
		beside := claim(fmt.Sprint("beside", i), empty)
		if alone := claim(fmt.Sprint("alone", i)); !slices.Equal(alone, beside) {
			t.Errorf("%d due, %d near, room %d, near %d, cost %d, most %d: claimed %q, beside an empty lane %q",
				due, near, room, nearRoom, cost, most, alone, beside)
		}
	}
}

// What an application's open transaction has locked is left for later, and does not hold up the pass.
func TestClaimSkipsLockedRows(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.Schedule(store.Task{Payload: enginetest.Job{Name: "a"}, At: enginetest.Noon}, store.Task{
		Payload: enginetest.Job{Name: "b"}, At: enginetest.Noon,
	})
	unlock := enginetest.Lock(t, b.Pool, "a")
	if taken := b.Take(enginetest.Noon); len(taken) != 1 || taken["b"].Fence == 0 {
		t.Errorf("claimed %v, want b alone", taken)
	}
	unlock()
	if taken := b.Take(enginetest.Noon); len(taken) != 1 || taken["a"].Fence == 0 {
		t.Errorf("claimed %v, want a", taken)
	}
}

func TestClaimLeavesWhatIsNotWaiting(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	verbs := map[string]func(id string) (store.Receipt, error){
		"cancelled": func(id string) (store.Receipt, error) { return enginetest.Tasks.Cancel(t.Context(), b.Pool, id) },
		"paused":    func(id string) (store.Receipt, error) { return enginetest.Tasks.Pause(t.Context(), b.Pool, id) },
		"deleted":   func(id string) (store.Receipt, error) { return enginetest.Tasks.Delete(t.Context(), b.Pool, id) },
		"rescheduled": func(id string) (store.Receipt, error) {
			return enginetest.Tasks.Reschedule(t.Context(), b.Pool, id, enginetest.Noon.Add(time.Millisecond))
		},
	}
	for id, verb := range verbs {
		b.Schedule(store.Task{Payload: enginetest.Job{Name: id}, At: enginetest.Noon})
		if receipt, err := verb(id); err != nil || string(receipt.Outcome) != id {
			t.Fatalf("%s: %+v, %v", id, receipt, err)
		}
	}
	if taken := b.Take(enginetest.Noon); len(taken) != 0 {
		t.Errorf("claimed %v", taken)
	}
	if taken := b.Take(enginetest.Noon.Add(time.Millisecond)); len(taken) != 1 || taken["rescheduled"].Fence == 0 {
		t.Errorf("claimed %v, want the rescheduled one", taken)
	}
}

// The head of a lane, as the next claim would take it, is failed; the rest of the lane is not touched.
func TestFailHead(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	past := time.Now().Add(-time.Minute)
	b.Schedule(store.Task{Payload: enginetest.Job{Name: "first"}, At: past},
		// It was due earlier, but could be claimed later.
		store.Task{Payload: enginetest.Job{Name: "second"}, At: past.Add(-time.Second)},
		store.Task{Payload: enginetest.Job{Name: "other lane"}, At: past.Add(-time.Hour), Priority: 1},
		store.Task{Payload: enginetest.Job{Name: "later"}, At: time.Now().Add(time.Hour), Priority: 2})
	b.InTx(func(tx pgx.Tx) {
		if _, err := tx.Exec(t.Context(), taskdb.EnterSQL); err != nil {
			t.Fatal(err)
		}
		if head, err := b.LockHead(t.Context(), tx, enginetest.Jobs(2, 0, 1).Lane, time.Second); err != nil ||
			head != nil {
			t.Errorf("the head of what is not due: %+v, %v", head, err)
		}
		head, err := b.LockHead(t.Context(), tx, enginetest.Jobs(0, 0, 1).Lane, time.Second)
		if err != nil || head == nil || head.ID != "first" {
			t.Fatalf("head %+v, %v", head, err)
		}
		if err := b.FailHead(t.Context(), tx, *head, "spoiled"); err != nil {
			t.Fatal(err)
		}
	})
	b.Expect("failed", "first", `
		FAILED rev=1 attempt=0 scheduled=real finished=real message="spoiled"
		FAILED rev=1 attempt=0 scheduled=real finished=real error="spoiled"
		1 schedule created by test`)
	if taken := b.Take(time.Now()); len(taken) != 1 || taken["second"].Fence == 0 {
		t.Errorf("claimed %v, want the second", taken)
	}
}
