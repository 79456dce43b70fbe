package leader

import (
	"fmt"
	"slices"
	"testing"

	"github.com/tasktable/tasktable/scheduled/internal/plan"
	"github.com/tasktable/tasktable/scheduled/internal/taskdb"
)

// A line of the log names at most twenty tasks, and none that had expired.
func TestClaimedIDs(t *testing.T) {
	t.Parallel()
	fence := int64(7)
	var taken claimedIDs
	var want []string
	for i := range 3 * maxLoggedIDs {
		task := taskdb.ClaimedTask{ID: fmt.Sprint(i)}
		if i%2 == 1 {
			task.Fence = &fence
			want = append(want, task.ID)
		}
		taken = append(taken, task)
	}
	if got := taken.LogValue().Any().([]string); !slices.Equal(got, want[:20]) {
		t.Errorf("ids %q", got)
	}
	if got := claimedIDs(nil).LogValue().Any().([]string); len(got) != 0 {
		t.Errorf("of no task: %q", got)
	}
}

func TestBatchesOf(t *testing.T) {
	t.Parallel()
	fence := int64(1)
	of := func(sizes ...int) (found []*taskdb.ClaimedTask) {
		for i, size := range sizes {
			found = append(found, &taskdb.ClaimedTask{ID: fmt.Sprint(i), Fence: &fence, Bytes: size})
		}
		return found
	}
	for _, test := range []struct {
		taken []*taskdb.ClaimedTask
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
		for _, holds := range batchesOf(test.taken, test.size, plan.MaxBatchBytes) {
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
