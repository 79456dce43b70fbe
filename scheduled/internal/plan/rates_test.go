package plan

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/tasktable/tasktable/scheduled/internal/taskdb"
)

func TestFits(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		took  time.Duration // negative: not measured
		bytes int
		want  int
	}{
		{-1, 0, 1},
		{-1, 10, 1},
		{0, 0, 250},
		{time.Millisecond, 0, 250},
		{10 * time.Millisecond, 100, 25},
		{time.Hour, 100, 1},
		{time.Microsecond, 4 << 10, 250},
		{time.Microsecond, 8 << 10, 128}, // a megabyte
		{time.Microsecond, 256 << 10, 4},
		{time.Microsecond, 2 << 20, 1},
	} {
		known := Rates{Took: map[string]time.Duration{"JOB": test.took}, Bytes: map[string]int{"JOB": test.bytes}}
		if test.took < 0 {
			delete(known.Took, "JOB")
		}
		if got := known.fits("JOB"); got != test.want {
			t.Errorf("%s, %d bytes: %d, want %d", test.took, test.bytes, got, test.want)
		}
	}
}

func TestPayloadSizesAreLearned(t *testing.T) {
	t.Parallel()
	known := Rates{Bytes: map[string]int{}}
	of := func(kind string, bytes, n int) taskdb.ClaimedLane {
		return taskdb.ClaimedLane{Grant: taskdb.Grant{Lane: taskdb.Lane{Type: kind}},
			Tasks: slices.Repeat([]taskdb.ClaimedTask{{Bytes: bytes}}, n)}
	}
	known.Learn([]taskdb.ClaimedLane{of("A", 200000, 1), of("B", 100, 1)})
	if known.Bytes["A"] != 200000 || known.Bytes["B"] != 100 {
		t.Errorf("after the first: %v", known.Bytes)
	}
	known.Learn([]taskdb.ClaimedLane{of("A", 100, 200)})
	if got := known.Bytes["A"]; got < 100 || got > 200 {
		t.Errorf("after many small ones: %d", got)
	}
}

func TestMean(t *testing.T) {
	t.Parallel()
	got := Mean([]map[string]time.Duration{{"A": 10, "B": 4}, nil, {"A": 30}, {"C": 0}})
	if fmt.Sprint(got) != "map[A:20ns B:4ns C:0s]" {
		t.Errorf("%v", got)
	}
}

func TestJobSize(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		average      time.Duration
		measured     bool
		tasks, slots int
		want         int
	}{
		{time.Millisecond, false, 1000, 10, 1}, // not measured yet
		{time.Millisecond, true, 10, 10, 1},    // light load: all slots beat few jobs
		{time.Millisecond, true, 11, 10, 2},
		{time.Millisecond, true, 1000, 10, 100},
		{time.Millisecond, true, 100000, 10, 250}, // as many as run in 250 ms
		{10 * time.Millisecond, true, 1000, 10, 25},
		{200 * time.Millisecond, true, 1000, 10, 1},
		{time.Hour, true, 1000, 10, 1},
		{0, true, 1000, 10, 100},
		{0, true, 1000000, 10, 250},
		{1, true, 1000000, 10, 250},
		{time.Millisecond, true, 3, 0, 3}, // a lane that was not looked at: edited while it was claimed
	} {
		t.Run(fmt.Sprint(test), func(t *testing.T) {
			defer func() {
				if value := recover(); value != nil {
					t.Errorf("panics: %v", value)
				}
			}()
			known := Rates{}
			if test.measured {
				known.Took = map[string]time.Duration{"JOB": test.average}
			}
			grant := taskdb.Grant{Fits: known.fits("JOB"), Slots: test.slots}
			if got := grant.JobSize(test.tasks); got != test.want {
				t.Errorf("%d, want %d", got, test.want)
			}
		})
	}
}
