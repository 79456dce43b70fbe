package leader

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/tasktable/tasktable/scheduled/internal/enginetest"
	"github.com/tasktable/tasktable/scheduled/internal/pg"
	"github.com/tasktable/tasktable/scheduled/internal/session"
	"github.com/tasktable/tasktable/scheduled/internal/taskdb"
	"github.com/tasktable/tasktable/store"
)

// look lists the lanes as a leader with these marks would.
func (b *bench) look(m *LowWaterMarks) (names string) {
	b.T.Helper()
	var batch pgx.Batch
	m.Queue(b.Queries, &batch)
	results := b.Pool.SendBatch(b.T.Context(), &batch)
	found, err := m.read(results, time.Now())
	if err = errors.Join(err, results.Close()); err != nil {
		b.T.Fatal(err)
	}
	var listed []string
	for _, l := range found.Tasks {
		listed = append(listed, fmt.Sprintf("%s %s %d", l.Queue, l.Type, l.Priority))
	}
	slices.Sort(listed)
	return strings.Join(listed, "; ")
}

// someMarks knows lanes, and looks from their marks on. All of these queues and types are worked.
func someMarks(at time.Time, keys ...laneKey) *LowWaterMarks {
	m := &LowWaterMarks{known: map[laneKey]time.Time{}, deepAt: at, DeepBy: time.Now().Add(time.Hour)}
	for _, key := range keys {
		m.known[key] = at
		if one := (taskdb.WorkedLane{Queue: key.queue, Kind: key.kind}); !slices.Contains(m.worked, one) {
			m.worked = append(m.worked, one)
		}
	}
	m.cover(m.worked)
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
			m := someMarks(enginetest.Noon.Add(-time.Hour), known...)
			m.worked = append(m.worked, taskdb.WorkedLane{Queue: "e", Kind: "BB"})
			m.cover(m.worked)
			payload := store.JSON(`{"type":"` + fresh.kind + `"}`)
			b.Schedule(store.Task{
				ID: "new", Payload: payload, Queue: fresh.queue, Priority: fresh.priority, At: enginetest.Noon,
			})
			b.Schedule(store.Task{
				ID: "foreign", Payload: store.JSON(`{"type":"FOREIGN"}`), Queue: fresh.queue, At: enginetest.Noon,
			})
			want := fmt.Sprintf("%s %s %d", fresh.queue, fresh.kind, fresh.priority)
			for range 2 {
				if got := b.look(m); got != want || m.full {
					t.Errorf("a look from the marks finds %q, want %q", got, want)
				}
			}
			if m.Quick = true; b.look(m) != want || !m.full {
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
	b.Schedule(store.Task{Payload: enginetest.Job{Name: "before"}, At: past.Add(-maxLowered / 2)})
	m := someMarks(past, lane)
	if got := b.look(m); got != "" {
		t.Errorf("from the mark: %q", got)
	}
	b.Schedule(store.Task{Payload: enginetest.Job{Name: "after"}, At: past.AddDate(1, 0, 0)})
	if got := b.look(m); got != "default JOB 0" {
		t.Errorf("from the mark, with a later one: %q", got)
	}
	found := (&deepLook{pool: b.Pool, statements: b.Queries, slowList: time.Hour}).look(t.Context(), m.worked, nil)
	if found.err != nil || len(found.Lanes) != 1 {
		t.Fatalf("the deep look: %+v", found)
	}
	found.Took = slowLook
	m.known[lane] = past
	m.Deep(found)
	if mark := m.known[lane]; !mark.Equal(past.Add(-maxLowered / 2)) {
		t.Errorf("the mark is %s, not the head", mark)
	}
	if got := b.look(m); got != "default JOB 0" || m.full {
		t.Errorf("from the new mark: %q", got)
	}
}

// A task that was scheduled for long ago does not take the mark back with it, because each claim would then step over
// all that was claimed since. The task comes to the mark, and keeps the time that was asked for. One that lies a little
// before the mark takes the mark with it.
func TestLowTasksAreLifted(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	mark := time.Now().Add(-time.Hour).UTC().Truncate(time.Millisecond)
	lane, near := laneKey{"default", "JOB", 0}, laneKey{"default", "JOB", 7}
	for name, at := range map[string]time.Time{
		"second": mark.Add(-time.Minute), "first": mark.AddDate(-1, 0, 0), "locked": mark.AddDate(-2, 0, 0),
		"waits": mark.Add(time.Minute),
	} {
		b.Schedule(store.Task{ID: name, Payload: enginetest.Job{Name: name}, At: at})
	}
	b.Schedule(store.Task{Payload: enginetest.Job{Name: "near"}, Priority: 7, At: mark.Add(-maxLowered / 2)})
	unlock := enginetest.Lock(t, b.Pool, "locked")
	deep := &deepLook{pool: b.Pool, statements: b.Queries, log: enginetest.Logger()}
	conn, err := pgx.ConnectConfig(t.Context(), b.Pool.Config().ConnConfig)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close(context.Background()) }()
	l := &Leader{
		statements: b.Queries, session: &session.Session{Start: time.Now(), Conn: conn}, Marks: *someMarks(mark, lane, near), writes: pg.NewSize(1, 2),
		log: enginetest.Logger(),
	}
	l.Marks.Deep(deep.look(t.Context(), l.Marks.worked, l.Marks.known))
	if got := l.Marks.known; !got[lane].Equal(mark) || !got[near].Equal(mark.Add(-maxLowered/2)) {
		t.Errorf("the marks are %v", got)
	}
	lifts := func() {
		t.Helper()
		if err := l.lift(t.Context()); err != nil || len(l.Marks.low) > 0 {
			t.Errorf("lifts: %v, %d lanes are left", err, len(l.Marks.low))
		}
	}
	lifts()
	for name, want := range map[string]time.Time{
		"first": mark.Add(2 * time.Microsecond), "second": mark.Add(3 * time.Microsecond), "waits": mark.Add(time.Minute),
		"locked": mark.AddDate(-2, 0, 0),
	} {
		row, err := enginetest.Tasks.Get(t.Context(), b.Pool, name)
		if err != nil || !row.NextAttemptAt.Equal(want) {
			t.Errorf("%s is due at %s, want %s; %v", name, row.NextAttemptAt, want, err)
		}
		if name == "first" && !row.ScheduledAt.Equal(mark.AddDate(-1, 0, 0)) {
			t.Errorf("the time that was asked for is now %s", row.ScheduledAt)
		}
	}
	unlock()
	l.Marks.Deep(deep.look(t.Context(), l.Marks.worked, l.Marks.known))
	lifts()
	if row, err := enginetest.Tasks.Get(t.Context(), b.Pool, "locked"); err != nil ||
		row.NextAttemptAt.Before(mark) {
		t.Errorf("unlocked, it is due at %s, %v", row.NextAttemptAt, err)
	}
}

// A look at everything that finds such a task does not lower the mark either. If the look was slow, a deep look is to
// begin, and claims go on at the mark. Otherwise claims begin at the task, also while no deep look can be made.
func TestALookHidesLowTasks(t *testing.T) {
	t.Parallel()
	lane := laneKey{"default", "JOB", 0}
	mark := time.Now().Add(-time.Minute)
	low := mark.AddDate(-1, 0, 0)
	for _, one := range []struct {
		took time.Duration // by the look
		head time.Time
		deep bool
	}{
		{tooSlow - 1, low, false},
		{tooSlow, mark, true},
	} {
		m := someMarks(mark, lane)
		m.took = one.took
		rows := []taskdb.LaneRow{{Queue: "default", Type: "JOB", Head: low, DueIn: -1}}
		m.Note(rows, time.Now())
		m.hide(rows)
		if !rows[0].Head.Equal(one.head) || !m.known[lane].Equal(mark) || m.isLow != one.deep {
			t.Errorf("after %s claims begin at %s, the mark is %s, a deep look is to begin: %t", one.took, rows[0].Head,
				m.known[lane], m.isLow)
		}
	}
}

// A leader that begins while dead entries lie in the way gives a lane with few tasks a mark at the time of its look.
func TestLowTasksOfALaneWithoutAMark(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	lane := laneKey{"default", "JOB", 0}
	b.Schedule(store.Task{ID: "low", Payload: enginetest.Job{Name: "low"}, At: time.Now().AddDate(-1, 0, 0)})
	for slow, low := range map[time.Duration]int{time.Hour: 0, 0: 1} {
		deep := &deepLook{pool: b.Pool, statements: b.Queries, log: enginetest.Logger(), slowList: slow}
		found := deep.look(t.Context(), []taskdb.WorkedLane{{Queue: "default", Kind: "JOB"}}, nil)
		if found.err != nil || len(found.low) != low {
			t.Fatalf("slow from %s on: %v, %v", slow, found.low, found.err)
		}
		var marks LowWaterMarks
		marks.Deep(found)
		if lifted := marks.known[lane].Equal(found.Began); lifted != (low > 0) {
			t.Errorf("slow from %s on: the mark is %s, the look began at %s", slow, marks.known[lane], found.Began)
		}
	}
}

// The nodes that work a type may all be dead while the leader looks from the marks on. When they are back, their tasks
// wait for a look that reads their lanes from the beginning. Otherwise the tasks due after the last deep look went
// before the more urgent ones that are due before it.
func TestLowWaterMarksOfATypeThatIsWorkedAgain(t *testing.T) {
	t.Parallel()
	now := time.Now().UTC().Truncate(time.Millisecond)
	job := taskdb.WorkedLane{Queue: "default", Kind: "JOB"}
	for name, covers := range map[string]func(b *bench, m *LowWaterMarks){
		"a deep look reads it": func(b *bench, m *LowWaterMarks) {
			found := (&deepLook{pool: b.Pool, statements: b.Queries, slowList: time.Hour}).look(b.T.Context(), m.worked, nil)
			m.Deep(found)
		},
		"a look at everything reads it": func(b *bench, m *LowWaterMarks) {
			m.Quick = true
			b.look(m)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			m := someMarks(now.Add(-time.Minute), laneKey{"other", "JOB", 0})
			b.Schedule(
				store.Task{Payload: enginetest.Job{Name: "urgent"}, Priority: 10, At: now.Add(-time.Hour)},
				store.Task{Payload: enginetest.Job{Name: "later"}, At: now},
			)
			for range 2 { // the type goes and comes again
				if !m.Work([]taskdb.WorkedLane{job}) {
					t.Error("the lane is not new")
				}
				if got := b.look(m); got != "" || !m.waits() {
					t.Errorf("before it is read: %q, it waits for a deep look: %t", got, m.waits())
				}
				covers(b, m)
				m.Quick, m.took = false, tooSlow // else a slow look from the marks on makes the next one look at everything
				if got := b.look(m); got != "default JOB 0; default JOB 10" || m.full || m.waits() {
					t.Errorf("after that: %q, it waits for a deep look: %t", got, m.waits())
				}
				m.Work(nil)
			}
		})
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
		{name: "the head is the mark", head: enginetest.Noon.Add(-time.Hour), mark: enginetest.Noon.Add(-time.Hour)},
		{
			name: "the first is to come: another may come before it", head: enginetest.Noon.Add(time.Hour),
			mark: enginetest.Noon,
		},
		{name: "claimed", head: enginetest.Noon.Add(-time.Hour), mark: enginetest.Noon.Add(-time.Minute),
			claim: []taskdb.ClaimedTask{
				{Queue: "q", Type: "T", Priority: 1, Due: enginetest.Noon.Add(-time.Minute)},
				{Queue: "q", Type: "T", Priority: 1, Due: enginetest.Noon.Add(-2 * time.Minute)},
			}},
		{name: "claimed ahead of its time", head: enginetest.Noon.Add(-time.Hour),
			mark:  enginetest.Noon.Add(-time.Hour),
			claim: []taskdb.ClaimedTask{{Queue: "q", Type: "T", Priority: 1, Due: enginetest.Noon.Add(time.Second)}}},
	} {
		m := &LowWaterMarks{}
		m.Note(row(test.head), enginetest.Noon)
		m.claimed(test.claim, enginetest.Noon)
		if mark := m.known[key]; !mark.Equal(test.mark) {
			t.Errorf("%s: mark %s, want %s", test.name, mark, test.mark)
		}
	}
}

// Looks are at everything until five in a row were slow. A single slow one is a stall of the machine.
func TestLowWaterMarksOnlyWhereLooksAreSlow(t *testing.T) {
	t.Parallel()
	var m LowWaterMarks
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
				m.Deep(DeepFound{Began: enginetest.Noon, Took: step.took})
			} else {
				m.measure(step.took)
			}
		}
		if m.Quick != step.quick {
			t.Errorf("step %d: looks are at everything: %t", i, m.Quick)
		}
	}
	if m = (LowWaterMarks{}); m.deepAt.IsZero() {
		if m.Deep(DeepFound{Began: enginetest.Noon, Took: tooSlow}); m.Quick {
			t.Error("the first deep look was very slow, and looks are at everything")
		}
	}
}

// While the engine's pool has no answers, deep looks fail. Tasks before the marks must not wait for it.
func TestLowWaterMarksDoWithoutDeepLooksThatFail(t *testing.T) {
	t.Parallel()
	now := time.Now()
	for name, test := range map[string]struct {
		marks LowWaterMarks
		want  bool
	}{
		"the last deep look counts": {LowWaterMarks{deepAt: enginetest.Noon, DeepBy: now.Add(time.Minute)}, false},
		"it is too old":             {LowWaterMarks{deepAt: enginetest.Noon, DeepBy: now.Add(-time.Second)}, true},
		"looks are quick": {
			LowWaterMarks{Quick: true, deepAt: enginetest.Noon, DeepBy: now.Add(time.Minute)}, true,
		},
		"looks at everything take long": {
			LowWaterMarks{took: tooSlow, deepAt: enginetest.Noon, DeepBy: now.Add(-time.Second)}, false,
		},
		"no deep look yet": {LowWaterMarks{}, false},
	} {
		if test.marks.Queue(taskdb.Queries{}, &pgx.Batch{}); test.marks.full != test.want {
			t.Errorf("%s: at everything: %t", name, test.marks.full)
		}
	}
}

// A leader reads no lanes before its first deep look.
func TestLowWaterMarksBeforeTheFirstDeepLook(t *testing.T) {
	t.Parallel()
	m := &LowWaterMarks{worked: []taskdb.WorkedLane{{Queue: "default", Kind: "JOB"}}}
	if r := m.ranges(); len(r.queues) != 0 {
		t.Errorf("it looks at %v", r)
	}
	m.Deep(DeepFound{
		Worked: m.worked, Began: enginetest.Noon.Add(time.Hour), Took: time.Second,
		Lanes: []taskdb.LaneRow{{Queue: "default", Type: "JOB", Priority: 3, Head: enginetest.Noon}},
	})
	if r := m.ranges(); len(r.queues) != 3 || !r.marks[1].Equal(enginetest.Noon) ||
		!r.marks[0].Equal(enginetest.Noon.Add(time.Hour)) {
		t.Errorf("after the deep look: %+v", r)
	}
}

// Once looks begin at the marks, the next deep look comes within seconds, however long the pause was to be before.
func TestDeepLooksComeSoonerOnceLooksAreSlow(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	told := make(chan struct{}, 1)
	deep := &deepLook{
		pool: b.Pool, statements: b.Queries, log: enginetest.Logger(), told: func() { told <- struct{}{} },
	}
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
		if deep.begin(t.Context(), &LowWaterMarks{Quick: step.rare}); deep.busy != step.begins {
			t.Errorf("%s: it begins %t, want %t", step.what, deep.busy, step.begins)
		}
		if deep.busy {
			enginetest.Receive(t, told, enginetest.Patience, "the deep look ends")
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
		m := &LowWaterMarks{Quick: true, full: true, began: time.Now().Add(-2 * time.Second)}
		if _, err := m.read(failedLook{err: &pgconn.PgError{Code: code}}, enginetest.Noon); err == nil ||
			m.Quick != quick {
			t.Errorf("after error %s: quick %t, %v", code, m.Quick, err)
		}
	}
}

// lanesLook answers with no lanes.
type lanesLook struct{ pgx.BatchResults }

func (lanesLook) Query() (pgx.Rows, error) { return nil, errors.New("not asked") }

// Where the machine is slow, a look from the marks takes as long, and looks are at everything again.
func TestLowWaterMarksOnlyWhereTheySpare(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		full, marks time.Duration
		quick       bool
	}{
		"an old snapshot":              {80 * time.Millisecond, time.Millisecond, false},
		"a slow machine":               {80 * time.Millisecond, 60 * time.Millisecond, true},
		"too slow for the session":     {tooSlow, tooSlow, false},
		"nothing is known of the time": {0, time.Second, false},
	} {
		m := &LowWaterMarks{took: test.full, slow: maxSlowLooks, began: time.Now().Add(-test.marks)}
		if _, err := m.read(lanesLook{}, enginetest.Noon); err == nil || m.Quick != test.quick {
			t.Errorf("%s: looks are at everything: %t, %v", name, m.Quick, err)
		}
	}
}
