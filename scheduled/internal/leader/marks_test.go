package leader

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tasktable/tasktable/scheduled/internal/enginetest"
	"github.com/tasktable/tasktable/scheduled/internal/session"
	"github.com/tasktable/tasktable/scheduled/internal/taskdb"
	"github.com/tasktable/tasktable/store"
)

func key(queue, kind string, priority int) taskdb.LaneKey {
	return taskdb.LaneKey{Queue: queue, Type: kind, Priority: priority}
}

// nodeOf works these types of each of the queues.
func nodeOf(kinds []string, queues ...string) []taskdb.LiveNode {
	node := taskdb.LiveNode{Number: 1, Queues: map[string]int{}, Types: kinds}
	for _, queue := range queues {
		node.Queues[queue] = 1
	}
	return []taskdb.LiveNode{node}
}

// look lists the lanes as a leader does.
func (b *bench) look(l *knownLanes) string {
	b.T.Helper()
	var batch pgx.Batch
	l.queue(b.Queries, &batch, time.Now(), always)
	results := b.Pool.SendBatch(b.T.Context(), &batch)
	found, more, err := l.read(results, time.Now())
	if err := errors.Join(err, results.Close()); err != nil || more {
		b.T.Fatal(more, err)
	}
	var listed []string
	for _, one := range slices.Concat(found.Tasks, found.Recurring) {
		listed = append(listed, fmt.Sprintf("%s %s %d", one.Queue, one.Type, one.Priority))
	}
	slices.Sort(listed)
	return strings.Join(listed, "; ")
}

// A lane of a worked queue and type is found wherever its priority lies, also if it comes after others. Lanes that no
// node works are not listed, and are not looked at again.
func TestLookFindsLanes(t *testing.T) {
	b := newBench(t)
	insert := func(queue, kind string, priority int) {
		b.Schedule(store.Task{
			ID: fmt.Sprint(queue, kind, priority), Payload: store.JSON(`{"type":"` + kind + `"}`), Queue: queue,
			Priority: priority,
		})
	}
	l := newLanes()
	l.work(nodeOf([]string{"BB", "DD", "FF"}, "b", "d", "f"))
	if got := b.look(&l); got != "" {
		t.Fatalf("an empty table has lanes: %s", got)
	}
	var want []string
	for _, fresh := range []taskdb.LaneKey{
		key("b", "DD", 0), key("b", "DD", -100), key("b", "DD", 100), key("b", "DD", 1), key("b", "BB", 5), key("b", "FF", 0),
		key("d", "DD", 0), key("d", "BB", 7), key("f", "FF", 0), key("b", "FF", -1),
	} {
		for _, other := range []string{"AA", "CC", "EE", "GG"} { // types that no node works
			b.Exec(`DELETE FROM tasktable.scheduled_tasks WHERE id = $1`, fresh.Queue+other+"0")
			insert(fresh.Queue, other, 0)
		}
		insert(fresh.Queue, fresh.Type, fresh.Priority)
		want = append(want, fmt.Sprintf("%s %s %d", fresh.Queue, fresh.Type, fresh.Priority))
		slices.Sort(want)
		if got := b.look(&l); got != strings.Join(want, "; ") {
			t.Fatalf("got %s\nwant %s", got, strings.Join(want, "; "))
		}
	}
	// A type that comes back has its marks.
	l.work(nodeOf([]string{"BB"}, "b", "d", "f"))
	if got := b.look(&l); got != "b BB 5; d BB 7" {
		t.Errorf("with one type: %s", got)
	}
	insert("d", "DD", -3)
	l.work(nodeOf([]string{"BB", "DD", "FF"}, "b", "d", "f"))
	if want = append(want, "d DD -3"); b.look(&l) != strings.Join(slices.Sorted(slices.Values(want)), "; ") {
		t.Errorf("after a type has come back: %s", b.look(&l))
	}
}

// A look begins before the mark, but steps over few claimed tasks.
func TestMarkFrom(t *testing.T) {
	t.Parallel()
	at := func(seconds int) time.Time { return enginetest.Noon.Add(time.Duration(seconds) * time.Second) }
	late := int(lateCommit / time.Second)
	for name, test := range map[string]struct {
		claims []int // a second each
		want   int
	}{
		"few tasks were claimed":            {[]int{1, 1, 1, 1}, 4 - late},
		"few tasks were claimed for long":   {make([]int, 500), 500 - late},
		"many tasks were claimed":           {slices.Repeat([]int{maxBehind / 2}, 5), 2},
		"more tasks were claimed":           {slices.Repeat([]int{maxBehind / 2}, 7), 4},
		"many tasks were claimed each time": {[]int{maxBehind, maxBehind, maxBehind}, 1},
		"many were claimed a while ago":     {append(slices.Repeat([]int{maxBehind}, 9), make([]int, 90)...), 99 - late},
	} {
		var m mark
		for i, claimed := range test.claims {
			m.move(at(i+1), claimed)
		}
		if got := m.from(); !got.Equal(at(test.want)) {
			t.Errorf("%s: the look begins at %s, want %s", name, got.Sub(at(0)), at(test.want).Sub(at(0)))
		}
	}
	m := laneMarks{probed: []*markedLane{{mark: mark{at: at(60), far: at(59)}}, {mark: mark{at: at(8), far: at(7)}}}}
	m.queueLook(taskdb.Queries{}, new(pgx.Batch), at(8), always, false)
	if first, second := m.probed[0].from(), m.probed[1].from(); !first.Equal(at(8-late)) || !second.Equal(at(7)) {
		t.Errorf("after the clock was set back, looks begin at %s and %s", first, second)
	}
}

// A task whose transaction commits late is listed by the next look, though newer tasks of its lane were claimed.
func TestLookSeesLateCommits(t *testing.T) {
	b := newBench(t)
	l := newLanes()
	l.work(nodeOf([]string{"JOB"}, "default"))
	tx := b.Begin()
	late := store.Task{ID: "late", Payload: enginetest.Job{Name: "late"}}
	b.Did(enginetest.Tasks.Schedule(t.Context(), tx, late))
	b.Schedule(store.Task{ID: "before", Payload: enginetest.Job{Name: "before"}})
	if got := b.look(&l); got != "default JOB 0" {
		t.Fatalf("the lanes are %q", got)
	}
	now := time.Now()
	b.Exec(`DELETE FROM tasktable.scheduled_tasks WHERE id = 'before'`)
	look := func() string {
		l.tasks.lanes[0].at = now.Add(9 * time.Second) // as if another task had been claimed then
		var batch pgx.Batch
		l.queue(b.Queries, &batch, now.Add(time.Hour), always)
		results := b.Pool.SendBatch(t.Context(), &batch)
		found, _, err := l.read(results, time.Now())
		b.OK(errors.Join(err, results.Close()))
		return fmt.Sprint(len(found.Tasks))
	}
	if got := look(); got != "0" {
		t.Fatalf("%s lanes before it is committed", got)
	}
	b.OK(tx.Commit(t.Context()))
	if got := look(); got != "1" {
		t.Errorf("%s lanes after it is committed", got)
	}
}

// The tasks before a mark are put behind the others, in their order, and keep the time at which they were due. A task
// that cannot be moved keeps no other from it.
func TestWalk(t *testing.T) {
	b := newBench(t)
	ids := []string{"a", "b", "refused", "c", "locked", "after"}
	for _, id := range ids {
		b.Schedule(store.Task{ID: id, Payload: enginetest.Job{Name: id}})
	}
	cron := "* * * * *"
	b.Schedule(store.Task{
		ID: "recurring", Payload: enginetest.Job{Name: "recurring"}, Recurrence: &store.Recurrence{Cron: cron},
	})
	b.Exec(`ALTER TABLE tasktable.scheduled_tasks DISABLE TRIGGER USER`)
	b.Exec(`UPDATE tasktable.scheduled_tasks SET due_at = NULL,
		next_attempt_at = '2025-01-01'::timestamptz + array_position($1, id::text) * interval '1 hour'
		WHERE id <> 'after' AND cron IS NULL`, ids)
	b.Exec(`UPDATE tasktable.scheduled_tasks SET due_at = '2024-01-01' WHERE id = 'b'`)
	b.Exec(`UPDATE tasktable.scheduled_tasks SET next_attempt_at = '2025-01-01' WHERE id = 'recurring'`)
	b.Exec(`ALTER TABLE tasktable.scheduled_tasks ENABLE TRIGGER USER`)
	b.Exec(`CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'no'
		USING ERRCODE = '22000'; END $$`)
	b.Exec(`CREATE TRIGGER refuse BEFORE UPDATE ON tasktable.scheduled_tasks FOR EACH ROW
		WHEN (OLD.id = 'refused') EXECUTE FUNCTION refuse()`)
	tx := b.Begin()
	b.Did(tx.Exec(t.Context(), `SELECT FROM tasktable.scheduled_tasks WHERE id = 'locked' FOR UPDATE`))
	moved := 0
	w := &walk{
		housekeeping: session.NewHousekeeping(b.Pool), statements: b.Queries, log: enginetest.Logger(),
		moved: func() { moved++ },
	}
	job := taskdb.LaneAt{LaneKey: key("default", "JOB", 0), At: time.Now().Add(-time.Hour)}
	other := job
	other.Type = "OTHER"
	if err := errors.Join(
		w.move(t.Context(), false, []taskdb.LaneAt{other, job}), w.move(t.Context(), true, []taskdb.LaneAt{job}),
	); err != nil || moved == 0 {
		t.Errorf("moved %d times, %v", moved, err)
	}
	const state = `SELECT string_agg(id || CASE WHEN next_attempt_at > '2026-01-01' THEN ' now' ELSE ' before' END
		|| coalesce(' due ' || to_char(due_at AT TIME ZONE 'UTC', 'YYYY-MM-DD HH24'), ''), ', ' ORDER BY next_attempt_at)
		FROM tasktable.scheduled_tasks WHERE id <> 'after'`
	var got string
	b.OK(b.Pool.QueryRow(t.Context(), state).Scan(&got))
	want := "refused before, locked before, a now due 2025-01-01 01, b now due 2024-01-01 00, c now due 2025-01-01 04"
	if plain := strings.Replace(got, ", recurring now", "", 1); plain != want || plain == got {
		t.Errorf("got %q\nwant %q", got, want)
	}
}

// The next leader looks from where the last one did.
func TestHandover(t *testing.T) {
	b := newBench(t)
	nodes := nodeOf([]string{"JOB", "OTHER"}, "default", "second")
	former := newLanes()
	former.work(nodes)
	for i := range 3 {
		b.Schedule(store.Task{ID: fmt.Sprint(i), Payload: enginetest.Job{Name: fmt.Sprint(i)}, Priority: i})
	}
	b.Schedule(store.Task{
		ID: "recurring", Payload: enginetest.Job{Name: "recurring"}, Recurrence: &store.Recurrence{Cron: "* * * * *"},
	})
	want := b.look(&former)
	now := time.Now().Add(-time.Minute)
	for range 4 { // the marks of two lanes move
		taken := []taskdb.ClaimedLane{{Grant: enginetest.Jobs(1, maxBehind),
			Tasks: make([]taskdb.ClaimedTask, maxBehind), Last: now}}
		now = now.Add(time.Millisecond)
		former.tasks.claimed(taken, now)
	}
	former.recurring.lanes[0].move(now, 1)
	text, err := json.Marshal(handover{Tasks: former.tasks.hand(), Recurring: former.recurring.hand()})
	b.OK(err)
	var handed handover
	b.OK(json.Unmarshal(text, &handed))
	next := newLanes()
	next.tasks.take(handed.Tasks)
	next.recurring.take(handed.Recurring)
	next.work(nodes)
	for i, pair := range [][2]*laneMarks{{&former.tasks, &next.tasks}, {&former.recurring, &next.recurring}} {
		if len(pair[1].lanes) != len(pair[0].lanes) {
			t.Fatalf("%d: %d lanes were handed on", i, len(pair[1].lanes))
		}
		for j, had := range pair[0].lanes {
			took := pair[1].lanes[j]
			if took.LaneKey != had.LaneKey || !took.at.Equal(had.at) || !took.from().Equal(had.from()) {
				t.Errorf("%d: the next leader looks at %v from %s, the last one from %s", i, took.LaneKey, took.from(), had.from())
			}
		}
	}
	if got := b.look(&next); got != want || got == "" {
		t.Errorf("the next leader lists %q, the last one listed %q", got, want)
	}
	many := laneMarks{}
	for i := range 2 * maxHanded {
		many.lanes = append(many.lanes, &markedLane{mark: mark{at: now.Add(time.Duration(i))}})
	}
	if got := many.hand(); len(got) != maxHanded || !got[0].At.Equal(now.Add(2*maxHanded-1)) {
		t.Errorf("%d lanes are handed on, the first with %s", len(got), got[0].At.Sub(now))
	}
}

// Thirty thousand queues and types without tasks cost no more than the queues. Neither do lanes that no node works.
func TestReachOfManyPairs(t *testing.T) {
	t.Parallel()
	var kinds, queues []string
	for i := range 30 {
		kinds = append(kinds, fmt.Sprintf("TYPE_%02d", i))
	}
	for i := range 1000 {
		queues = append(queues, fmt.Sprintf("queue%03d", i))
	}
	b := benchOf(t)
	l := newLanes()
	l.work(nodeOf(kinds, queues...))
	b.Schedule(store.Task{ID: "one", Payload: store.JSON(`{"type":"TYPE_10"}`), Queue: "queue500"})
	for i := range 50 {
		b.Schedule(store.Task{
			ID:      fmt.Sprint("no node works it ", i),
			Payload: store.JSON(fmt.Sprintf(`{"type":"TYPE_100_%d"}`, i)), Queue: "queue500",
		})
	}
	for range 2 {
		if got := b.look(&l); got != "queue500 TYPE_10 0" {
			t.Errorf("the lanes are %q", got)
		}
	}
	if known, gaps := len(l.tasks.probed), len(l.tasks.gaps); len(l.tasks.lanes) != 51 || known != 1 || gaps != 1003 {
		t.Errorf("a look reads %d of %d lanes, and %d gaps", known, len(l.tasks.lanes), gaps)
	}
}

// While there may be lanes that the look has not listed, a look says so, and lists the rest later.
func TestLookListsManyLanesInTurn(t *testing.T) {
	b := newBench(t)
	const lanes = maxFound + maxFound/2
	b.Exec(`ALTER TABLE tasktable.scheduled_tasks DISABLE TRIGGER USER`)
	b.Exec(`INSERT INTO tasktable.scheduled_tasks (id, payload, type, queue, revision, next_attempt_at)
		SELECT 'task ' || i, jsonb_build_object('type', 'TYPE_' || i), 'TYPE_' || i, 'default', i, clock_timestamp()
		FROM generate_series(1, $1::int) AS i`, lanes)
	var kinds []string
	for i := range lanes {
		kinds = append(kinds, fmt.Sprint("TYPE_", i+1))
	}
	slices.Sort(kinds)
	l := newLanes()
	l.work(nodeOf(kinds, "default"))
	for _, want := range []struct {
		lanes int
		more  bool
	}{{maxFound, true}, {lanes, false}} {
		var batch pgx.Batch
		l.queue(b.Queries, &batch, time.Now(), always)
		results := b.Pool.SendBatch(t.Context(), &batch)
		found, more, err := l.read(results, time.Now())
		if err := errors.Join(err, results.Close()); err != nil || more != want.more || len(found.Tasks) != want.lanes {
			t.Fatalf("%d lanes, more: %t, %v; want %d", len(found.Tasks), more, err, want.lanes)
		}
	}
}
