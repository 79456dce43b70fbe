package dashboard

import (
	"context"
	"fmt"
	"net/url"
	"slices"
	"strings"

	"github.com/tasktable/tasktable/scheduled/dashboard/internal/words"
	"github.com/tasktable/tasktable/store"
	"github.com/tasktable/tasktable/store/inspect"
)

const (
	recurringRows   = 50
	recurringChunk  = 250 // how many are read at once to find those of one health
	recurringChunks = 4   // how often, for one page
	stripLength     = 20
)

// recurringPath is the path of a recurring task's page. /recurring/calendar is another page.
func recurringPath(id string) string {
	path := "/recurring/" + pathPart(id)
	if id == "calendar" {
		path += "/task"
	}
	return path
}

// Recurring returns the address of a recurring task's page.
func (f frame) Recurring(id string) string { return f.visit.board.link(recurringPath(id)) }

// RecurringAct returns the address of a form's act on a recurring task, such as pause.
func (f frame) RecurringAct(id, name string) string {
	return f.visit.board.link("/recurring/" + url.PathEscape(id) + "/" + name)
}

// Cron says in words when an expression fires. "" means that there are no words for it.
func (f frame) Cron(expression string) string { return words.Cron(expression) }

// recurringListView lists recurring tasks in the order of their ids. Without a filter, those that fail or are overdue
// come first.
type recurringListView struct {
	Filter inspect.RecurringFilter
	Health inspect.Health
	Tasks  []recurringRow
	After  string // where the next page begins
	Cut    bool   // the page is not full, because the search has read enough
}

type recurringRow struct {
	inspect.RecurringTask

	Next  string // the reason that there is no next fire
	Strip strip
}

// Healths are the choices of the filter. Those that need somebody's attention come first.
func (recurringListView) Healths() []inspect.Health {
	return []inspect.Health{inspect.HealthFailing, inspect.HealthOverdue, inspect.HealthPaused, inspect.HealthNew,
		inspect.HealthOK, inspect.HealthEnded}
}

// Filtered reports whether the list leaves some tasks out.
func (view recurringListView) Filtered() bool {
	f := view.Filter
	return f.Type+f.Queue+f.TenantID+f.Entity+f.DeclaredBy+string(view.Health) != ""
}

func recurringPage(ctx context.Context, v *visit) (any, error) {
	view := recurringListView{
		Health: inspect.Health(v.query("health")),
		Filter: inspect.RecurringFilter{
			Type: v.query("type"), Queue: v.query("queue"), TenantID: v.query("tenant"), Entity: v.query("entity"),
			DeclaredBy: v.query("declared_by"), After: v.query("after"),
		},
	}
	if view.Health != "" && !slices.Contains(view.Healths(), view.Health) {
		return nil, notValid("health must be failing, overdue, paused, new, ok or ended")
	}
	tasks, err := view.read(ctx, v)
	if err == nil && view.Filter.After == "" && !view.Filtered() {
		tasks, err = troubledFirst(ctx, v, tasks)
	}
	if err != nil || len(tasks) == 0 {
		return view, err
	}
	ids := make([]string, len(tasks))
	for i, task := range tasks {
		ids[i] = task.ID
	}
	occurrences, err := v.inspector.Occurrences(ctx, v.db, stripLength, ids...)
	if err != nil {
		return nil, err
	}
	of := map[string][]inspect.Occurrence{}
	for _, one := range occurrences {
		of[one.ParentID] = append(of[one.ParentID], one)
	}
	for _, task := range tasks {
		view.Tasks = append(view.Tasks, recurringRow{task, noNextFire(v, task), stripOf(v, of[task.ID])})
	}
	return view, nil
}

// troubledFirst puts the failing and the overdue tasks before the others of the first page.
func troubledFirst(ctx context.Context, v *visit, page []inspect.RecurringTask) ([]inspect.RecurringTask, error) {
	first, err := v.inspector.RecurringTrouble(ctx, v.db)
	if err != nil {
		return nil, err
	}
	first = first[:min(len(first), recurringRows)]
	for _, task := range page {
		if !slices.ContainsFunc(first, func(shown inspect.RecurringTask) bool { return shown.ID == task.ID }) {
			first = append(first, task)
		}
	}
	return first, nil
}

// read reads one page. The database does not know the health, so a page of one health is found among many tasks.
func (view *recurringListView) read(ctx context.Context, v *visit) (page []inspect.RecurringTask, err error) {
	filter := view.Filter
	filter.Limit = recurringRows + 1
	if view.Health != "" {
		filter.Limit = recurringChunk
	}
	for range recurringChunks {
		found, err := v.inspector.ListRecurring(ctx, v.db, filter)
		if err != nil {
			return nil, err
		}
		for _, task := range found {
			if view.Health != "" && task.Health != view.Health {
				continue
			}
			if len(page) == recurringRows {
				view.After = page[recurringRows-1].ID
				return page, nil
			}
			page = append(page, task)
		}
		if len(found) < filter.Limit {
			return page, nil
		}
		filter.After = found[len(found)-1].ID
	}
	view.After, view.Cut = filter.After, true
	return page, nil
}

// noNextFire tells why there is no next fire. A task that waits has one as soon as the leader has planned it.
func noNextFire(v *visit, task inspect.RecurringTask) string {
	switch {
	case task.NextFire != nil:
		return ""
	case task.Status == store.StatusPaused && task.PausedUntil != nil:
		return "after " + v.exact(*task.PausedUntil)
	case task.Status == store.StatusPaused:
		return "after a resume"
	case task.Status == store.StatusQueued:
		return "to be planned"
	}
	return "none"
}

// strip shows the newest occurrences as marks, the oldest first.
type strip struct {
	Label string // the same in words
	Marks []mark
}

type mark struct {
	ID     string
	Status store.Status
	Text   string
}

// stripOf takes occurrences of which the newest comes first.
func stripOf(v *visit, occurrences []inspect.Occurrence) strip {
	made := strip{Label: "No occurrence yet"}
	counts := map[store.Status]int{}
	for _, one := range slices.Backward(occurrences) {
		made.Marks = append(made.Marks, mark{one.ID, one.Status, string(one.Status) + ", " + v.exact(one.ScheduledAt)})
		counts[one.Status]++
	}
	var parts []string
	for _, status := range store.Statuses() {
		if counts[status] > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", counts[status], status))
		}
	}
	if len(parts) > 0 {
		made.Label = "The newest occurrences: " + strings.Join(parts, ", ")
	}
	return made
}
