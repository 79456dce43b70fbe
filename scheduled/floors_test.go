package scheduled

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/tasktable/tasktable/store"
)

// look lists the lanes as a leader with these floors would.
func (b *bench) look(f *laneFloors) (names string) {
	b.t.Helper()
	var batch pgx.Batch
	f.queue(b.statements, &batch, false)
	results := b.pool.SendBatch(b.t.Context(), &batch)
	found, err := f.read(results, time.Now())
	if err = errors.Join(err, results.Close()); err != nil {
		b.t.Fatal(err)
	}
	var listed []string
	for _, l := range found.tasks {
		listed = append(listed, fmt.Sprintf("%s %s %d", l.Queue, l.Type, l.Priority))
	}
	slices.Sort(listed)
	return strings.Join(listed, "; ")
}

// someFloors knows lanes, and looks from their floors on. All of these queues and types are worked.
func someFloors(at time.Time, keys ...laneKey) *laneFloors {
	f := &laneFloors{known: map[laneKey]time.Time{}, spares: true, deepAt: at}
	for _, key := range keys {
		f.known[key] = at
		if one := (workedLane{key.queue, key.kind}); !slices.Contains(f.worked, one) {
			f.worked = append(f.worked, one)
		}
	}
	return f
}

// A new lane of a worked queue and type is found wherever its priority lies, and the leader looks once more for
// others beside it. One that nobody works is not looked at.
func TestFloorsFindNewLanes(t *testing.T) {
	t.Parallel()
	known := []laneKey{{"b", "BB", -5}, {"b", "BB", 5}, {"b", "DD", 0}, {"d", "BB", 0}}
	for _, fresh := range []laneKey{
		{"b", "BB", -100}, {"b", "BB", 0}, {"b", "BB", 100}, // below, between and above the priorities of a type
		{"b", "DD", -1}, {"b", "DD", 1}, {"d", "BB", 1}, {"e", "BB", 7},
	} {
		t.Run(fmt.Sprint(fresh), func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			f := someFloors(noon.Add(-time.Hour), known...)
			f.worked = append(f.worked, workedLane{"e", "BB"})
			payload := store.JSON(`{"type":"` + fresh.kind + `"}`)
			b.schedule(store.Task{ID: "new", Payload: payload, Queue: fresh.queue, Priority: fresh.priority, At: noon})
			b.schedule(store.Task{ID: "foreign", Payload: store.JSON(`{"type":"FOREIGN"}`), Queue: fresh.queue, At: noon})
			want := fmt.Sprintf("%s %s %d", fresh.queue, fresh.kind, fresh.priority)
			if got := b.look(f); got != want || f.full || !f.again {
				t.Errorf("a look from the floors finds %q, want %q; again %t", got, want, f.again)
			}
			if got := b.look(f); got != want || f.again {
				t.Errorf("the look after it finds %q; again %t", got, f.again)
			}
			if f.spares = false; b.look(f) != want || !f.full {
				t.Errorf("a look at everything finds %q", b.look(f))
			}
		})
	}
}

// What lies before the floor is left to the deep look; what is due later is not, however far it is.
func TestFloorsHide(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	past := time.Now().Add(-time.Hour).UTC().Truncate(time.Millisecond) // the floor is never in the future
	lane := laneKey{"default", "JOB", 0}
	b.schedule(store.Task{Payload: job{"before"}, At: past.Add(-time.Minute)})
	f := someFloors(past, lane)
	if got := b.look(f); got != "" {
		t.Errorf("from the floor: %q", got)
	}
	b.schedule(store.Task{Payload: job{"after"}, At: past.AddDate(1, 0, 0)})
	if got := b.look(f); got != "default JOB 0" {
		t.Errorf("from the floor, with a later one: %q", got)
	}
	found := (&deepLook{pool: b.pool, statements: b.statements}).look(t.Context(), f.worked)
	if found.err != nil || len(found.lanes) != 1 {
		t.Fatalf("the deep look: %+v", found)
	}
	f.deep(found.lanes, found.began, slowLook)
	if floor := f.known[lane]; !floor.Equal(past.Add(-time.Minute)) || !f.spares {
		t.Errorf("the floor is %s, not the head; spares %t", floor, f.spares)
	}
	if f.deep(found.lanes, found.began, time.Millisecond); f.spares {
		t.Error("everything is read quickly again, and looks still begin at the floors")
	}
	if f.deep(found.lanes, found.began, 2*tooSlow); !f.spares {
		t.Error("everything takes long, and is to be read on the session")
	}
}

func TestFloorsLearn(t *testing.T) {
	t.Parallel()
	row := func(head time.Time) []laneRow { return []laneRow{{Queue: "q", Type: "T", Priority: 1, Head: head}} }
	key := laneKey{"q", "T", 1}
	for _, test := range []struct {
		name  string
		head  time.Time
		claim []claimed
		floor time.Time
	}{
		{name: "the head is the floor", head: noon.Add(-time.Hour), floor: noon.Add(-time.Hour)},
		{name: "the first is to come: another may come before it", head: noon.Add(time.Hour), floor: noon},
		{name: "claimed", head: noon.Add(-time.Hour), floor: noon.Add(-time.Minute),
			claim: []claimed{
				{Queue: "q", Type: "T", Priority: 1, Due: noon.Add(-time.Minute)},
				{Queue: "q", Type: "T", Priority: 1, Due: noon.Add(-2 * time.Minute)},
			}},
		{name: "claimed ahead of its time", head: noon.Add(-time.Hour), floor: noon.Add(-time.Hour),
			claim: []claimed{{Queue: "q", Type: "T", Priority: 1, Due: noon.Add(time.Second)}}},
	} {
		f := &laneFloors{full: true}
		f.learn(row(test.head), noon, time.Millisecond)
		f.claimed(test.claim, noon)
		if floor := f.known[key]; !floor.Equal(test.floor) {
			t.Errorf("%s: floor %s, want %s", test.name, floor, test.floor)
		}
	}
}

// A machine on which each look is slow looks at everything: looking from the floors on would let tasks run before
// more urgent ones, and spare nothing. It is tried by a peek now and then.
func TestFloorsOnlyWhereTheySpare(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	f := someFloors(noon, laneKey{"default", "JOB", 0})
	f.spares = false
	look := func(peek bool, took time.Duration) (full bool) {
		var batch pgx.Batch
		f.queue(b.statements, &batch, peek)
		f.learn(nil, noon, took)
		return f.full
	}
	f.full = true
	for range slowLooks - 1 {
		f.learn(nil, noon, 50*time.Millisecond)
	}
	if full := look(true, 50*time.Millisecond); !full {
		t.Error("it is tried after few slow looks")
	}
	for _, step := range []struct {
		what   string
		peek   bool
		took   time.Duration
		full   bool
		spares bool
	}{
		{"a pass after a slow look", false, 50 * time.Millisecond, true, false},
		{"a peek tries", true, 40 * time.Millisecond, false, false},
		{"it was not quicker: no other try", true, 50 * time.Millisecond, true, false},
		{"nor in a pass", false, 50 * time.Millisecond, true, false},
	} {
		if full := look(step.peek, step.took); full != step.full || f.spares != step.spares {
			t.Errorf("%s: everything %t, spares %t", step.what, full, f.spares)
		}
	}
	f.tried = time.Now().Add(-2 * floorTry)
	if full := look(true, time.Millisecond); full || !f.spares {
		t.Errorf("a try that was quicker: everything %t, spares %t", full, f.spares)
	}
	if full := look(false, time.Millisecond); full || !f.spares {
		t.Errorf("the pass after it: everything %t, spares %t", full, f.spares)
	}
}

// While the engine's pool has no answers, deep looks fail. Tasks before the floors must not wait for it.
func TestFloorsDoWithoutDeepLooksThatFail(t *testing.T) {
	t.Parallel()
	now := time.Now()
	slow := slices.Repeat([]time.Duration{tooSlow}, slowLooks)
	for name, test := range map[string]struct {
		floors laneFloors
		want   bool
	}{
		"the last deep look counts":       {laneFloors{spares: true, fresh: now.Add(time.Second)}, false},
		"it is too old":                   {laneFloors{spares: true, fresh: now.Add(-time.Second)}, true},
		"floors are not used":             {laneFloors{fresh: now.Add(-time.Second)}, false},
		"a look at everything has failed": {laneFloors{spares: true, blind: true, fresh: now.Add(-time.Second)}, false},
		"looks at everything take long":   {laneFloors{spares: true, took: slow, fresh: now.Add(-time.Second)}, false},
		"no deep look yet":                {laneFloors{spares: true}, false},
	} {
		if got := test.floors.stale(now); got != test.want {
			t.Errorf("%s: %t", name, got)
		}
	}
	var f laneFloors
	f.deep([]laneRow{{Queue: "default", Type: "JOB", Head: noon}}, noon, 2*tooSlow)
	f.fresh = f.fresh.Add(-time.Minute)
	if f.queue(statements{}, &pgx.Batch{}, false); !f.full {
		t.Error("the look after deep looks have failed begins at the floors")
	}
}

// After a look at everything has failed by its time limit, looks read nothing until a deep look has found where to
// begin.
func TestFloorsAreBlindAfterATimeout(t *testing.T) {
	t.Parallel()
	f := &laneFloors{full: true, worked: []workedLane{{"default", "JOB"}}}
	f.failed(&pgconn.PgError{Code: "57014"})
	if r := f.ranges(); !f.spares || len(r.queues) != 0 {
		t.Errorf("it spares: %t, and looks at %v", f.spares, r)
	}
	f.deep([]laneRow{{Queue: "default", Type: "JOB", Priority: 3, Head: noon}}, noon.Add(time.Hour), time.Second)
	if r := f.ranges(); len(r.queues) != 3 || !r.floors[1].Equal(noon) || !r.floors[0].Equal(noon.Add(time.Hour)) {
		t.Errorf("after the deep look: %+v", r)
	}
}
