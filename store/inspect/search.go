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

// Page is a part of a list.
type Page struct {
	Rows []store.Row `json:"rows"`
	// After is where the next page begins: the Filter.After with which Search continues. It is nil if the list has
	// ended.
	After *store.Row `json:"-"`
	// Cut tells that Search stopped before the page was full, because it had read as many tasks as it reads at most.
	// More tasks may match. After is then the last task that it read. Of that row only the id and the times are set,
	// and it need not match the filter.
	Cut bool `json:"cut,omitempty"`
}

// Search is List for a page that a person waits for. The order and the rows are those of List, but Search reads at
// most 30,000 tasks. If the page is not full by then, Page.Cut is set, and the search continues with Page.After. A
// page that is cut may be empty.
func (i *Inspector) Search(ctx context.Context, db store.DB, filter Filter) (Page, error) {
	search, err := newSearch(filter, maxLimit)
	if err != nil {
		return Page{}, fmt.Errorf("search tasks: %w", err)
	}
	most := search.limit
	search.limit++ // one more task tells that there is a next page
	rows, cut, err := find[store.Row](ctx, i, db, "search tasks", search, query.TaskColumns)
	if err != nil {
		return Page{}, err
	}
	page := Page{Rows: rows, After: cut, Cut: cut != nil}
	if len(rows) > most || len(rows) == most && cut != nil {
		page = Page{Rows: rows[:most], After: &rows[most-1]}
	}
	return page, nil
}

// search is a filter that was checked.
type search struct {
	filter  Filter    // narrowed
	nothing bool      // no task can match
	args    arguments // those of filterSQL
	bounds  bounds
	limit   int
}

// newSearch checks a filter.
func newSearch(f Filter, maxLimit int) (s search, err error) {
	if f.Order == "" {
		f.Order = ByScheduled
	}
	if _, known := orderings[f.Order]; !known {
		const rule = "must be scheduled_at, finished_at or id"
		return s, check.Invalid("order", rule, fmt.Sprintf("%q", string(f.Order)))
	}
	if _, err := f.args(); err != nil { // before it is narrowed
		return s, err
	}
	s.filter, s.nothing = f.narrowed()
	if s.args, err = s.filter.args(); err != nil {
		return s, err
	}
	if s.limit, err = f.limit(maxLimit); err != nil {
		return s, err
	}
	s.bounds, err = f.bounds()
	return s, err
}

// direction is the place of the filter's direction in pairs of statements.
func (s search) direction() int {
	if s.filter.LatestFirst {
		return 1
	}
	return 0
}

// A tenant's role goes by the index of tenants, as the row level security of the table makes Postgres do.
const isTenantSQL = `
SELECT row_security_active('tasktable.scheduled_tasks'::regclass)
    AND coalesce(current_setting('tasktable.tenant', true), '') <> ''`

// find reads the tasks of a search. cut is not nil if it stopped before it had read all. It is then the last task that
// it read.
func find[T any](
	ctx context.Context, i *Inspector, db store.DB, doing string, s search, columns string,
) (found []T, cut *store.Row, err error) {
	if s.nothing {
		return []T{}, nil, i.source.Err
	}
	tenant, err := query.Value[bool](ctx, i.source, db, doing, isTenantSQL)
	if err != nil {
		return nil, nil, err
	}
	if tenant || s.limit > i.walkMost {
		found, err = whole[T](ctx, i, db, doing, s, columns)
		return found, nil, err
	}
	one, err := i.way(ctx, db, doing, s)
	if err != nil {
		return nil, nil, err
	}
	for most := s.limit; ; most *= walkMore {
		most = min(most, i.walkMost)
		sql, args := s.given(most).bind(s.statement(one, columns))
		found, err = query.Collect[T](ctx, i.source, db, doing, sql, args...)
		if err != nil || len(found) >= s.limit || one.isSort() {
			return found, nil, err
		}
		if most == i.walkMost {
			cut, err = i.reached(ctx, db, doing, s)
			return found, cut, err
		}
	}
}

// whole reads the tasks of a search by a statement that may read the whole table. It finds the ids of the page first.
// Otherwise Postgres would compute the pattern of each message before it sorts, and not those of the page alone.
func whole[T any](
	ctx context.Context, i *Inspector, db store.DB, doing string, s search, columns string,
) ([]T, error) {
	order, direction := orderings[s.filter.Order], s.direction()
	sql := `SELECT` + columns + ` FROM (SELECT t.id FROM tasktable.scheduled_tasks AS t WHERE ` + filterSQL + order.has
	if s.filter.After != nil {
		sql += order.after[direction]
	}
	sql, args := s.given(i.walkMost).bind(sql + order.ends[direction] + ` LIMIT @limit::bigint) AS page
JOIN tasktable.scheduled_tasks AS t USING (id)` + order.ends[direction])
	return query.Collect[T](ctx, i.source, db, doing, sql, args...)
}

// way returns the first sort that is small enough, or else the walk.
func (i *Inspector) way(ctx context.Context, db store.DB, doing string, s search) (way, error) {
	for _, one := range s.filter.sorts() {
		sql, args := s.args.with("most", strconv.Itoa(i.sortMost+1)).bind(one.counted())
		n, err := query.Value[int](ctx, i.source, db, doing, sql, args...)
		if err != nil {
			return "", err
		}
		if n <= i.sortMost {
			return one, nil
		}
	}
	return s.filter.walk(), nil
}

// given returns the arguments of the search's statements. most is how many tasks a walk may read.
func (s search) given(most int) arguments {
	return s.args.with("limit", strconv.Itoa(s.limit), "low_at", s.bounds.lowAt, "low_id", s.bounds.lowID,
		"high_at", s.bounds.highAt, "high_id", s.bounds.highID, "most", strconv.Itoa(most))
}

// statement returns the statement of a way. A sort finds the ids of the page first, because Postgres can often read
// them from an index alone.
func (s search) statement(one way, columns string) string {
	order := orderings[s.filter.Order]
	by, ends := order.ends[s.direction()], ` LIMIT @limit::bigint`
	if columns != countColumns { // a count that has enough tasks need not read the others, and sort them
		ends = by + ends
	}
	switch {
	case !one.isSort():
		return `SELECT` + columns + s.walked() + ` WHERE ` + filterSQL + ends
	case columns == countColumns:
		return `SELECT` + columns + one.sorted() + ` WHERE ` + filterSQL + order.within + ends
	}
	return `SELECT` + columns + ` FROM (SELECT t.id` + one.sorted() + ` WHERE ` + filterSQL + order.within + ends +
		`) AS page JOIN tasktable.scheduled_tasks AS t USING (id)` + by
}

// reached is the last task that a walk has read.
type reached struct {
	ID          string
	ScheduledAt time.Time
	FinishedAt  *time.Time
}

// place is where a list goes on after the task.
func (r reached) place() *store.Row {
	return &store.Row{ID: r.ID, ScheduledAt: r.ScheduledAt, FinishedAt: r.FinishedAt}
}

// reached returns the last task that a walk read, or nil if the walk has read all.
func (i *Inspector) reached(ctx context.Context, db store.DB, doing string, s search) (*store.Row, error) {
	s.limit = 1
	sql, args := s.given(i.walkMost).bind(`SELECT` + (reachedColumns + s.walked() +
		orderings[s.filter.Order].ends[s.direction()] + ` OFFSET @most::bigint - 1 LIMIT @limit::bigint`))
	rows, err := query.Collect[reached](ctx, i.source, db, doing, sql, args...)
	if err != nil || len(rows) == 0 {
		return nil, err
	}
	return rows[0].place(), nil
}

const countColumns = ` count(*) FROM (SELECT 1`

// MaxCountUpTo is the greatest number up to which CountUpTo counts.
const MaxCountUpTo = 100000

// CountUpTo counts the tasks that a filter selects, up to a number from 1 to MaxCountUpTo. more tells that there may
// be more: it has counted that many, or it has read 20,000 tasks.
func (i *Inspector) CountUpTo(ctx context.Context, db store.DB, filter Filter, most int) (n int, more bool, err error) {
	filter.After, filter.LatestFirst, filter.Limit = nil, false, 0
	s, err := newSearch(filter, maxLimit)
	if err == nil && (most < 1 || most > MaxCountUpTo) {
		err = check.Invalid("most", fmt.Sprintf("must be between 1 and %d", MaxCountUpTo), most)
	}
	if err != nil {
		return 0, false, fmt.Errorf("count tasks: %w", err)
	}
	if s.nothing {
		return 0, false, i.source.Err
	}
	one, err := i.way(ctx, db, "count tasks", s)
	if err != nil {
		return 0, false, err
	}
	s.limit = most + 1
	sql, args := s.given(i.walkMost).bind(s.statement(one, countColumns) + `) AS one`)
	n, err = query.Value[int](ctx, i.source, db, "count tasks", sql, args...)
	if err != nil || n > most || one.isSort() {
		return min(n, most), n > most, err
	}
	cut, err := i.reached(ctx, db, "count tasks", s)
	return n, cut != nil, err
}
