package leader

import "github.com/tasktable/tasktable/scheduled/internal/taskdb"

// inOrder takes the room away from lanes that come after a lane with due tasks that do not fit. The tasks of the
// later lanes are quicker and would fit, but they would overtake more urgent tasks again and again while the pool is
// nearly full. budgets are in the order of their priorities.
func inOrder(budgets []taskdb.LaneQuota) []taskdb.LaneQuota {
	full := map[int]int{} // by pool: the priority of the first lane that does not fit
	for i := range budgets {
		b := &budgets[i]
		priority, waits := full[b.Pool]
		switch {
		case waits && b.Priority < priority:
			b.Room, b.Near = 0, 0
		case !waits && b.DueIn <= 0 && b.Room < b.Cost:
			full[b.Pool] = b.Priority
		}
	}
	return budgets
}
