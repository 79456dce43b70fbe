package leader

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tasktable/tasktable/scheduled/internal/enginetest"
	"github.com/tasktable/tasktable/scheduled/internal/taskdb"
	"github.com/tasktable/tasktable/store"
)

// nodeOf works these types of each of the queues.
func nodeOf(kinds []string, queues ...string) []taskdb.LiveNode {
	node := taskdb.LiveNode{Number: 1, Queues: map[string]int{}, Types: kinds}
	for _, queue := range queues {
		node.Queues[queue] = 1
	}
	return []taskdb.LiveNode{node}
}

// look lists the lanes as a leader does: by a survey of what is owed, and then by a look.
func (b *bench) look(l *Lanes) string {
	b.T.Helper()
	send := func(queue func(*pgx.Batch), read func(pgx.BatchResults) error) {
		b.T.Helper()
		var batch pgx.Batch
		queue(&batch)
		results := b.Pool.SendBatch(b.T.Context(), &batch)
		if err := errors.Join(read(results), results.Close()); err != nil {
			b.T.Fatal(err)
		}
	}
	if l.owes() {
		var made *survey
		send(func(batch *pgx.Batch) { made = l.queueSurvey(b.Queries, batch) },
			func(results pgx.BatchResults) error { return made.read(results) })
		l.learn(made)
	}
	var listed []string
	send(func(batch *pgx.Batch) { l.Queue(b.Queries, batch) }, func(results pgx.BatchResults) error {
		found, _, err := l.read(results)
		for _, one := range slices.Concat(found.Tasks, found.Recurring) {
			listed = append(listed, fmt.Sprintf("%s %s %d", one.Queue, one.Type, one.Priority))
		}
		return err
	})
	slices.Sort(listed)
	return strings.Join(listed, "; ")
}

// A lane of a worked queue and type is found wherever its priority lies, also if it comes after others. Lanes that no
// node works are not listed, and are not looked at again.
func TestLookFindsLanes(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	insert := func(queue, kind string, priority int) {
		b.Schedule(store.Task{
			ID: fmt.Sprint(queue, kind, priority), Payload: store.JSON(`{"type":"` + kind + `"}`), Queue: queue, Priority: priority,
		})
	}
	l := newLanes()
	l.Work(nodeOf([]string{"BB", "DD", "FF"}, "b", "d", "f"))
	if got := b.look(&l); got != "" {
		t.Fatalf("an empty table has lanes: %s", got)
	}
	var want []string
	for _, fresh := range []laneKey{
		{"b", "DD", 0}, {"b", "DD", -100}, {"b", "DD", 100}, {"b", "DD", 1}, {"b", "BB", 5}, {"b", "FF", 0},
		{"d", "DD", 0}, {"d", "BB", 7}, {"f", "FF", 0}, {"b", "FF", -1},
	} {
		for _, other := range []string{"AA", "CC", "EE", "GG"} { // types that no node works
			b.Exec(`DELETE FROM tasktable.scheduled_tasks WHERE id = $1`, fresh.queue+other+"0")
			insert(fresh.queue, other, 0)
		}
		insert(fresh.queue, fresh.kind, fresh.priority)
		want = append(want, fmt.Sprintf("%s %s %d", fresh.queue, fresh.kind, fresh.priority))
		slices.Sort(want)
		if got := b.look(&l); got != strings.Join(want, "; ") {
			t.Fatalf("got %s\nwant %s", got, strings.Join(want, "; "))
		}
	}
	if others := len(l.tasks.others); others == 0 || others > 6 {
		t.Errorf("%d parts lie between lanes that no node works", others)
	}
	// A type that comes back has what it had.
	l.Work(nodeOf([]string{"BB"}, "b", "d", "f"))
	if got := b.look(&l); got != "b BB 5; d BB 7" {
		t.Errorf("with one type: %s", got)
	}
	insert("d", "DD", -3)
	l.Work(nodeOf([]string{"BB", "DD", "FF"}, "b", "d", "f"))
	if want = append(want, "d DD -3"); b.look(&l) != strings.Join(slices.Sorted(slices.Values(want)), "; ") {
		t.Errorf("after a type has come back: %s", b.look(&l))
	}
}

// A look begins at the mark, or before it at the oldest transaction that writes, but steps over few claimed tasks.
func TestMarkFrom(t *testing.T) {
	t.Parallel()
	at := func(seconds int) time.Time { return enginetest.Noon.Add(time.Duration(seconds) * time.Second) }
	for name, test := range map[string]struct {
		claims  []int // a second each
		settled int
		want    int
	}{
		"no transaction writes":            {[]int{1, 1, 1}, 5, 3},
		"one has begun a while ago":        {[]int{1, 1, 1, 1}, 2, 2},
		"one has begun long before":        {[]int{1, 1, 1, 1}, -9, 0},
		"many tasks were claimed since":    {[]int{maxBehind, maxBehind / 2, maxBehind / 2}, 0, 1},
		"many tasks were claimed at once":  {[]int{maxBehind + 1}, 0, 1},
		"few tasks were claimed for long":  {make([]int, 500), 100, 100},
		"more were claimed than are known": {slices.Repeat([]int{minPassed}, 100), 0, 90},
	} {
		m := &mark{at: at(0)}
		for i, claimed := range test.claims {
			m.move(at(i+1), claimed)
		}
		if got := m.from(at(test.settled)); !got.Equal(at(test.want)) {
			t.Errorf("%s: the look begins at %s, want %s", name, got.Sub(at(0)), at(test.want).Sub(at(0)))
		}
		if len(m.passed) > 2*maxBehind/minPassed {
			t.Errorf("%s: %d parts", name, len(m.passed))
		}
	}
}

func TestWriters(t *testing.T) {
	t.Parallel()
	var w writers
	for i, step := range []struct {
		second       int
		oldest, next int64
		settled      int // a second later than told, by writingSince
	}{
		{10, 7, 9, -1}, // what began before is unknown
		{11, 7, 12, -1},
		{12, 9, 15, 10},
		{13, 11, 15, 10}, // 11 began after the second 10
		{14, 15, 15, 14},
		{90, 15, 20, 14},
		{20, 20, 20, 20}, // the clock was set back
	} {
		w.note(enginetest.Noon.Add(time.Duration(step.second)*time.Second), step.oldest, step.next)
		want := enginetest.Noon.Add(time.Duration(step.settled) * time.Second).Add(-writingSince)
		if step.settled < 0 {
			want = time.Time{}
		}
		if !w.settled.Equal(want) {
			t.Errorf("step %d: settled %s, want %s", i, w.settled, want)
		}
	}
	for i := range int64(3 * maxWriters) {
		w.note(enginetest.Noon.Add(time.Hour+time.Duration(i)*time.Second), 20, 21+i)
	}
	if len(w.seen) > maxWriters {
		t.Errorf("%d times are known", len(w.seen))
	}
}

// A task whose transaction commits late is listed by the next look, in a lane from which others were claimed, and in a
// lane that had none.
func TestLookSeesLateCommits(t *testing.T) {
	t.Parallel()
	for _, known := range []bool{true, false} {
		t.Run(fmt.Sprint(known), func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			l := newLanes()
			l.Work(nodeOf([]string{"JOB"}, "default"))
			if known {
				b.Schedule(store.Task{ID: "before", Payload: enginetest.Job{Name: "before"}})
			}
			b.look(&l)
			tx, err := b.Pool.Begin(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = tx.Rollback(context.Background()) }()
			if _, err := enginetest.Tasks.Schedule(t.Context(), tx, store.Task{ID: "late", Payload: enginetest.Job{Name: "late"}}); err != nil {
				t.Fatal(err)
			}
			b.Exec(`DELETE FROM tasktable.scheduled_tasks WHERE id = 'before'`)
			for l.tasks.covered.Before(l.writers.settled.Add(3 * writingSince)) { // the marks move on
				if got := b.look(&l); got != "" {
					t.Fatalf("before it is committed: %s", got)
				}
				l.writers.settled = l.writers.settled.Add(-time.Millisecond)
				if time.Since(l.tasks.covered) > time.Minute {
					t.Fatal("the marks do not move")
				}
			}
			if err := tx.Commit(t.Context()); err != nil {
				t.Fatal(err)
			}
			if got := b.look(&l); got != "default JOB 0" {
				t.Errorf("after it is committed: %q", got)
			}
		})
	}
}

// What lies before a mark is put behind the other tasks, in its order, and keeps the time at which it was due. A task
// that cannot be moved keeps no other from it.
func TestWalk(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	ids := []string{"a", "b", "refused", "c", "locked", "after"}
	for _, id := range ids {
		b.Schedule(store.Task{ID: id, Payload: enginetest.Job{Name: id}})
	}
	cron := "* * * * *"
	b.Schedule(store.Task{ID: "recurring", Payload: enginetest.Job{Name: "recurring"}, Recurrence: &store.Recurrence{Cron: cron}})
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
	tx, err := b.Pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tx.Rollback(context.Background()) }()
	if _, err := tx.Exec(t.Context(), `SELECT FROM tasktable.scheduled_tasks WHERE id = 'locked' FOR UPDATE`); err != nil {
		t.Fatal(err)
	}
	moved := 0
	w := &walk{pool: b.Pool, statements: b.Queries, log: enginetest.Logger(), moved: func() { moved++ }, statementsLeft: maxStatements}
	until := time.Now().Add(-time.Hour)
	job := taskdb.LaneRange{LaneFrom: taskdb.LaneFrom{Queue: "default", Type: "JOB", Since: beginning}, Until: until}
	other := job
	other.Type = "OTHER"
	if err := errors.Join(
		w.move(t.Context(), false, []taskdb.LaneRange{other, job}), w.move(t.Context(), true, []taskdb.LaneRange{job}),
	); err != nil || moved == 0 {
		t.Errorf("moved %d times, %v", moved, err)
	}
	const state = `SELECT string_agg(id || CASE WHEN next_attempt_at > '2026-01-01' THEN ' now' ELSE ' before' END
		|| coalesce(' due ' || to_char(due_at AT TIME ZONE 'UTC', 'YYYY-MM-DD HH24'), ''), ', ' ORDER BY next_attempt_at)
		FROM tasktable.scheduled_tasks WHERE id <> 'after'`
	var got string
	if err := b.Pool.QueryRow(t.Context(), state).Scan(&got); err != nil {
		t.Fatal(err)
	}
	// The halves of a range are moved from its end on, so that equal ones are in their order only within a part.
	parts := strings.Split(got, ", ")
	slices.Sort(parts)
	want := []string{
		"a now due 2025-01-01 01", "b now due 2024-01-01 00", "c now due 2025-01-01 04", "locked before",
		"recurring now", "refused before",
	}
	if !slices.Equal(parts, want) {
		t.Errorf("got %q\nwant %q", parts, want)
	}
}

// The next leader looks from where the last one did.
func TestHandover(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	nodes := nodeOf([]string{"JOB", "OTHER"}, "default", "second")
	former := newLanes()
	former.Work(nodes)
	for i := range 3 {
		b.Schedule(store.Task{ID: fmt.Sprint(i), Payload: enginetest.Job{Name: fmt.Sprint(i)}, Priority: i})
	}
	b.Schedule(store.Task{
		ID: "recurring", Payload: enginetest.Job{Name: "recurring"}, Recurrence: &store.Recurrence{Cron: "* * * * *"},
	})
	want := b.look(&former)
	settled := former.writers.settled
	text, err := json.Marshal(handover{Tasks: former.tasks.hand(settled), Recurring: former.recurring.hand(settled)})
	if err != nil {
		t.Fatal(err)
	}
	var handed handover
	if err := json.Unmarshal(text, &handed); err != nil {
		t.Fatal(err)
	}
	next := newLanes()
	next.tasks.take(handed.Tasks)
	next.recurring.take(handed.Recurring)
	next.Work(nodes)
	// It looks at no known lane from its beginning, not even for the survey.
	for i, m := range []*Marks{&next.tasks, &next.recurring} {
		for _, gap := range m.reach(time.Time{}, true).Gaps {
			if gap.Type == "JOB" && gap.Queue == "default" {
				t.Errorf("%d: the survey reads %+v", i, gap)
			}
		}
	}
	if got := b.look(&next); got != want || got == "" {
		t.Errorf("the next leader lists %q, the last one listed %q", got, want)
	}
	for pair, marks := range former.tasks.lanes {
		for priority, one := range marks {
			if took := next.tasks.lanes[pair][priority]; took == nil || took.at.Before(one.at.Add(-time.Minute)) {
				t.Errorf("%v %d: the mark %v was not handed on", pair, priority, one.at)
			}
		}
	}
	if !reflect.DeepEqual(former.tasks.worked, next.tasks.worked) {
		t.Error("they work other lanes")
	}
}

// Thirty thousand queues and types without tasks cost no more than the queues.
func TestReachOfManyPairs(t *testing.T) {
	t.Parallel()
	var kinds, queues []string
	for i := range 30 {
		kinds = append(kinds, fmt.Sprintf("TYPE_%02d", i))
	}
	for i := range 1000 {
		queues = append(queues, fmt.Sprintf("queue%03d", i))
	}
	b := newBench(t)
	l := newLanes()
	l.Work(nodeOf(kinds, queues...))
	b.Schedule(store.Task{ID: "one", Payload: store.JSON(`{"type":"TYPE_10"}`), Queue: "queue500"})
	if got := b.look(&l); got != "queue500 TYPE_10 0" {
		t.Errorf("the lanes are %q", got)
	}
	reach := l.tasks.reach(l.writers.settled, false)
	if len(reach.Known) != 1 || len(reach.Around) != 2 || len(reach.Gaps) != 1001 {
		t.Errorf("a look reads %d lanes, %d parts around them and %d gaps", len(reach.Known), len(reach.Around), len(reach.Gaps))
	}
}
