package inspect

import (
	"context"

	"github.com/tasktable/tasktable/store"
)

// TaskCountsUpTo is TaskCounts of a table that is large when it has more than so many pages.
func TaskCountsUpTo(ctx context.Context, i *Inspector, db store.DB, pages int64) (TaskCounts, error) {
	return i.taskCounts(ctx, db, "", false, pages)
}

// Statements whose plans are tested.
const (
	LateSQL         = lateSQL
	LaneCountsSQL   = laneCountsSQL
	LaneRunningSQL  = laneRunningSQL
	OldestDueSQL    = oldestDueSQL
	ComingFiresSQL  = comingFiresSQL
	ComingTasksSQL  = comingTasksSQL
	RunningTasksSQL = runningTasksSQL
	TroubleSQL      = troubleSQL
	ClaimBoundSQL   = claimBoundSQL
	TypeStatsSQL    = typeStatsSQL
	NewestStatsSQL  = newestStatsSQL
)
