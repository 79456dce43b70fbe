package leader

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/tasktable/tasktable/scheduled/internal/enginetest"
	"github.com/tasktable/tasktable/scheduled/internal/plan"
	"github.com/tasktable/tasktable/scheduled/internal/session"
	"github.com/tasktable/tasktable/scheduled/internal/taskdb"
	"github.com/tasktable/tasktable/store"
)

// A pass that meets a task which an application has locked goes round it at once, and takes no less at a time for it.
func TestPassGoesRoundLockedTasks(t *testing.T) {
	b := newBench(t)
	limit := enginetest.Limits(t, b.Pool)
	for i := range 5 {
		b.Add(fmt.Sprint(i), nil)
	}
	unlock := enginetest.Lock(t, b.Pool, "2")
	l := b.elected()
	pass := func(what string, claimed int) {
		t.Helper()
		l.claims.Shrink(128)
		began := time.Now()
		found, err := l.pass(t.Context())
		if err != nil || found.claimed != claimed || found.stuck || l.claims.Now() != 128 {
			t.Errorf("%s: %+v, %v, then %d at a time; want %d claimed, and 128 at a time",
				what, found, err, l.claims.Now(), claimed)
		}
		if took := time.Since(began); took > limit(time.Second) {
			t.Errorf("%s: it took %s", what, took)
		}
	}
	pass("all but one", 4)
	pass("only the locked one is left", 0)
	unlock()
	pass("unlocked", 1)
}

// While nobody may write to the table, as while an index is made, each pass ends in good time, though each task is let
// be only for a while: the leader has other things to do.
func TestPassWhileTheTableIsLocked(t *testing.T) {
	b := newBench(t)
	limit := enginetest.Limits(t, b.Pool)
	for i := range 40 {
		b.Add(fmt.Sprint(i), nil)
	}
	l := b.elected()
	tx, err := b.Pool.Begin(t.Context())
	b.OK(err)
	b.Did(tx.Exec(t.Context(), `LOCK TABLE tasktable.scheduled_tasks IN SHARE MODE`))
	for range 2 {
		began := time.Now()
		found, err := l.pass(t.Context())
		if err != nil || found.claimed != 0 || found.next < 0 {
			t.Errorf("%+v, %v", found, err)
		}
		if took := time.Since(began); took > limit(maxPassTime+5*time.Second) {
			t.Errorf("it took %s", took)
		}
	}
	b.OK(tx.Rollback(t.Context()))
	clear(l.quarantined) // as after some seconds
	if found, err := l.pass(t.Context()); err != nil || found.claimed == 0 {
		t.Errorf("unlocked: %+v, %v", found, err)
	}
}

// Of several new lanes a look from the marks on finds the highest first. Its tasks must not wait behind those of
// others.
func TestAPassKnowsNewLanesBeforeItClaims(t *testing.T) {
	b := newBench(t)
	l := b.elected(slots(1))
	for id, priority := range map[string]int{"low": -10, "middle": 0, "high": 10} {
		b.Add(id, func(task *store.Task) { task.Priority = priority })
	}
	b.Did(l.pass(t.Context()))
	if got, want := b.states(), "high EXECUTING, low QUEUED, middle QUEUED"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

// A pass claims no more tasks than there are slots, the most urgent first, whether or not they need a place besides: a
// slot of their type, or a transaction.
func TestPassOfTypesWithAndWithoutPlaces(t *testing.T) {
	t.Parallel()
	limited := func(_ *Config, node *session.Registration) { node.TypeSlots = `{"QUICK": 3}` }
	transactional := func(_ *Config, node *session.Registration) {
		node.Transactional, node.Places = []string{"QUICK"}, 3
	}
	for name, test := range map[string]struct {
		node                  func(*Config, *session.Registration)
		placed, plain         int // the priority of each
		wantPlaced, wantPlain int
	}{
		"the limited ones are urgent":                       {limited, 9, 0, 3, 7},
		"the others are urgent":                             {limited, 0, 9, 0, 10},
		"the transactional ones are urgent":                 {transactional, 9, 0, 3, 7},
		"the others than the transactional ones are urgent": {transactional, 0, 9, 0, 10},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			l := b.elected(slots(10), test.node)
			for i := range 20 {
				b.Add(fmt.Sprint("placed ", i), func(task *store.Task) {
					task.Payload, task.Priority = store.JSON(`{"type": "QUICK"}`), test.placed
				})
				b.Add(fmt.Sprint("plain ", i), func(task *store.Task) { task.Priority = test.plain })
			}
			b.tick(l)
			for range 3 { // the later passes find no room
				b.Did(l.pass(t.Context()))
			}
			const claimedSQL = `SELECT count(*) FROM tasktable.scheduled_tasks WHERE fence IS NOT NULL AND type = $1`
			if placed, plain := b.Count(claimedSQL, "QUICK"), b.Count(claimedSQL, "JOB"); placed != test.wantPlaced ||
				plain != test.wantPlain {
				t.Errorf("claimed %d with places and %d without, want %d and %d", placed, plain, test.wantPlaced,
					test.wantPlain)
			}
		})
	}
}

// However many fires were missed, passes stay short, and claim other tasks meanwhile.
func TestPassesAfterALongOutage(t *testing.T) {
	b := newBench(t)
	const tasks = 12
	b.Exec(`SELECT tasktable.schedule_recurring('{"type":"JOB"}', '* * * * *', 'tick ' || i, 'Europe/Berlin')
		FROM generate_series(1, $1::int) AS i`, tasks)
	b.Exec(`ALTER TABLE tasktable.scheduled_tasks DISABLE TRIGGER USER`)
	b.Exec(`UPDATE tasktable.scheduled_tasks
		SET planned_revision = revision, scheduled_at = due.at, started_at = due.at, next_attempt_at = due.at FROM (SELECT date_trunc('minute', now()) - interval '365 days' AS at) AS due`)
	b.Exec(`ALTER TABLE tasktable.scheduled_tasks ENABLE TRIGGER USER`)
	b.Add("plain", nil)
	l := b.elected()
	claimed, forked := 0, 0
	for pass := 1; forked < tasks; pass++ {
		found, err := l.pass(t.Context())
		claimed, forked = claimed+found.claimed, forked+found.forked
		if err != nil || found.forked == 0 || found.stuck {
			t.Fatalf("pass %d: %+v, %v", pass, found, err)
		}
		if made := b.Count(`SELECT count(*) FROM tasktable.scheduled_tasks WHERE parent_id <> ''`); made > 500*pass {
			t.Fatalf("%d occurrences after %d passes", made, pass)
		}
		if claimed == 0 {
			t.Errorf("pass %d claims nothing", pass)
		}
	}
}

// refuseSQL is an application's trigger that refuses a change of some tasks.
const refuseSQL = `
CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
	IF NEW.id = 'left out' THEN RETURN NULL; END IF;
	RAISE EXCEPTION 'no' USING ERRCODE = '22000';
END $$;
CREATE TRIGGER refuse BEFORE UPDATE ON tasktable.scheduled_tasks FOR EACH ROW
WHEN (NEW.id IN ('refused', 'left out') AND NEW.status <> OLD.status AND NEW.status <> 'FAILED')
EXECUTE FUNCTION refuse()`

// A task that cannot be claimed fails, but not before it is its turn. The others are claimed in their order.
func TestPassBesideATaskThatCannotBeClaimed(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		slots int
		want  string
	}{
		{1, "first EXECUTING, less urgent QUEUED, refused QUEUED, second QUEUED"},
		{9, "first EXECUTING, less urgent EXECUTING, refused FAILED, second EXECUTING"},
	} {
		b := benchOf(t)
		l := b.elected(slots(test.slots))
		b.Add("first", func(task *store.Task) { task.Priority = 5 })
		for id, priority := range map[string]int{"second": 5, "less urgent": 0, "refused": -5} {
			b.Add(id, func(task *store.Task) { task.Priority = priority })
		}
		b.Exec(refuseSQL)
		for more := true; more; {
			found, err := l.pass(t.Context())
			if err != nil || found.stuck {
				t.Fatalf("%+v, %v", found, err)
			}
			more = found.claimed > 0
		}
		if got := b.states(); got != test.want {
			t.Errorf("%d slots: %s, want %s", test.slots, got, test.want)
		}
	}
}

// A task that an application's trigger keeps from being resumed keeps no other one paused.
func TestPauseThatCannotEnd(t *testing.T) {
	b := newBench(t)
	b.Exec(refuseSQL)
	until := time.Now().Add(500 * time.Millisecond)
	ids := []string{"first", "refused", "second", "left out", "third"}
	for _, id := range ids {
		b.Add(id, func(task *store.Task) { task.At = until.Add(time.Hour) })
	}
	b.Exec(`ALTER TABLE tasktable.scheduled_tasks DISABLE TRIGGER refuse`)
	for _, id := range ids {
		b.Did(b.Tasks.PauseUntil(t.Context(), b.Pool, id, until))
	}
	b.Exec(`ALTER TABLE tasktable.scheduled_tasks ENABLE TRIGGER refuse`)
	b.Passes(until)
	l := b.elected()
	for range 3 {
		b.Did(l.pass(t.Context()))
	}
	if got, want := b.states(),
		"first QUEUED, left out PAUSED, refused PAUSED, second QUEUED, third QUEUED"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

// A line of the log names at most twenty tasks, and none that had expired.
func TestClaimedIDs(t *testing.T) {
	t.Parallel()
	of := func(id int) []taskdb.ClaimedTask {
		return []taskdb.ClaimedTask{{Claim: taskdb.Claim{ID: fmt.Sprint(id)}}}
	}
	var taken claimedIDs
	var want []string
	for i := range maxLoggedIDs {
		tasks := slices.Concat(of(2*i), of(2*i+1))
		taken = append(taken, taskdb.ClaimedLane{Tasks: tasks, Expired: of(100 + i)})
		want = append(want, tasks[0].ID, tasks[1].ID)
	}
	if got := taken.LogValue().Any().([]string); !slices.Equal(got, want[:20]) {
		t.Errorf("ids %q", got)
	}
	if got := claimedIDs(nil).LogValue().Any().([]string); len(got) != 0 {
		t.Errorf("of no task: %q", got)
	}
}

func TestBatchesOf(t *testing.T) {
	t.Parallel()
	of := func(sizes ...int) (found []taskdb.ClaimedTask) {
		for i, size := range sizes {
			found = append(found, taskdb.ClaimedTask{Claim: taskdb.Claim{ID: fmt.Sprint(i)}, Bytes: size})
		}
		return found
	}
	for _, test := range []struct {
		taken []taskdb.ClaimedTask
		size  int
		want  string
	}{
		{nil, 3, "[]"},
		{of(1, 1, 1, 1, 1, 1, 1), 3, "[3 3 1]"},
		{of(1, 1), 250, "[2]"},
		{of(600<<10, 600<<10, 100<<10, 1), 250, "[1 3]"},
		{of(2<<20, 2<<20, 1), 250, "[1 1 1]"},
		{of(512<<10, 512<<10, 512<<10), 250, "[2 1]"},
	} {
		sizes := []int{}
		next := 0
		for _, holds := range batchesOf(test.taken, test.size, plan.MaxBatchBytes) {
			sizes = append(sizes, len(holds))
			for _, h := range holds {
				if h.ID != fmt.Sprint(next) {
					t.Errorf("task %s, want %d: the order is lost", h.ID, next)
				}
				next++
			}
		}
		if fmt.Sprint(sizes) != test.want || next != len(test.taken) {
			t.Errorf("%d tasks by %d: %v, want %s", len(test.taken), test.size, sizes, test.want)
		}
	}
}
