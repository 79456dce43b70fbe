package scheduled

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
		known := rates{took: map[string]time.Duration{"JOB": test.took}, bytes: map[string]int{"JOB": test.bytes}}
		if test.took < 0 {
			delete(known.took, "JOB")
		}
		if got := known.fits("JOB"); got != test.want {
			t.Errorf("%s, %d bytes: %d, want %d", test.took, test.bytes, got, test.want)
		}
	}
}

func TestPayloadSizesAreLearned(t *testing.T) {
	t.Parallel()
	known := rates{bytes: map[string]int{}}
	known.claimed([]taskdb.ClaimedTask{{Type: "A", Bytes: 200000}, {Type: "B", Bytes: 100}})
	if known.bytes["A"] != 200000 || known.bytes["B"] != 100 {
		t.Errorf("after the first: %v", known.bytes)
	}
	known.claimed(slices.Repeat([]taskdb.ClaimedTask{{Type: "A", Bytes: 100}}, 200))
	if got := known.bytes["A"]; got < 100 || got > 200 {
		t.Errorf("after many small ones: %d", got)
	}
}

func TestBatchesOf(t *testing.T) {
	t.Parallel()
	fence := int64(1)
	of := func(sizes ...int) (found []taskdb.ClaimedTask) {
		for i, size := range sizes {
			found = append(found, taskdb.ClaimedTask{ID: fmt.Sprint(i), Fence: &fence, Bytes: size})
		}
		return found
	}
	for _, test := range []struct {
		taken []taskdb.ClaimedTask
		size  int
		want  string
	}{
		{nil, 3, "[]"},
		{of(1, 1, 1, 1, 1, 1, 1), 3, "[3 3 1]"},
		{of(1, 1), 250, "[2]"},
		{of(600<<10, 600<<10, 100<<10, 1), 250, "[1 3]"},
		{of(2<<20, 2<<20, 1), 250, "[1 1 1]"},
		{of(512<<10, 512<<10, 512<<10), 250, "[2 1]"},
	} {
		sizes := []int{}
		next := 0
		for _, holds := range batchesOf(test.taken, test.size) {
			sizes = append(sizes, len(holds))
			for _, h := range holds {
				if h.ID != fmt.Sprint(next) {
					t.Errorf("task %s, want %d: the order is lost", h.ID, next)
				}
				next++
			}
		}
		if fmt.Sprint(sizes) != test.want || next != len(test.taken) {
			t.Errorf("%d tasks by %d: %v, want %s", len(test.taken), test.size, sizes, test.want)
		}
	}
}

func TestMeanOf(t *testing.T) {
	t.Parallel()
	got := meanOf([]map[string]time.Duration{{"A": 10, "B": 4}, nil, {"A": 30}, {"C": 0}})
	if fmt.Sprint(got) != "map[A:20ns B:4ns C:0s]" {
		t.Errorf("%v", got)
	}
}

func TestDiffer(t *testing.T) {
	t.Parallel()
	of := func(took time.Duration) map[string]time.Duration { return map[string]time.Duration{"JOB": took} }
	for _, test := range []struct {
		before, now map[string]time.Duration
		want        bool
	}{
		{nil, nil, false},
		{nil, of(0), true},
		{of(0), of(time.Millisecond), false},
		{of(time.Millisecond), of(1250 * time.Microsecond), true},
		{of(time.Second), of(1200 * time.Millisecond), false},
		{of(time.Second), of(700 * time.Millisecond), true},
		{of(time.Second), nil, false},
	} {
		if got := differ(test.before, test.now); got != test.want {
			t.Errorf("%v, then %v: %t", test.before, test.now, got)
		}
	}
}

func TestAveragesAreWrittenAndRead(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		encodeAverages(map[string]time.Duration{
			"A": 1500 * time.Microsecond, `"B"`: time.Hour,
		}): `map["B":1h0m0s A:1.5ms]`,
		encodeAverages(nil): "map[]", "[]": "map[]", `{"A": "x"}`: "map[]", "": "map[]",
		`{"A": -5, "B": 9223372036854775807}`: "map[A:0s B:8760h0m0s]",
	} {
		if got := fmt.Sprint(taskdb.DecodeAverages(text)); got != want {
			t.Errorf("%s is read as %s, want %s", text, got, want)
		}
	}
}
