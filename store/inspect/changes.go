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

const changesSQL = `
SELECT c.revision, c.task_id, c.verb, c.outcome, c.changed_at, c.changed_by, c.old::text AS old, c.new::text AS new
FROM tasktable.scheduled_task_changes AS c
WHERE ($1::text = '' OR c.changed_by = $1::text) AND ($2::text = '' OR c.verb = $2::text)
    AND ($3::text = '' OR c.task_id = $3::text)
    AND ($4::text = '' OR c.task_id >= $4::text) AND ($5::text = '' OR c.task_id < $5::text)
    AND ($6::text = '' OR c.changed_at >= $6::text::timestamptz)
    AND ($7::text = '' OR c.changed_at < $7::text::timestamptz)
    AND ($8::text::boolean OR c.outcome <> 'created')
    AND ($9::text = '0' OR c.revision < $9::text::bigint)
ORDER BY c.revision DESC LIMIT $10::text::int`

// Changes lists the edits of all tasks, the latest first by their revisions: who did what, by verbs and by plain SQL.
// The error wraps store.ErrInvalid for a bad filter.
func (i *Inspector) Changes(ctx context.Context, db store.DB, filter ChangesFilter) (ChangesPage, error) {
	if filter.Limit == 0 {
		filter.Limit = defaultLimit
	}
	args, err := filter.args()
	if err != nil {
		return ChangesPage{}, fmt.Errorf("list changes: %w", err)
	}
	changes, err := query.Collect[store.Change](ctx, i.source, db, "list changes", changesSQL,
		append(args, strconv.FormatInt(filter.After, 10), strconv.Itoa(filter.Limit+1))...)
	page := ChangesPage{Changes: changes}
	if len(changes) > filter.Limit {
		page.Changes = changes[:filter.Limit]
		page.After = page.Changes[filter.Limit-1].Revision
	}
	return page, err
}

// args checks the filter and returns it as changesSQL takes it.
func (f ChangesFilter) args() (args []any, err error) {
	if f.Limit < 1 || f.Limit > maxLimit {
		return nil, check.Invalid("limit", fmt.Sprintf("must be between 1 and %d", maxLimit), f.Limit)
	}
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
