package inspect

import (
	"context"
	"fmt"
	"time"

	"github.com/tasktable/tasktable/store"
	"github.com/tasktable/tasktable/store/internal/check"
	"github.com/tasktable/tasktable/store/internal/query"
)

// The columns of lists.
const (
	namesColumns   = ` t.id, t.type, t.status, ` + patternSQL + ` AS pattern, t.revision`
	reachedColumns = ` t.id, t.scheduled_at, t.finished_at`
)

// List returns the tasks that a filter selects, in the filter's order. It reads few tasks if many match the filter, or
// if the filter has an entity, a tenant or rare statuses. Otherwise it may read the whole table. Search never does. The
// error wraps store.ErrInvalid for a bad filter.
func (i *Inspector) List(ctx context.Context, db store.DB, filter Filter) ([]store.Row, error) {
	return listed[store.Row](ctx, i, db, "list tasks", filter, maxLimit, query.TaskColumns)
}

// Skip goes past the tasks of a page, and reads nothing of their content. It returns the Filter.After with which the
// next page begins, or nil if the list has fewer tasks than the filter's Limit.
func (i *Inspector) Skip(ctx context.Context, db store.DB, filter Filter) (after *store.Row, err error) {
	passed, err := listed[reached](ctx, i, db, "skip tasks", filter, maxLimit, reachedColumns)
	limit, _ := filter.limit(maxLimit)
	if err != nil || len(passed) < limit {
		return nil, err
	}
	return passed[len(passed)-1].place(), nil
}

// listed reads the tasks of a filter. It reads the whole table if a search is cut.
func listed[T any](
	ctx context.Context, i *Inspector, db store.DB, doing string, filter Filter, most int, columns string,
) ([]T, error) {
	s, err := newSearch(filter, most)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", doing, err)
	}
	found, cut, err := find[T](ctx, i, db, doing, s, columns)
	if err == nil && cut != nil && filter.Payload != "" {
		return nil, fmt.Errorf("%s: %w", doing, check.Invalid("payload",
			"must come with other fields that leave fewer tasks, such as an entity, a status or a time",
			fmt.Sprintf("more than %d", i.walkMost)))
	}
	if err == nil && cut != nil {
		return whole[T](ctx, i, db, doing, s, columns)
	}
	return found, err
}

// MaxNames is the greatest Limit that Names accepts.
const MaxNames = 1000000

// Name identifies a task to a person. It has no payload.
type Name struct {
	ID     string       `json:"id"`
	Type   string       `json:"type"`
	Status store.Status `json:"status"`
	// Pattern is the pattern of the message, as in a Group.
	Pattern string `json:"pattern,omitempty"`
	// Revision tells whether somebody has edited the task since.
	Revision int64 `json:"revision"`
}

// Names lists the tasks that a filter selects, without their content, so that somebody can choose among them. It reads
// as much as List does.
func (i *Inspector) Names(ctx context.Context, db store.DB, filter Filter) ([]Name, error) {
	return listed[Name](ctx, i, db, "list names", filter, MaxNames, namesColumns)
}

// Total is the number of tasks that a filter selected at a time.
type Total struct {
	Count int       `json:"count"`
	At    time.Time `json:"at"`
}

const countSQL = `
SELECT count(*) AS count, statement_timestamp() AS at FROM tasktable.scheduled_tasks AS t WHERE ` + filterSQL

// Count returns the number of tasks that a filter selects. It ignores the filter's Limit and After. It reads the
// whole table.
func (i *Inspector) Count(ctx context.Context, db store.DB, filter Filter) (Total, error) {
	args, err := filter.args()
	if err != nil {
		return Total{}, fmt.Errorf("count tasks: %w", err)
	}
	sql, bound := args.bind(countSQL)
	rows, err := query.Collect[Total](ctx, i.source, db, "count tasks", sql, bound...)
	if err != nil {
		return Total{}, err
	}
	return rows[0], nil
}
