package inspect

import (
	"context"
	"fmt"
	"strconv"

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
	// More tasks may match. After is then the last task that it read, which need not match itself.
	Cut bool `json:"cut,omitempty"`
}

// Search is List for a page that a person waits for.
func (i *Inspector) Search(ctx context.Context, db store.DB, filter Filter) (Page, error) {
	most := filter.Limit
	if most == 0 {
		most = defaultLimit
	}
	filter.Limit = most + 1
	if most == maxLimit {
		filter.Limit = most
	}
	rows, err := i.List(ctx, db, filter)
	if err != nil {
		return Page{}, err
	}
	page := Page{Rows: rows}
	if len(rows) > most || most == maxLimit && len(rows) == most {
		page.Rows = rows[:most]
		page.After = &page.Rows[most-1]
	}
	return page, nil
}

const countUpToSQL = `
SELECT count(*) FROM (
    SELECT FROM tasktable.scheduled_tasks AS t WHERE ` + filterSQL + ` LIMIT $16::text::bigint) AS one`

// MaxCountUpTo is the greatest number up to which CountUpTo counts.
const MaxCountUpTo = 1000000

// CountUpTo counts the tasks that a filter selects, up to a number from 1 to MaxCountUpTo. more tells that there are
// more tasks than that.
func (i *Inspector) CountUpTo(ctx context.Context, db store.DB, filter Filter, most int) (n int, more bool, err error) {
	if most < 1 || most > MaxCountUpTo {
		return 0, false, fmt.Errorf("count tasks: %w", check.Invalid("most",
			fmt.Sprintf("must be between 1 and %d", MaxCountUpTo), most))
	}
	args, err := filter.args()
	if err != nil {
		return 0, false, fmt.Errorf("count tasks: %w", err)
	}
	n, err = query.Value[int](ctx, i.source, db, "count tasks", countUpToSQL, append(args, strconv.Itoa(most+1))...)
	return min(n, most), n > most, err
}
