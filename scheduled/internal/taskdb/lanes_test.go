package taskdb_test

import (
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tasktable/tasktable/scheduled/internal/enginetest"
	"github.com/tasktable/tasktable/scheduled/internal/taskdb"
	"github.com/tasktable/tasktable/store"
)

func lanesText(lanes []taskdb.Lane) string {
	var text []string
	for _, l := range lanes {
		text = append(text, fmt.Sprintf("%s %s %d %s", l.Queue, l.Type, l.Priority, l.DueIn))
	}
	return strings.Join(text, "\n")
}

func TestLanes(t *testing.T) {
	b := newBench(t)
	list := func() string {
		t.Helper()
		lanes, err := b.Lanes(t.Context(), b.Pool, &noon)
		b.OK(err)
		return lanesText(lanes.Tasks)
	}
	if got := list(); got != "" {
		t.Errorf("an empty table has lanes: %s", got)
	}
	other := store.JSON(`{"type":"OTHER"}`)
	b.Schedule(
		store.Task{Payload: job{Name: "a"}, At: noon.Add(time.Minute)},
		store.Task{Payload: job{Name: "b"}, At: noon.Add(time.Second)},
		store.Task{Payload: job{Name: "c"}, At: noon.Add(-time.Second), Priority: 7},
		store.Task{ID: "d", Payload: other, At: noon.Add(-time.Hour)},
		store.Task{ID: "e", Payload: other, At: noon, Queue: "bulk"},
		store.Task{ID: "f", Payload: other, At: noon.AddDate(1, 0, 0), Queue: "a-year"},
		store.Task{ID: "paused", Payload: other, At: noon, Queue: "paused"},
	)
	b.Did(enginetest.Tasks.Pause(t.Context(), b.Pool, "paused"))
	want := "a-year OTHER 0 168h0m0s\nbulk OTHER 0 0s\ndefault JOB 0 1s\ndefault JOB 7 -1s\ndefault OTHER 0 -1h0m0s"
	if got := list(); got != want {
		t.Errorf("lanes\n%s\nwant\n%s", got, want)
	}
	b.Take(noon.Add(time.Second)) // b: what is held is in no lane
	if got := list(); got != strings.Replace(want, "JOB 0 1s", "JOB 0 1m0s", 1) {
		t.Errorf("lanes after the claim\n%s", got)
	}
}

// Recurring tasks have lanes of their own, without priorities.
func TestRecurringLanes(t *testing.T) {
	b := newBench(t)
	list := func() (tasks, recurring string) {
		t.Helper()
		found, err := b.Lanes(t.Context(), b.Pool, &noon)
		b.OK(err)
		for _, l := range found.Tasks {
			if l.Recurring {
				t.Errorf("%+v among the lanes of tasks", l)
			}
		}
		for _, l := range found.Recurring {
			if !l.Recurring {
				t.Errorf("%+v among the recurring lanes", l)
			}
		}
		return lanesText(found.Tasks), lanesText(found.Recurring)
	}
	if tasks, recurring := list(); tasks+recurring != "" {
		t.Errorf("an empty table has lanes: %s; %s", tasks, recurring)
	}
	for i, task := range []store.Task{
		{ID: "a", Payload: job{Name: "a"}, Priority: 5},
		{ID: "b", Payload: job{Name: "b"}, Priority: -5},
		{ID: "c", Payload: store.JSON(`{"type":"OTHER"}`)},
		{ID: "d", Payload: job{Name: "d"}, Queue: "bulk"},
		{ID: "paused", Payload: job{Name: "e"}, Queue: "paused"},
	} {
		task.At, task.Recurrence = noon, &store.Recurrence{Cron: "@hourly"}
		enginetest.Schedule(t, b.Pool, task)
		b.Exec(
			`UPDATE tasktable.scheduled_tasks SET next_attempt_at = $1 WHERE id = $2`,
			noon.Add(time.Duration(i-1)*time.Minute), task.ID,
		)
	}
	b.Did(enginetest.Tasks.Pause(t.Context(), b.Pool, "paused"))
	b.Schedule(store.Task{Payload: job{Name: "plain"}, At: noon.Add(time.Second), Priority: 5})
	tasks, recurring := list()
	if tasks != "default JOB 5 1s" {
		t.Errorf("lanes\n%s", tasks)
	}
	if want := "bulk JOB 0 2m0s\ndefault JOB 0 -1m0s\ndefault OTHER 0 1m0s"; recurring != want {
		t.Errorf("recurring lanes\n%s\nwant\n%s", recurring, want)
	}
}

// A recurring task is never claimed, whatever lanes are asked for, nor taken for the head of a lane of tasks.
func TestRecurringTasksAreNotClaimed(t *testing.T) {
	b := newBench(t)
	past := time.Now().Add(-time.Hour)
	b.Recur("recurring", "@hourly", noon, nil)
	b.Exec(`UPDATE tasktable.scheduled_tasks SET next_attempt_at = $1`, past)
	if taken := b.Take(noon.AddDate(1, 0, 0)); len(taken) != 0 {
		t.Errorf("claimed %v", taken)
	}
	b.Schedule(store.Task{Payload: job{Name: "plain"}, At: past})
	if taken := enginetest.ClaimsOf(b.ClaimFrom(noon, time.Hour, enginetest.Jobs(0, 1))); len(taken) != 1 ||
		taken[0].ID != "plain" {
		t.Errorf("claimed %v", taken)
	}
	b.Schedule(store.Task{Payload: job{Name: "another"}, At: past})
	b.InTx(func(tx pgx.Tx) {
		for _, test := range []struct {
			lane  taskdb.Lane
			aside []string
			want  string
		}{
			{enginetest.Jobs(0, 1).Lane, nil, "another"},
			{enginetest.Jobs(0, 1).Lane, []string{"another"}, ""},
		} {
			found, err := b.LockHead(t.Context(), tx, test.lane, 0, test.aside...)
			b.OK(err)
			got := ""
			if found != nil {
				got = found.ID
			}
			if got != test.want {
				t.Errorf("the head of %+v without %v is %q, want %q", test.lane, test.aside, got, test.want)
			}
		}
	})
}

// A task that somebody makes recurring while it runs is released, not claimed again; one that stops to recur is a
// task like others.
func TestMadeRecurringWhileItRuns(t *testing.T) {
	b := newBench(t)
	h := b.TakeOne(store.Task{Payload: job{Name: "a"}})
	enginetest.Schedule(t, b.Pool, store.Task{
		ID: "a", Payload: job{Name: "a"}, At: noon.Add(time.Hour),
		Recurrence: &store.Recurrence{Cron: "@hourly"}, Replace: true,
	})
	if n := b.Fires(noon.Add(3 * time.Hour)); n != 0 {
		t.Errorf("looked at %d while it is held", n)
	}
	b.End(noon.Add(90*time.Second), enginetest.Completed(h))
	b.Recurs("released", "a", `QUEUED count=0 next=1m30s unplanned`)
	if taken := b.Take(noon.Add(2 * time.Minute)); len(taken) != 0 {
		t.Errorf("claimed %v", taken)
	}
	b.Fires(noon.Add(2 * time.Minute))
	b.Recurs("planned", "a", `QUEUED count=0 next=1h0m0s`)
	enginetest.Schedule(t, b.Pool, store.Task{
		ID: "a", Payload: job{Name: "a"}, At: noon.Add(time.Hour), Replace: true,
	})
	if n := b.Fires(noon.Add(3 * time.Hour)); n != 0 {
		t.Errorf("looked at %d that do not recur", n)
	}
	if taken := b.Take(noon.Add(time.Hour)); len(taken) != 1 {
		t.Errorf("claimed %v", taken)
	}
}

func TestUnpaused(t *testing.T) {
	t.Parallel()
	lanes := []taskdb.Lane{
		{Queue: "default", Type: "A"}, {Queue: "default", Type: "B", Recurring: true},
		{Queue: "bulk", Type: "A", Priority: 3},
	}
	for _, test := range []struct {
		paused []taskdb.Pause
		want   []taskdb.Lane
	}{
		{nil, lanes},
		{
			[]taskdb.Pause{
				{Scope: "queue", Name: "other"}, {Scope: "type", Name: "default"}, {Scope: "queue", Name: "A"},
			},
			lanes,
		},
		{[]taskdb.Pause{{Scope: "queue", Name: "default"}}, lanes[2:]},
		{[]taskdb.Pause{{Scope: "type", Name: "A"}}, lanes[1:2]},
		{[]taskdb.Pause{{Scope: "type", Name: "B"}, {Scope: "queue", Name: "bulk"}}, lanes[:1]},
		{[]taskdb.Pause{{Scope: "all"}}, []taskdb.Lane{}},
	} {
		if got := taskdb.Unpaused(lanes, test.paused); !reflect.DeepEqual(got, test.want) {
			t.Errorf("without %v: %v, want %v", test.paused, got, test.want)
		}
	}
}

// The pauses that hold at a time, by the table: those that are over at it, or end in it, do not.
func TestPausesInForce(t *testing.T) {
	b := newBench(t)
	for name, ends := range map[string]*time.Time{
		"for-ever": nil, "an-hour": new(noon.Add(time.Hour)), "just-over": new(noon),
		"over": new(noon.Add(-time.Hour)),
	} {
		b.Exec(`INSERT INTO tasktable.pauses (scope, name, ends_at) VALUES ('queue', $1, $2)`, name, ends)
	}
	for _, test := range []struct {
		now   time.Time
		since *time.Time
		want  string
	}{
		{noon, nil, "map[an-hour:true for-ever:true]"},
		{noon.Add(time.Hour), nil, "map[for-ever:true]"},
		{noon.Add(time.Hour), new(noon.Add(-time.Minute)), "map[an-hour:true for-ever:true just-over:true]"},
	} {
		paused, err := b.Pauses(t.Context(), b.Pool, &test.now, test.since)
		b.OK(err)
		names := map[string]bool{}
		for _, p := range paused {
			names[p.Name] = true
		}
		if fmt.Sprint(names) != test.want {
			t.Errorf("at %s, since %v: %v, want %s", enginetest.Offset(test.now), test.since, names, test.want)
		}
	}
}
