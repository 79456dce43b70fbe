package community_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tasktable/tasktable/handlers/community"
	"github.com/tasktable/tasktable/scheduled/scheduledtest"
	"github.com/tasktable/tasktable/store"
)

// scene is a world in one transaction, which is rolled back, without tasks: recurring tasks are run in
// it at chosen times.
type scene struct {
	*world
	tx      pgx.Tx
	harness *scheduledtest.Harness
	runs    int
}

func newScene(t *testing.T) *scene {
	t.Helper()
	w := newWorld(t)
	tx, err := w.pool.Begin(w.ctx)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = tx.Rollback(w.ctx) })
	s := &scene{world: w, tx: tx, harness: scheduledtest.New(t, tx, w.registry)}
	s.exec("DELETE FROM tasktable.scheduled_tasks")
	return s
}

func (s *scene) exec(sql string, args ...any) {
	s.t.Helper()
	if _, err := s.tx.Exec(s.ctx, sql, args...); err != nil {
		s.t.Fatalf("%s: %v", sql, err)
	}
}

func (s *scene) mustList(sql string, want ...string) {
	s.t.Helper()
	if got := texts(s.t, s.tx, sql); !slices.Equal(got, want) {
		s.t.Errorf("%s\ngot  %q\nwant %q", sql, got, want)
	}
}

// content is all that the community's tables hold, by table.
func (s *scene) content() map[string]string {
	s.t.Helper()
	content := map[string]string{}
	for _, table := range texts(s.t, s.tx, "SELECT tablename::text FROM pg_tables WHERE schemaname = 'community'") {
		content[table] = texts(s.t, s.tx, `SELECT coalesce(md5(string_agg(t::text, chr(10) ORDER BY t::text)), '')
			FROM community.`+table+` AS t`)[0]
	}
	return content
}

// ran runs a payload at a time, and again each second after it as often as it asks, and returns the result of each run.
func (s *scene) ran(payload store.Payload, at time.Time) (results []community.Swept) {
	s.t.Helper()
	s.runs++
	id := fmt.Sprintf("run-%d", s.runs)
	if _, err := s.tasks.Schedule(s.ctx, s.tx, store.Task{ID: id, Payload: payload, At: at}); err != nil {
		s.t.Fatal(err)
	}
	var row store.Row
	for status := store.StatusQueued; status == store.StatusQueued; at = at.Add(time.Second) {
		ran := s.harness.RunDueAt(s.ctx, at)
		if len(ran) != 1 || ran[0].ID != id || ran[0].Outcome != "COMPLETED" {
			s.t.Fatalf("ran %+v", ran)
		}
		results = append(results, nil)
		var err error
		if row, err = s.tasks.Get(s.ctx, s.tx, id); err != nil {
			s.t.Fatal(err)
		}
		status = row.Status
	}
	// Of the last run: the row keeps no other.
	if err := json.Unmarshal(row.Result, &results[len(results)-1]); err != nil {
		s.t.Fatal(err)
	}
	return results
}

// sweeps expects a run to change so many rows, in these tables and in no others, and a second one at the same
// time to change none.
func (s *scene) sweeps(payload store.Payload, at time.Time, want community.Swept) {
	s.t.Helper()
	before := s.content()
	results := s.ran(payload, at)
	got := maps.Clone(results[0])
	maps.DeleteFunc(got, func(_ string, rows int64) bool { return rows == 0 })
	if len(results) != 1 || !maps.Equal(got, want) {
		s.t.Errorf("%s at %s: %v in %d run(s), want %v", payload.TaskType(), at, got, len(results), want)
	}
	after := s.content()
	for table := range after {
		if touched := before[table] != after[table]; touched != (want[table] > 0) {
			s.t.Errorf("%s at %s: it has changed %s: %v, want %v", payload.TaskType(), at, table, touched, !touched)
		}
	}
	for table, rows := range s.ran(payload, at)[0] {
		if rows != 0 {
			s.t.Errorf("%s at %s: a second run has changed %d rows of %s", payload.TaskType(), at, rows, table)
		}
	}
	if again := s.content(); !maps.Equal(again, after) {
		s.t.Errorf("%s at %s: a second run has changed something", payload.TaskType(), at)
	}
}

func noon(t testing.TB) time.Time { return clock(t, "2035-06-01T12:00:00Z") }

// schedule schedules the community's recurring tasks, from a time on.
func (s *scene) schedule(from time.Time) (declared []store.Task) {
	s.t.Helper()
	declared = community.Recurring()
	for i := range declared {
		declared[i].At = from
	}
	if _, err := s.tasks.ScheduleMany(s.ctx, s.tx, declared); err != nil {
		s.t.Fatal(err)
	}
	return declared
}

// around is an instant, the last before it and the first after it.
func around(at time.Time) (just, before, after time.Time) {
	return at, at.Add(-time.Microsecond), at.Add(time.Microsecond)
}
