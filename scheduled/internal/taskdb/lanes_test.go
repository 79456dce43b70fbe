package taskdb_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

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
