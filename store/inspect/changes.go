package inspect

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"strconv"
	"time"

	"github.com/tasktable/tasktable/store"
	"github.com/tasktable/tasktable/store/internal/check"
	"github.com/tasktable/tasktable/store/internal/query"
)

// ChangesFilter selects changes of tasks. A change must match all fields that are set.
type ChangesFilter struct {
	// By is who made the change, as in store.Change.ChangedBy.
	By string
	// Verb is the verb of the change, as in store.Change.Verb.
	Verb string
	// IDPrefix is the beginning of the id of the task. With ID it is the whole id.
	IDPrefix string
	ID       string
	// From and To bound the time of the change: From <= changed_at < To.
	From, To time.Time
	// Created also selects the lines that tell that a task was created. Most lines do.
	Created bool
	// After continues a list. It is the ChangesPage.After of the previous page.
	After int64
	// Limit is the maximum number of changes, from 1 to 10000. 0 means 100.
	Limit int
}

// ChangesPage is a part of the changes of all tasks, the latest first.
type ChangesPage struct {
	Changes []store.Change `json:"changes"`
	// After is where the next page begins. It is 0 if there are no more changes.
	After int64 `json:"after,omitempty"`
	// Cut tells that Changes stopped before the page was full, because it had read as many lines as it reads at most.
	// More changes may match. The next page continues the search.
	Cut bool `json:"cut,omitempty"`
}

// changesMost is how many lines Changes reads at most.
const changesMost = 100000

const (
	changesColumns = `
SELECT c.revision, c.task_id, c.verb, c.outcome, c.changed_at, c.changed_by, c.old::text AS old, c.new::text AS new
FROM `
	changesWhere = ` AS c
WHERE ($1::text = '' OR c.changed_by = $1::text) AND ($2::text = '' OR c.verb = $2::text)
    AND ($3::text = '' OR c.task_id = $3::text)
    AND ($4::text = '' OR c.task_id >= $4::text) AND ($5::text = '' OR c.task_id < $5::text)
    AND ($6::text = '' OR c.changed_at >= $6::text::timestamptz)
    AND ($7::text = '' OR c.changed_at < $7::text::timestamptz)
    AND ($8::text::boolean OR c.outcome <> 'created')
ORDER BY c.revision DESC LIMIT $10::text::int`

	// changesSQL walks the primary key, and reads at most $11 lines.
	changesSQL = changesColumns + `(
    SELECT * FROM tasktable.scheduled_task_changes AS c WHERE c.revision < $9::text::bigint
    ORDER BY c.revision DESC LIMIT $11::text::bigint
)` + changesWhere

	// changesOfTaskSQL goes by the index of one task's changes.
	changesOfTaskSQL = changesColumns + `(
    SELECT * FROM tasktable.scheduled_task_changes AS c
    WHERE c.task_id = $3::text AND c.revision < $9::text::bigint OFFSET 0
)` + changesWhere

	// reachedChangeSQL finds the last line that changesSQL reads. It returns no row if there are fewer.
	reachedChangeSQL = `
SELECT c.revision FROM tasktable.scheduled_task_changes AS c WHERE c.revision < $1::text::bigint
ORDER BY c.revision DESC OFFSET $2::text::bigint - 1 LIMIT 1`
)

// Changes lists the edits of all tasks, the latest first by their revisions: who did what, by verbs and by plain SQL.
// It reads at most 100,000 lines, unless the filter has an ID. The error wraps store.ErrInvalid for a bad filter.
func (i *Inspector) Changes(ctx context.Context, db store.DB, filter ChangesFilter) (ChangesPage, error) {
	var err error
	var args []any
	if filter.Limit, err = pageSize(filter.Limit, defaultLimit, maxLimit); err == nil {
		args, err = filter.args()
	}
	if err != nil {
		return ChangesPage{}, fmt.Errorf("list changes: %w", err)
	}
	before := strconv.FormatInt(cmp.Or(filter.After, math.MaxInt64), 10)
	args = append(args, before, strconv.Itoa(filter.Limit+1))
	statement := changesOfTaskSQL
	if filter.ID == "" {
		statement = changesSQL
		args = append(args, strconv.Itoa(changesMost))
	}
	changes, err := query.Collect[store.Change](ctx, i.source, db, "list changes", statement, args...)
	page := ChangesPage{Changes: changes}
	switch {
	case err != nil || filter.ID != "" && len(changes) <= filter.Limit:
		return page, err
	case len(changes) > filter.Limit:
		page.Changes = changes[:filter.Limit]
		page.After = page.Changes[filter.Limit-1].Revision
		return page, nil
	}
	reached, err := query.Values[int64](ctx, i.source, db, "list changes", reachedChangeSQL, before,
		strconv.Itoa(changesMost))
	if len(reached) > 0 {
		page.After, page.Cut = reached[0], true
	}
	return page, err
}

// args checks the filter and returns it as changesSQL takes it.
func (f ChangesFilter) args() (args []any, err error) {
	if f.After < 0 {
		return nil, check.Invalid("after", "must not be negative", f.After)
	}
	for _, field := range []struct{ name, value string }{
		{"by", f.By}, {"verb", f.Verb}, {"id", f.ID}, {"id", f.IDPrefix},
	} {
		if err := check.Text(field.name, field.value); err != nil {
			return nil, err
		}
		args = append(args, field.value)
	}
	from, err := check.BoundText("from", f.From)
	if err != nil {
		return nil, err
	}
	to, err := check.BoundText("to", f.To)
	return append(args, prefixUpperBound(f.IDPrefix), from, to, strconv.FormatBool(f.Created)), err
}
