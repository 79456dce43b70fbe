package leader

import (
	"fmt"
	"slices"
	"testing"

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
