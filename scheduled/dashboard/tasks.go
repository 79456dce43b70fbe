package dashboard

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tasktable/tasktable/scheduled/dashboard/internal/words"
	"github.com/tasktable/tasktable/scheduled/internal/pg"
	"github.com/tasktable/tasktable/store"
	"github.com/tasktable/tasktable/store/inspect"
)

const (
	pageRows    = 100    // tasks in a page of the list
	countUpTo   = 10000  // beyond it people do not tell numbers apart
	tabUpTo     = 1000   // up to which the tabs count
	runningRows = 20     // running tasks before the first page of the usual list
	countWithin = "50ms" // a number is not worth a page that is late
)

// tasksView is the list of tasks.
type tasksView struct {
	Usual  bool // the address has no filter
	Chips  []chip
	Form   filterForm
	Orders []choice

	suggestions

	Heads   []head
	Rows    []taskRow
	About   bool   // a task has an entity or a tenant
	Showing string // how many tasks there are
	Cut     bool   // Search stopped before the page was full
	After   string // where the next page begins; "" if there is none

	Filter string // the parameters of the address, for acts on all that match
	Back   string // this page, without its place in the list
	Verbs  []inspect.VerbRule
}

// chip is a link to a usual look at the list.
type chip struct {
	Label, Href string
	Current     bool
	Count       string // "" if nobody has counted
}

// head is the head of a column.
type head struct {
	Label string
	Href  string // it sorts by the column; "" if the list cannot
	Sort  string // ascending or descending, if the list is sorted by the column
}

func tasksPage(ctx context.Context, v *visit) (any, error) {
	values := v.values()
	usual := len(with(values, "", "")) == 0
	if usual {
		values = usualValues(values.Get("after"))
	}
	filter, wrong := v.filterOf(values)
	view := tasksView{Form: v.filterForm(inspect.FilterFields(), values, wrong), Filter: question(with(values, "", "")),
		Orders: chosen(taskOrders, orderOf(values))}
	view.Back = "/tasks" + view.Filter
	view.Usual, view.Chips, view.Heads = usual, v.chips(values), v.heads(values)
	for _, verb := range inspect.Verbs() {
		if v.may(scopesOf(verb)) {
			view.Verbs = append(view.Verbs, verb)
		}
	}
	var err error
	if view.suggestions, err = v.suggestions(ctx); err != nil {
		return nil, err
	}
	if len(wrong) > 0 {
		v.answer.status = http.StatusUnprocessableEntity
		return view, nil
	}
	filter.Limit = pageRows
	page, err := v.inspector.Search(ctx, v.db, filter)
	if err != nil {
		return nil, err
	}
	rows := page.Rows
	if usual && filter.After == nil {
		if rows, err = v.runningFirst(ctx, rows); err != nil {
			return nil, err
		}
	}
	for _, row := range rows {
		view.Rows = append(view.Rows, taskRowOf(row))
		view.About = view.About || row.Entity != nil || row.TenantID != nil
	}
	if usual { // the list has recurring tasks by their starts, and shows their next fires
		slices.SortStableFunc(view.Rows, soonest)
	}
	view.Cut = page.Cut
	if page.After != nil {
		view.After = inspect.EncodeCursor(*page.After)
	}
	if view.Showing, err = v.showing(ctx, filter, page, len(rows)); err != nil {
		return nil, err
	}
	return view, v.countTabs(ctx, view.Chips)
}

// soonest compares the tasks of the usual list: those that run come first, and then those that are due next.
func soonest(one, two taskRow) int {
	rank := func(row taskRow) int {
		switch {
		case row.Status == store.StatusExecuting:
			return 0
		case row.At != nil:
			return 1
		}
		return 2
	}
	if rank(one) != 1 || rank(two) != 1 {
		return cmp.Compare(rank(one), rank(two))
	}
	return one.At.Compare(*two.At)
}

// runningFirst puts the tasks that run before the others of the first page. Tasks that are late would else be before
// them, such as all those of a paused queue.
func (v *visit) runningFirst(ctx context.Context, rows []store.Row) ([]store.Row, error) {
	running, err := v.inspector.Search(ctx, v.db, inspect.Filter{Limit: runningRows,
		Statuses: []store.Status{store.StatusExecuting}})
	if err != nil {
		return nil, err
	}
	first := running.Rows
	for _, row := range rows {
		if !slices.ContainsFunc(first, func(shown store.Row) bool { return shown.ID == row.ID }) {
			first = append(first, row)
		}
	}
	return first, nil
}

// tasksAt returns the address of the list with a parameter changed, and without its place unless it is that.
func (v *visit) tasksAt(values url.Values, name, value string) string {
	return v.board.config.Prefix + "/tasks" + question(with(values, name, value))
}

// with returns parameters with one changed, and without the empty ones and the place in the list.
func with(values url.Values, name, value string) url.Values {
	made := url.Values{}
	for other, texts := range values {
		for _, text := range texts {
			if text != "" && other != "after" && other != name {
				made.Add(other, text)
			}
		}
	}
	if value != "" {
		made.Set(name, value)
	}
	return made
}

// suggestions are the types and queues in use, for inputs.
type suggestions struct{ Types, Queues []string }

// suggestions reads them. The role of tenants may not do so.
func (v *visit) suggestions(ctx context.Context) (found suggestions, err error) {
	if v.person.Tenant != "" {
		return found, nil
	}
	if found.Types, err = v.inspector.Types(ctx, v.db); err != nil {
		return found, err
	}
	found.Queues, err = v.inspector.Queues(ctx, v.db)
	return found, err
}

// chips are the usual looks.
func (v *visit) chips(values url.Values) []chip {
	today := v.now.In(v.look.zone).Format(time.DateOnly)
	looks := []struct{ label, query string }{
		{"Now and next", usualQuery},
		{"All", "order=-scheduled_at"},
		{"Waiting", "status=QUEUED&order=scheduled_at"},
		{"Running", "status=EXECUTING&order=scheduled_at"},
		{"Failed", "status=FAILED&order=-finished_at"},
		{"Expired", "status=EXPIRED&order=-finished_at"},
		{"Paused", "status=PAUSED&order=scheduled_at"},
		{"Completed today", "status=COMPLETED&finished_from=" + today + "&order=-finished_at"},
		{"Cancelled", "status=CANCELLED&order=-finished_at"},
		{"Skipped", "status=SKIPPED&order=-scheduled_at"},
	}
	here := with(values, "", "").Encode()
	made := make([]chip, len(looks))
	for i, look := range looks {
		parsed, _ := url.ParseQuery(look.query)
		made[i] = chip{Label: look.label, Href: v.tasksAt(parsed, "", ""), Current: parsed.Encode() == here}
	}
	return made
}

// heads are the heads of the columns after the one with the boxes. A second click turns the order around.
func (v *visit) heads(values url.Values) []head {
	order := orderOf(values)
	sorted := func(label, column, first string) head {
		made := head{Label: label, Href: v.tasksAt(values, "order", first+column)}
		switch order {
		case column:
			made.Sort, made.Href = "ascending", v.tasksAt(values, "order", "-"+column)
		case "-" + column:
			made.Sort, made.Href = "descending", v.tasksAt(values, "order", column)
		}
		return made
	}
	return []head{
		sorted("Id", "id", ""), {Label: "Type"}, {Label: "Status"}, {Label: "Queue"},
		sorted("Scheduled", "scheduled_at", "-"), sorted("Ended, or next", "finished_at", "-"), {Label: "Attempts"},
	}
}

// showing tells how many tasks there are.
func (v *visit) showing(ctx context.Context, filter inspect.Filter, page inspect.Page, rows int) (string, error) {
	if page.After == nil && filter.After == nil {
		return amount(rows, "task", "tasks"), nil
	}
	if page.Cut { // to count them all would take longer than the list did
		return fmt.Sprintf("Showing %s.", amount(rows, "task", "tasks")), nil
	}
	found, more, err := v.countQuickly(ctx, filter, countUpTo)
	switch {
	case errors.Is(err, errTooSlow):
		return fmt.Sprintf("Showing %s. How many match has not been counted, because it takes too long.",
			amount(rows, "task", "tasks")), nil
	case err != nil:
		return "", err
	case more:
		return fmt.Sprintf("Showing %s; more than %s match.", words.Count(rows, false), words.Count(found, false)), nil
	}
	return fmt.Sprintf("Showing %s of %s.", words.Count(rows, false), amount(found, "task", "tasks")), nil
}

var errTooSlow = errors.New("counting takes too long")

// countQuickly counts in a transaction of its own, because Postgres ends the count after countWithin. It forbids
// parallel workers: to start them takes longer than most counts do.
func (v *visit) countQuickly(ctx context.Context, filter inspect.Filter, most int) (
	found int, more bool, err error,
) {
	begins, _ := v.db.(interface {
		Begin(ctx context.Context) (pgx.Tx, error)
	})
	tx, err := begins.Begin(ctx)
	if err != nil {
		return 0, false, fmt.Errorf("count tasks: %w", err)
	}
	// Within a transaction the end of a savepoint would leave the setting. Undoing it does not.
	defer func() { _ = tx.Rollback(ctx) }() // the context's end has ended it, too
	const settings = `SELECT set_config('statement_timeout', '` + countWithin + `', true),
		set_config('max_parallel_workers_per_gather', '0', true)`
	if _, err := tx.Exec(ctx, settings); err != nil {
		return 0, false, fmt.Errorf("count tasks: %w", err)
	}
	found, more, err = v.inspector.CountUpTo(ctx, tx, filter, most)
	if pg.IsCanceled(err) {
		return 0, false, errTooSlow
	}
	return found, more, err
}
