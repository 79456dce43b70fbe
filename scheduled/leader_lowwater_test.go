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

	"github.com/tasktable/tasktable/scheduled/internal/taskdb"
	"github.com/tasktable/tasktable/store"
)

// look lists the lanes as a leader with these marks would.
func (b *bench) look(m *lowWaterMarks) (names string) {
	b.t.Helper()
	var batch pgx.Batch
	m.queue(b.Queries, &batch)
	results := b.pool.SendBatch(b.t.Context(), &batch)
	found, err := m.read(results, time.Now())
	if err = errors.Join(err, results.Close()); err != nil {
		b.t.Fatal(err)
	}
	var listed []string
	for _, l := range found.Tasks {
		listed = append(listed, fmt.Sprintf("%s %s %d", l.Queue, l.Type, l.Priority))
	}
	slices.Sort(listed)
	return strings.Join(listed, "; ")
}

// someMarks knows lanes, and looks from their marks on. All of these queues and types are worked.
func someMarks(at time.Time, keys ...laneKey) *lowWaterMarks {
	m := &lowWaterMarks{known: map[laneKey]time.Time{}, deepAt: at, deepBy: time.Now().Add(time.Hour)}
	for _, key := range keys {
		m.known[key] = at
		if one := (taskdb.WorkedLane{Queue: key.queue, Kind: key.kind}); !slices.Contains(m.worked, one) {
			m.worked = append(m.worked, one)
		}
	}
	return m
}

// A new lane of a worked queue and type is found wherever its priority lies. One that nobody works is not looked at.
func TestLowWaterMarksFindNewLanes(t *testing.T) {
	t.Parallel()
	known := []laneKey{{"b", "BB", -5}, {"b", "BB", 5}, {"b", "DD", 0}, {"d", "BB", 0}}
	for _, fresh := range []laneKey{
		{"b", "BB", -100}, {"b", "BB", 0}, {"b", "BB", 100}, // below, between and above the priorities of a type
		{"b", "DD", -1}, {"b", "DD", 1}, {"d", "BB", 1}, {"e", "BB", 7},
	} {
		t.Run(fmt.Sprint(fresh), func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			m := someMarks(noon.Add(-time.Hour), known...)
			m.worked = append(m.worked, taskdb.WorkedLane{Queue: "e", Kind: "BB"})
			payload := store.JSON(`{"type":"` + fresh.kind + `"}`)
			b.schedule(store.Task{ID: "new", Payload: payload, Queue: fresh.queue, Priority: fresh.priority, At: noon})
			b.schedule(store.Task{
				ID: "foreign", Payload: store.JSON(`{"type":"FOREIGN"}`), Queue: fresh.queue, At: noon,
			})
			want := fmt.Sprintf("%s %s %d", fresh.queue, fresh.kind, fresh.priority)
			for range 2 {
				if got := b.look(m); got != want || m.full {
					t.Errorf("a look from the marks finds %q, want %q", got, want)
				}
			}
			if m.quick = true; b.look(m) != want || !m.full {
				t.Errorf("a look at everything finds %q", b.look(m))
			}
		})
	}
}

// What lies before the mark is left to the deep look; what is due later is not, however far it is.
func TestLowWaterMarksHide(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	past := time.Now().Add(-time.Hour).UTC().Truncate(time.Millisecond) // the mark is never in the future
	lane := laneKey{"default", "JOB", 0}
	b.schedule(store.Task{Payload: job{"before"}, At: past.Add(-time.Minute)})
	m := someMarks(past, lane)
	if got := b.look(m); got != "" {
		t.Errorf("from the mark: %q", got)
	}
	b.schedule(store.Task{Payload: job{"after"}, At: past.AddDate(1, 0, 0)})
	if got := b.look(m); got != "default JOB 0" {
		t.Errorf("from the mark, with a later one: %q", got)
	}
	found := (&deepLook{pool: b.pool, statements: b.Queries}).look(t.Context(), m.worked)
	if found.err != nil || len(found.lanes) != 1 {
		t.Fatalf("the deep look: %+v", found)
	}
	m.deep(found.lanes, found.began, slowLook)
	if mark := m.known[lane]; !mark.Equal(past.Add(-time.Minute)) {
		t.Errorf("the mark is %s, not the head", mark)
	}
	if got := b.look(m); got != "default JOB 0" || m.full {
		t.Errorf("from the new mark: %q", got)
	}
}

func TestLowWaterMarksLearn(t *testing.T) {
	t.Parallel()
	row := func(head time.Time) []taskdb.LaneRow {
		return []taskdb.LaneRow{{Queue: "q", Type: "T", Priority: 1, Head: head}}
	}
	key := laneKey{"q", "T", 1}
	for _, test := range []struct {
		name  string
		head  time.Time
		claim []taskdb.ClaimedTask
		mark  time.Time
	}{
		{name: "the head is the mark", head: noon.Add(-time.Hour), mark: noon.Add(-time.Hour)},
		{name: "the first is to come: another may come before it", head: noon.Add(time.Hour), mark: noon},
		{name: "claimed", head: noon.Add(-time.Hour), mark: noon.Add(-time.Minute),
			claim: []taskdb.ClaimedTask{
				{Queue: "q", Type: "T", Priority: 1, Due: noon.Add(-time.Minute)},
				{Queue: "q", Type: "T", Priority: 1, Due: noon.Add(-2 * time.Minute)},
			}},
		{name: "claimed ahead of its time", head: noon.Add(-time.Hour), mark: noon.Add(-time.Hour),
			claim: []taskdb.ClaimedTask{{Queue: "q", Type: "T", Priority: 1, Due: noon.Add(time.Second)}}},
	} {
		m := &lowWaterMarks{}
		m.note(row(test.head), noon)
		m.claimed(test.claim, noon)
		if mark := m.known[key]; !mark.Equal(test.mark) {
			t.Errorf("%s: mark %s, want %s", test.name, mark, test.mark)
		}
	}
}

// Looks are at everything until five in a row were slow. A single slow one is a stall of the machine.
func TestLowWaterMarksOnlyWhereLooksAreSlow(t *testing.T) {
	t.Parallel()
	var m lowWaterMarks
	for i, step := range []struct {
		deep  bool
		took  time.Duration
		times int
		quick bool
	}{
		{deep: true, took: 2 * slowLook, times: 1, quick: true}, // the first of a leader
		{took: slowLook, times: maxSlowLooks - 2, quick: true},
		{took: slowLook - 1, times: 1, quick: true},
		{took: slowLook, times: maxSlowLooks - 1, quick: true},
		{took: slowLook, times: 1, quick: false},
		{deep: true, took: slowLook, times: 1, quick: false},
		{deep: true, took: slowLook - 1, times: 1, quick: true},
		{took: tooSlow, times: 1, quick: false}, // the next may come to the session's limit
		{deep: true, took: slowLook - 1, times: 1, quick: true},
		{deep: true, took: tooSlow, times: 1, quick: false},
	} {
		for range step.times {
			if step.deep {
				m.deep(nil, noon, step.took)
			} else {
				m.measure(step.took)
			}
		}
		if m.quick != step.quick {
			t.Errorf("step %d: looks are at everything: %t", i, m.quick)
		}
	}
	if m = (lowWaterMarks{}); m.deepAt.IsZero() {
		if m.deep(nil, noon, tooSlow); m.quick {
			t.Error("the first deep look was very slow, and looks are at everything")
		}
	}
}

// While the engine's pool has no answers, deep looks fail. Tasks before the marks must not wait for it.
func TestLowWaterMarksDoWithoutDeepLooksThatFail(t *testing.T) {
	t.Parallel()
	now := time.Now()
	for name, test := range map[string]struct {
		marks lowWaterMarks
		want  bool
	}{
		"the last deep look counts": {lowWaterMarks{deepAt: noon, deepBy: now.Add(time.Minute)}, false},
		"it is too old":             {lowWaterMarks{deepAt: noon, deepBy: now.Add(-time.Second)}, true},
		"looks are quick":           {lowWaterMarks{quick: true, deepAt: noon, deepBy: now.Add(time.Minute)}, true},
		"looks at everything take long": {
			lowWaterMarks{took: tooSlow, deepAt: noon, deepBy: now.Add(-time.Second)}, false,
		},
		"no deep look yet": {lowWaterMarks{}, false},
	} {
		if test.marks.queue(taskdb.Queries{}, &pgx.Batch{}); test.marks.full != test.want {
			t.Errorf("%s: at everything: %t", name, test.marks.full)
		}
	}
}

// A leader reads no lanes before its first deep look.
func TestLowWaterMarksBeforeTheFirstDeepLook(t *testing.T) {
	t.Parallel()
	m := &lowWaterMarks{worked: []taskdb.WorkedLane{{Queue: "default", Kind: "JOB"}}}
	if r := m.ranges(); len(r.queues) != 0 {
		t.Errorf("it looks at %v", r)
	}
	m.deep([]taskdb.LaneRow{{Queue: "default", Type: "JOB", Priority: 3, Head: noon}}, noon.Add(time.Hour), time.Second)
	if r := m.ranges(); len(r.queues) != 3 || !r.marks[1].Equal(noon) || !r.marks[0].Equal(noon.Add(time.Hour)) {
		t.Errorf("after the deep look: %+v", r)
	}
}

// Once looks begin at the marks, the next deep look comes within seconds, however long the pause was to be before.
func TestDeepLooksComeSoonerOnceLooksAreSlow(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	told := make(chan struct{}, 1)
	deep := &deepLook{pool: b.pool, statements: b.Queries, log: testLogger(), told: func() { told <- struct{}{} }}
	for _, step := range []struct {
		what   string
		ago    time.Duration
		rare   bool
		begins bool
	}{
		{"the first", 0, true, true},
		{"another at once", 0, true, false},
		{"some seconds later", maxDeepPause, true, false},
		{"and looks have become slow", maxDeepPause, false, true},
		{"at once after that", 0, false, false},
		{"a minute later", deepPause, true, true},
	} {
		if step.ago > 0 {
			deep.ended = time.Now().Add(-step.ago)
		}
		if deep.begin(t.Context(), nil, step.rare); deep.busy != step.begins {
			t.Errorf("%s: it begins %t, want %t", step.what, deep.busy, step.begins)
		}
		if deep.busy {
			receive(t, told, 10*time.Second, "the deep look ends")
			deep.take()
		}
	}
}

// failedLook answers with an error.
type failedLook struct {
	pgx.BatchResults
	err error
}

func (f failedLook) Query() (pgx.Rows, error) { return nil, f.err }

// A look at everything that ran into its time limit is the last one on the session for now. One that waited for a lock
// in vain, as while a migration adds a column, says nothing about how long looks take.
func TestLowWaterMarksAfterATimeout(t *testing.T) {
	t.Parallel()
	for code, quick := range map[string]bool{"57014": false, "55P03": true} {
		m := &lowWaterMarks{quick: true, full: true, began: time.Now().Add(-2 * time.Second)}
		if _, err := m.read(failedLook{err: &pgconn.PgError{Code: code}}, noon); err == nil || m.quick != quick {
			t.Errorf("after error %s: quick %t, %v", code, m.quick, err)
		}
	}
}

// lanesLook answers with no lanes.
type lanesLook struct{ pgx.BatchResults }

func (lanesLook) Query() (pgx.Rows, error) { return nil, errRecorded }

// Where the machine is slow, a look from the marks takes as long, and looks are at everything again.
func TestLowWaterMarksOnlyWhereTheySpare(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		full, marks time.Duration
		quick       bool
	}{
		"an old snapshot":              {200 * time.Millisecond, time.Millisecond, false},
		"a slow machine":               {200 * time.Millisecond, 150 * time.Millisecond, true},
		"too slow for the session":     {tooSlow, tooSlow, false},
		"nothing is known of the time": {0, time.Second, false},
	} {
		m := &lowWaterMarks{took: test.full, slow: maxSlowLooks, began: time.Now().Add(-test.marks)}
		if _, err := m.read(lanesLook{}, noon); err == nil || m.quick != test.quick {
			t.Errorf("%s: looks are at everything: %t, %v", name, m.quick, err)
		}
	}
}
