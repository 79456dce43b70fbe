package inspect

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/tasktable/tasktable/store"
	"github.com/tasktable/tasktable/store/internal/check"
	"github.com/tasktable/tasktable/store/internal/query"
)

// These are the ends of a list's statement, one for each order. Each order is written out,
// because Postgres uses the index on id only for an ORDER BY without a CASE.
const (
	byScheduledSQL = `
    AND (@after_at = '' OR (t.scheduled_at::timestamptz, t.id::text COLLATE "C") > (@after_at::timestamptz, @after_id))
ORDER BY t.scheduled_at::timestamptz, t.id::text COLLATE "C" LIMIT @limit::int`
	latestByScheduledSQL = `
    AND (@after_at = '' OR (t.scheduled_at::timestamptz, t.id::text COLLATE "C") < (@after_at::timestamptz, @after_id))
ORDER BY t.scheduled_at::timestamptz DESC, t.id::text COLLATE "C" DESC LIMIT @limit::int`
	byFinishedSQL = `
    AND t.finished_at IS NOT NULL
    AND (@after_at = '' OR (t.finished_at, t.id::text COLLATE "C") > (@after_at::timestamptz, @after_id))
ORDER BY t.finished_at, t.id::text COLLATE "C" LIMIT @limit::int`
	latestByFinishedSQL = `
    AND t.finished_at IS NOT NULL
    AND (@after_at = '' OR (t.finished_at, t.id::text COLLATE "C") < (@after_at::timestamptz, @after_id))
ORDER BY t.finished_at DESC, t.id::text COLLATE "C" DESC LIMIT @limit::int`
	byIDSQL = `
    AND (@after_at = '' OR t.id > @after_id)
ORDER BY t.id LIMIT @limit::int`
	latestByIDSQL = `
    AND (@after_at = '' OR t.id < @after_id)
ORDER BY t.id DESC LIMIT @limit::int`
)

// orders has the statements of a list by its order. first is for the order itself, latest for the reverse.
type orders map[Order]struct{ first, latest string }

// page returns the filter's statement and its arguments.
func (f Filter) page(statements orders, maxLimit int) (sql string, args arguments, err error) {
	if f.Order == "" {
		f.Order = ByScheduled
	}
	statement, known := statements[f.Order]
	if !known {
		const rule = "must be scheduled_at, finished_at or id"
		return "", nil, check.Invalid("order", rule, fmt.Sprintf("%q", string(f.Order)))
	}
	if args, err = f.args(); err != nil {
		return "", nil, err
	}
	limit, err := f.limit(maxLimit)
	if err != nil {
		return "", nil, err
	}
	at, id, err := f.after()
	sql = statement.first
	if f.LatestFirst {
		sql = statement.latest
	}
	return sql, args.with("after_at", at, "after_id", id, "limit", strconv.Itoa(limit)), err
}

// after returns the place at which the previous page ended.
func (f Filter) after() (at, id string, err error) {
	if f.After == nil {
		return "", "", nil
	}
	id = f.After.ID
	if err := check.Text("after", id); err != nil {
		return "", "", err
	}
	switch {
	case f.Order == ByID:
		return "given", id, nil
	case f.Order == ByFinished && f.After.FinishedAt == nil:
		return "", "", check.Invalid("after", "must be a task that has ended", id)
	case f.Order == ByFinished:
		at, err = check.TimeText("after", *f.After.FinishedAt)
	default:
		at, err = check.TimeText("after", f.After.ScheduledAt)
	}
	return at, id, err
}

const listedSQL = `SELECT ` + query.TaskColumns + `
FROM tasktable.scheduled_tasks AS t WHERE ` + filterSQL

var listSQL = orders{
	ByScheduled: {listedSQL + byScheduledSQL, listedSQL + latestByScheduledSQL},
	ByFinished:  {listedSQL + byFinishedSQL, listedSQL + latestByFinishedSQL},
	ByID:        {listedSQL + byIDSQL, listedSQL + latestByIDSQL},
}

var listTexts = texts{query.TaskColumns, listSQL}

// List returns the tasks that a filter selects, in the filter's order. It reads few tasks if many match the filter, or
// if the filter has an entity, a tenant or rare statuses. Otherwise it may read the whole table. Search never does. The
// error wraps store.ErrInvalid for a bad filter.
func (i *Inspector) List(ctx context.Context, db store.DB, filter Filter) ([]store.Row, error) {
	return listed[store.Row](ctx, i, db, "list tasks", filter, maxLimit, listTexts)
}

const skippedSQL = `
SELECT` + reachedColumns + `
FROM tasktable.scheduled_tasks AS t WHERE ` + filterSQL

var skippedTexts = texts{reachedColumns, orders{
	ByScheduled: {skippedSQL + byScheduledSQL, skippedSQL + latestByScheduledSQL},
	ByFinished:  {skippedSQL + byFinishedSQL, skippedSQL + latestByFinishedSQL},
	ByID:        {skippedSQL + byIDSQL, skippedSQL + latestByIDSQL},
}}

// Skip goes past the tasks of a page, and reads nothing of their content. It returns the Filter.After with which the
// next page begins, or nil if the list has fewer tasks than the filter's Limit.
func (i *Inspector) Skip(ctx context.Context, db store.DB, filter Filter) (after *store.Row, err error) {
	passed, err := listed[reached](ctx, i, db, "skip tasks", filter, maxLimit, skippedTexts)
	limit, _ := filter.limit(maxLimit)
	if err != nil || len(passed) < limit {
		return nil, err
	}
	last := passed[len(passed)-1]
	return &store.Row{ID: last.ID, ScheduledAt: last.ScheduledAt, FinishedAt: last.FinishedAt}, nil
}

// listed reads the tasks of a filter. It reads the whole table if a search is cut.
func listed[T any](
	ctx context.Context, i *Inspector, db store.DB, doing string, filter Filter, most int, t texts,
) ([]T, error) {
	s, err := newSearch(filter, most)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", doing, err)
	}
	found, cut, err := find[T](ctx, i, db, doing, s, t)
	if err == nil && cut != nil && filter.Payload != "" {
		return nil, fmt.Errorf("%s: %w", doing, check.Invalid("payload",
			"must come with other fields that leave fewer tasks, such as an entity, a status or a time",
			fmt.Sprintf("more than %d", i.walkMost)))
	}
	if err == nil && cut != nil {
		return whole[T](ctx, i, db, doing, s, t)
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

const namedSQL = `
SELECT` + namesColumns + `
FROM tasktable.scheduled_tasks AS t WHERE ` + filterSQL

var namesSQL = orders{
	ByScheduled: {namedSQL + byScheduledSQL, namedSQL + latestByScheduledSQL},
	ByFinished:  {namedSQL + byFinishedSQL, namedSQL + latestByFinishedSQL},
	ByID:        {namedSQL + byIDSQL, namedSQL + latestByIDSQL},
}

const namesColumns = `
    t.id, t.type, t.status, ` + patternSQL + ` AS pattern, t.revision`

var namesTexts = texts{namesColumns, namesSQL}

// Names lists the tasks that a filter selects, without their content, so that somebody can choose among them. It reads
// as much as List does.
func (i *Inspector) Names(ctx context.Context, db store.DB, filter Filter) ([]Name, error) {
	return listed[Name](ctx, i, db, "list names", filter, MaxNames, namesTexts)
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
