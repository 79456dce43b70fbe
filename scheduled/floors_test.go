package scheduled

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tasktable/tasktable/store"
)

// look lists the lanes as a leader with these floors would.
func (b *bench) look(f *laneFloors) (names string) {
	b.t.Helper()
	var batch pgx.Batch
	f.queue(b.statements, &batch, false)
	results := b.pool.SendBatch(b.t.Context(), &batch)
	found, err := f.read(results)
	if err = errors.Join(err, results.Close()); err != nil {
		b.t.Fatal(err)
	}
	var listed []string
	for _, l := range found.tasks {
		listed = append(listed, fmt.Sprintf("%s %s %d", l.Queue, l.Type, l.Priority))
	}
	return strings.Join(listed, "; ")
}

// someFloors knows lanes, and does not look at everything for a while.
func someFloors(at time.Time, keys ...laneKey) *laneFloors {
	f := &laneFloors{known: map[laneKey]laneFloor{}, fullAt: time.Now().Add(time.Hour), spares: true}
	for _, key := range keys {
		f.known[key] = laneFloor{at: at, seen: time.Now()}
	}
	return f
}

// A new lane is found wherever it lies between those that are known, and the next look is at everything.
func TestFloorsFindNewLanes(t *testing.T) {
	t.Parallel()
	known := []laneKey{{"b", "BB", -5}, {"b", "BB", 5}, {"b", "DD", 0}, {"d", "BB", 0}}
	for _, fresh := range []laneKey{
		{"b", "BB", -100}, {"b", "BB", 0}, {"b", "BB", 100}, // below, between and above the priorities of a type
		{"b", "AA", 0}, {"b", "CC", 0}, {"b", "EE", 0}, // before, between and behind the types of a queue
		{"a", "BB", 0}, {"c", "BB", 0}, {"e", "BB", 0}, // before, between and behind the queues
		{"b", "DD", -1}, {"b", "DD", 1}, {"d", "AA", 0}, {"d", "BB", 1}, {"d", "CC", 0},
	} {
		t.Run(fmt.Sprint(fresh), func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			b.schedule(store.Task{ID: "new", Payload: store.JSON(`{"type":"` + fresh.kind + `"}`), Queue: fresh.queue, Priority: fresh.priority, At: noon})
			f := someFloors(noon.Add(-time.Hour), known...)
			want := fmt.Sprintf("%s %s %d", fresh.queue, fresh.kind, fresh.priority)
			if got := b.look(f); got != want || f.full {
				t.Errorf("a look from the floors finds %q, want %q", got, want)
			}
			if got := b.look(f); got != want || !f.full {
				t.Errorf("the look after it (everything: %t) finds %q", f.full, got)
			}
		})
	}
}

// What lies before the floor is left to the look at everything; what is due later is not, however far it is.
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
	f.fullAt = time.Time{}
	if got := b.look(f); got != "default JOB 0" || !f.full {
		t.Errorf("at everything: %q", got)
	}
	if floor := f.known[lane].at; !floor.Equal(past.Add(-time.Minute)) {
		t.Errorf("the floor is %s, not the head", floor)
	}
}

func TestFloorsLearn(t *testing.T) {
	t.Parallel()
	row := func(head time.Time) []laneRow {
		return []laneRow{{Now: noon, Queue: new("q"), Type: new("T"), Priority: new(1), Head: &head, DueIn: new(0.0)}}
	}
	key := laneKey{"q", "T", 1}
	for _, test := range []struct {
		name  string
		took  time.Duration
		head  time.Time
		claim []claimed
		floor time.Time
		share bool // not everything is looked at next
	}{
		{name: "a quick look", took: time.Millisecond, head: noon.Add(-time.Hour), floor: noon.Add(-time.Hour)},
		{name: "a slow look", took: 50 * time.Millisecond, head: noon.Add(-time.Hour), floor: noon.Add(-time.Hour), share: true},
		{name: "the first is to come: another may come before it", head: noon.Add(time.Hour), floor: noon},
		{name: "claimed", head: noon.Add(-time.Hour), floor: noon.Add(-time.Minute),
			claim: []claimed{{Queue: "q", Type: "T", Priority: 1, Due: noon.Add(-time.Minute)}, {Queue: "q", Type: "T", Priority: 1, Due: noon.Add(-2 * time.Minute)}}},
		{name: "claimed ahead of its time", head: noon.Add(-time.Hour), floor: noon.Add(-time.Hour), claim: []claimed{{Queue: "q", Type: "T", Priority: 1, Due: noon.Add(time.Second)}}},
	} {
		f := &laneFloors{full: true}
		f.learn(row(test.head), test.took)
		f.claimed(test.claim)
		if floor := f.known[key].at; !floor.Equal(test.floor) {
			t.Errorf("%s: floor %s, want %s", test.name, floor, test.floor)
		}
		if share := time.Until(f.fullAt) > 0; share != test.share {
			t.Errorf("%s: everything is looked at again in %s", test.name, time.Until(f.fullAt))
		}
	}
	f := someFloors(noon, key)
	f.known[key] = laneFloor{at: noon, seen: time.Now().Add(-2 * floorKept)}
	f.learn(nil, 0)
	if len(f.known) != 0 {
		t.Error("a lane that has long been empty is still known")
	}
}

// A machine on which each look is slow looks at everything: looking from the floors on would let tasks run before more urgent ones, and
// spare nothing. It is tried by a peek now and then.
func TestFloorsOnlyWhereTheySpare(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	f := someFloors(noon, laneKey{"default", "JOB", 0})
	f.spares = false
	look := func(peek bool, took time.Duration) (full bool) {
		var batch pgx.Batch
		f.queue(b.statements, &batch, peek)
		f.learn(nil, took)
		return f.full
	}
	f.full = true
	for range fullLooks - 1 {
		f.learn(nil, 50*time.Millisecond)
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
	f.triedAt = time.Now().Add(-2 * floorTry)
	if full := look(true, time.Millisecond); full || !f.spares {
		t.Errorf("a try that was quicker: everything %t, spares %t", full, f.spares)
	}
	if full := look(false, time.Millisecond); full || !f.spares {
		t.Errorf("the pass after it: everything %t, spares %t", full, f.spares)
	}
	f.fullAt = time.Time{}
	if full := look(false, time.Millisecond); !full || f.spares {
		t.Errorf("a look at everything that was quick: everything %t, spares %t", full, f.spares)
	}
}
