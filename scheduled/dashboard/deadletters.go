package dashboard

import (
	"cmp"
	"context"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/tasktable/tasktable/store"
	"github.com/tasktable/tasktable/store/inspect"
)

const (
	deadRows      = 50
	maxDeadGroups = 100
)

func (d *Dashboard) registerDeadLetters(mux *http.ServeMux) {
	d.page(page{path: "/dead", template: "dead", title: "Dead letters"}, deadPage)
	for _, verb := range []inspect.Verb{inspect.Retry, inspect.Archive} {
		d.act(mux, act{path: "/dead/" + string(verb), needs: Operate, many: true},
			func(ctx context.Context, v *visit) (done, error) { return actOnDead(ctx, v, verb) })
	}
}

// deadQuery is what a page of dead letters is about. Its fields are parameters of the page's address, and hidden fields
// of its form.
type deadQuery struct {
	Type, Status, Queue, Tenant, Entity, Message, Pattern string

	Since    string // a key of deadSince
	By       string // entity or tenant: the groups are by this field, too; task: a list instead of groups
	Archived bool
}

// deadSince has the choices of how long ago a dead letter ended at most.
var deadSince = map[string]time.Duration{
	"": 0, "1h": time.Hour, "1d": 24 * time.Hour, "7d": 7 * 24 * time.Hour, "30d": 30 * 24 * time.Hour,
}

func deadQueryOf(values url.Values) deadQuery {
	q := deadQuery{
		Type: values.Get("type"), Status: values.Get("status"), Queue: values.Get("queue"),
		Tenant: values.Get("tenant"), Entity: values.Get("entity"), Message: values.Get("message"),
		Pattern: values.Get("pattern"), Since: values.Get("since"), By: values.Get("by"),
		Archived: values.Get("archived") != "",
	}
	if q.Message+q.Pattern != "" { // the address of a group
		q.By = "task"
	}
	return q
}

// pairs are names and values by turns, as Dashboard.link takes them.
func (q deadQuery) pairs() []string {
	archived := ""
	if q.Archived {
		archived = "1"
	}
	return []string{"type", q.Type, "status", q.Status, "queue", q.Queue, "tenant", q.Tenant, "entity", q.Entity,
		"message", q.Message, "pattern", q.Pattern, "since", q.Since, "by", q.By, "archived", archived}
}

// Fields are the hidden fields with which a form tells what its page is about.
func (q deadQuery) Fields() map[string]string {
	fields, pairs := map[string]string{}, q.pairs()
	for i := 0; i < len(pairs); i += 2 {
		if pairs[i+1] != "" {
			fields[pairs[i]] = pairs[i+1]
		}
	}
	return fields
}

// Listed reports whether the page lists dead letters one by one.
func (q deadQuery) Listed() bool { return q.By == "task" }

// Filtered reports whether the page leaves some dead letters out.
func (q deadQuery) Filtered() bool {
	return q.Type+q.Status+q.Queue+q.Tenant+q.Entity+q.Message+q.Pattern+q.Since != ""
}

func (q deadQuery) filter(now time.Time) (inspect.Filter, error) {
	filter := inspect.DeadLetters()
	filter.Type, filter.Queue, filter.TenantID, filter.Entity = q.Type, q.Queue, q.Tenant, q.Entity
	filter.Message, filter.Pattern, filter.Archived = q.Message, q.Pattern, &q.Archived
	switch status := store.Status(q.Status); status {
	case "":
	case store.StatusFailed, store.StatusExpired:
		filter.Statuses = []store.Status{status}
	default:
		return filter, notValid("status must be FAILED or EXPIRED")
	}
	since, known := deadSince[q.Since]
	if !known {
		return filter, notValid("since must be 1h, 1d, 7d or 30d")
	}
	if since > 0 {
		filter.FinishedFrom = now.Add(-since)
	}
	return filter, nil
}

// deadView shows dead letters, by what went wrong or one by one.
type deadView struct {
	Query deadQuery
	Chips []chip
	Count int
	More  bool // there are more than Count

	Groups     []deadGroup
	MoreGroups bool

	Rows  []store.Row
	After string // where the next page begins
	Cut   bool   // the page is not full, because the search has read enough

	HaveEntity, HaveTenant bool // at least one of the Rows has one
}

// chips lead to other looks at the same dead letters.
func (q deadQuery) chips(v *visit) []chip {
	var chips []chip
	for _, by := range []struct{ name, text string }{
		{"", "By error"}, {"entity", "By error and entity"}, {"tenant", "By error and tenant"}, {"task", "One by one"},
	} {
		if by.name == "tenant" && v.person.Tenant != "" {
			continue
		}
		other := q
		if other.By = by.name; by.name != "task" {
			other.Message, other.Pattern = "", "" // they are those of a list
		}
		href := v.board.link("/dead", other.pairs()...)
		chips = append(chips, chip{Label: by.text, Href: href, Current: q.By == by.name})
	}
	other := q
	other.Archived = !q.Archived
	return append(chips, chip{Label: "Archived", Href: v.board.link("/dead", other.pairs()...), Current: q.Archived})
}

// deadGroup is a group of dead letters, with the address of its list.
type deadGroup struct {
	inspect.Group

	Row  string // names the group on the page
	Key  string // names the group in a form; "": a form cannot
	Link string // "": there is no such list
}

func deadPage(ctx context.Context, v *visit) (any, error) {
	view := deadView{Query: deadQueryOf(v.values())}
	view.Chips = view.Query.chips(v)
	filter, err := view.Query.filter(v.now)
	if err != nil {
		return nil, err
	}
	if view.Query.Listed() {
		err = view.list(ctx, v, filter)
	} else {
		err = view.group(ctx, v, filter)
	}
	return view, err
}

// list reads one page, the latest first, and the number of all.
func (view *deadView) list(ctx context.Context, v *visit, filter inspect.Filter) error {
	filter.LatestFirst, filter.Limit = true, deadRows
	var err error
	if filter.After, err = decodeCursor(v.query("after"), inspect.ByFinished); err != nil {
		return notValid("after " + err.Error())
	}
	found, err := v.inspector.Search(ctx, v.db, filter)
	view.Rows, view.Cut = found.Rows, found.Cut
	view.HaveEntity = slices.ContainsFunc(view.Rows, func(row store.Row) bool { return row.Entity != nil })
	view.HaveTenant = v.person.Tenant == "" &&
		slices.ContainsFunc(view.Rows, func(row store.Row) bool { return row.TenantID != nil })
	if found.After != nil {
		view.After = inspect.EncodeCursor(*found.After)
	}
	if err == nil {
		view.Count, view.More, err = v.inspector.CountUpTo(ctx, v.db, filter, countUpTo)
	}
	return err
}

func (view *deadView) group(ctx context.Context, v *visit, filter inspect.Filter) error {
	filter.Limit = maxDeadGroups + 1
	groups, err := v.inspector.Groups(ctx, v.db, filter, inspect.Grouping(view.Query.By))
	view.MoreGroups = len(groups) > maxDeadGroups
	if len(groups) > 0 {
		view.Count = groups[0].Total
	}
	for _, group := range groups[:min(len(groups), maxDeadGroups)] {
		of := view.Query
		of.By, of.Type, of.Status, of.Pattern = "task", group.Type, string(group.Status), group.Pattern
		of.Entity, of.Tenant = cmp.Or(valueOr(group.Entity), of.Entity), cmp.Or(valueOr(group.TenantID), of.Tenant)
		one := deadGroup{Group: group, Row: strings.Join([]string{
			group.Type, string(group.Status), valueOr(group.Entity), valueOr(group.TenantID), group.Pattern,
		}, " ")}
		// No filter finds the tasks without an entity or a tenant.
		by := view.Query.By
		if by == "" || by == "entity" && group.Entity != nil || by == "tenant" && group.TenantID != nil {
			one.Key = valuesOf(of.pairs()).Encode()
			if group.Pattern != "" {
				one.Link = v.board.link("/dead", of.pairs()...)
			}
		}
		view.Groups = append(view.Groups, one)
	}
	return err
}

func valuesOf(pairs []string) url.Values {
	values := url.Values{}
	for i := 0; i < len(pairs); i += 2 {
		if pairs[i+1] != "" {
			values.Set(pairs[i], pairs[i+1])
		}
	}
	return values
}
