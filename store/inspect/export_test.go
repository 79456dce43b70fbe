package inspect

import (
	"context"

	"github.com/tasktable/tasktable/store"
)

// TaskCountsUpTo is TaskCounts of a table that is large when it has more than so many pages.
func TaskCountsUpTo(ctx context.Context, i *Inspector, db store.DB, pages int64) (TaskCounts, error) {
	return i.taskCounts(ctx, db, "", false, pages)
}

// Limited returns an Inspector whose walks, sorts and groups are at most so large.
func Limited(i *Inspector, walkMost, sortMost int) *Inspector {
	limited := *i
	limited.walkMost, limited.sortMost, limited.groupMost = walkMost, sortMost, sortMost
	return &limited
}

// Ways returns the sorts and the walk of a filter, as text, or "nothing".
func Ways(f Filter) (text string) {
	if f.Order == "" {
		f.Order = ByScheduled
	}
	f, nothing := f.narrowed()
	if nothing {
		return "nothing"
	}
	for _, sort := range f.sorts() {
		text += string(sort) + "; "
	}
	return text + string(f.walk())
}

// SampledSeries returns an Inspector whose Series reads about so many claims at most.
func SampledSeries(i *Inspector, most int) *Inspector {
	limited := *i
	limited.seriesMost = most
	return &limited
}

// Statements whose plans are tested.
const (
	LateSQL         = lateSQL
	LimitsSQL       = limitsFindingsSQL
	DeadSQL         = deadSQL
	PausesSQL       = pausesSQL
	RecurringSQL    = recurringFindingsSQL
	LaneCountsSQL   = laneCountsSQL
	LaneRunningSQL  = laneRunningSQL
	ComingFiresSQL  = comingFiresSQL
	ComingTasksSQL  = comingTasksSQL
	RunningTasksSQL = runningTasksSQL
	TroubleSQL      = troubleSQL
	ClaimBoundSQL   = claimBoundSQL
	TypeStatsSQL    = typeStatsSQL
	NewestStatsSQL  = newestStatsSQL
)
