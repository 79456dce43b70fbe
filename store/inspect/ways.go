package inspect

import (
	"cmp"
	"slices"
	"strings"

	"github.com/tasktable/tasktable/store"
	"github.com/tasktable/tasktable/store/internal/check"
)

// A way is how a list finds its tasks. A walk reads an index in the order of the list until the page is full, which is
// quick if many tasks match. A sort reads all tasks that have one field, and sorts them, which is quick if few tasks
// have it. Each way has a statement of its own, so that Postgres has no choice that it could make badly.
type way string

// The walks.
const (
	walkScheduled way = "all tasks, by scheduled_at"
	walkTenant    way = "the tasks of a tenant, by scheduled_at"
	walkFinished  way = "the tasks that have ended, by finished_at"
	walkRare      way = "the tasks of rare final statuses, by finished_at"
	walkID        way = "all tasks, by id"
)

// The sorts.
const (
	sortEntity   way = "the tasks of an entity"
	sortSpawned  way = "the follow-ups of a task"
	sortParent   way = "the occurrences of a recurring task"
	sortStatuses way = "the tasks of rare statuses"
	sortPrefix   way = "the tasks whose ids begin alike"
	sortFinished way = "the tasks that ended within a time"
	sortTenant   way = "the tasks of a tenant"
	sortGroup    way = "the tasks of a group"
	sortWaiting  way = "the tasks that wait for something out of order"
)

// isSort reports whether the way is a sort.
func (w way) isSort() bool {
	_, is := sorts[w]
	return is
}

const (
	// walkMost is how many tasks a walk reads at most. It takes about 100 ms.
	walkMost = 20000
	// walkMore is how many times as many tasks a walk reads next. It begins with as many as the page has, so that
	// Postgres sees how little it needs, and does not read and sort a whole range.
	walkMore = 20
	// sortMost is how many tasks a sort has at most. A larger one is not read.
	sortMost = 40000
)

// rareStatuses are the statuses of which most tables have few tasks. QUEUED tasks have walks of their own.
func rareStatuses() []store.Status {
	return append([]store.Status{store.StatusExecuting, store.StatusPaused}, endedRarely()...)
}

// endedRarely are the final statuses but COMPLETED. The index scheduled_tasks_rare has their tasks.
func endedRarely() []store.Status {
	return []store.Status{store.StatusFailed, store.StatusExpired, store.StatusCancelled, store.StatusSkipped}
}

// among reports whether the filter selects only tasks of these statuses.
func (f Filter) among(statuses []store.Status) bool {
	return len(f.Statuses) > 0 &&
		!slices.ContainsFunc(f.Statuses, func(s store.Status) bool { return !slices.Contains(statuses, s) })
}

// narrowed adds the statuses that the other fields of the filter imply. nothing tells that no task can match.
func (f Filter) narrowed() (narrowed Filter, nothing bool) {
	implied := store.Statuses()
	keep := func(statuses ...store.Status) {
		implied = slices.DeleteFunc(implied, func(s store.Status) bool { return !slices.Contains(statuses, s) })
	}
	if f.Archived != nil && *f.Archived {
		keep(deadStatuses()...)
	}
	if f.Waiting {
		keep(store.StatusQueued)
	}
	if f.Order == ByFinished || !f.FinishedFrom.IsZero() || !f.FinishedTo.IsZero() {
		keep(append(endedRarely(), store.StatusCompleted)...)
	}
	if len(f.Statuses) > 0 {
		keep(f.Statuses...)
	}
	if len(implied) < len(store.Statuses()) {
		f.Statuses = implied
	}
	return f, len(implied) == 0
}

// sorts returns the sorts that have all tasks that the filter selects, the one that is likely the smallest first.
func (f Filter) sorts() (found []way) {
	walk := f.walk()
	for _, one := range []struct {
		sort way
		has  bool
	}{
		{sortEntity, f.Entity != ""},
		{sortSpawned, f.SpawnedBy != ""},
		{sortParent, f.ParentID != ""},
		{sortGroup, f.GroupKey != ""},
		{sortWaiting, f.Waiting},
		{sortStatuses, f.among(rareStatuses()) && walk != walkRare},
		{sortPrefix, f.IDPrefix != "" && walk != walkID},
		{sortFinished, !f.FinishedFrom.IsZero() && f.Order != ByFinished},
		{sortTenant, f.TenantID != "" && walk != walkTenant},
	} {
		if one.has {
			found = append(found, one.sort)
		}
	}
	return found
}

// walk returns the walk in the order of the list.
func (f Filter) walk() way {
	switch {
	case f.Order == ByID:
		return walkID
	case f.Order == ByFinished && f.among(endedRarely()):
		return walkRare
	case f.Order == ByFinished:
		return walkFinished
	case f.TenantID != "" && len(f.Statuses) == 0:
		return walkTenant
	}
	return walkScheduled
}

// bounds are where a walk goes: keys of the list's order, as text. low is included, high is not.
type bounds struct{ lowAt, lowID, highAt, highID string }

// afterAllIDs comes after all ids.
var afterAllIDs = strings.Repeat("\U0010ffff", 1+check.MaxIDBytes/4)

// bounds returns the part of the order in which tasks can match: the range of the filter, without the pages before.
func (f Filter) bounds() (b bounds, err error) {
	if f.Order == ByID {
		b = bounds{lowID: f.IDPrefix, highID: afterAllIDs}
		if f.IDPrefix != "" {
			b.highID = prefixUpperBound(f.IDPrefix)
		}
	} else {
		from, to := f.ScheduledFrom, f.ScheduledTo
		if f.Order == ByFinished {
			from, to = f.FinishedFrom, f.FinishedTo
		}
		if b.lowAt, err = check.BoundText("from", from); err != nil {
			return b, err
		}
		if b.highAt, err = check.BoundText("to", to); err != nil {
			return b, err
		}
		if b.lowAt = cmp.Or(b.lowAt, "-infinity"); b.highAt == "" {
			b.highAt, b.highID = "infinity", afterAllIDs
		}
	}
	if f.After == nil {
		return b, nil
	}
	at, err := f.afterAt()
	if err != nil {
		return b, err
	}
	if f.LatestFirst {
		b.highAt, b.highID = at, f.After.ID
	} else {
		// No id lies between the two, because ids have no control characters.
		b.lowAt, b.lowID = at, f.After.ID+"\x01"
	}
	return b, nil
}

// afterAt returns the time, in the order of the list, at which the page before ended.
func (f Filter) afterAt() (string, error) {
	if err := check.Text("after", f.After.ID); err != nil {
		return "", err
	}
	switch {
	case f.Order == ByID:
		return "", nil
	case f.Order == ByScheduled:
		return check.TimeText("after", f.After.ScheduledAt)
	case f.After.FinishedAt == nil:
		return "", check.Invalid("after", "must be a task that has ended", f.After.ID)
	}
	return check.TimeText("after", *f.After.FinishedAt)
}
