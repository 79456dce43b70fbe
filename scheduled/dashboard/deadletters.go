package dashboard

import (
	"cmp"
	"context"
	"maps"
	"net/url"
	"slices"
	"strings"

	"github.com/tasktable/tasktable/store"
	"github.com/tasktable/tasktable/store/inspect"
	"github.com/tasktable/tasktable/store/when"
)

const (
	deadRows      = 50
	maxDeadGroups = 100
)

func deadAct(rule inspect.VerbRule) func(context.Context, *visit) (done, error) {
	return func(ctx context.Context, v *visit) (done, error) {
		return (&bulk{rule: rule, dead: true, most: maxDeadAct}).act(ctx, v)
	}
}

// deadQuery is what a page of dead letters is about: parameters of the page's address, and hidden fields of its form.
// They are the fields of a filter, and
//   - since: one of sinceChoices,
//   - by: entity or tenant, if the groups are by this field, too, and task for a list instead of groups,
//   - archived.
type deadQuery struct{ url.Values }

var sinceChoices = []choice{{Value: "", Label: "at any time"}, {Value: "1h", Label: "in the last hour"},
	{Value: "1d", Label: "in the last 24 hours"}, {Value: "7d", Label: "in the last 7 days"},
	{Value: "30d", Label: "in the last 30 days"}}

func deadQueryOf(given url.Values) deadQuery {
	q := deadQuery{url.Values{}}
	names := []string{"since", "by", "archived"}
	for _, field := range inspect.DeadLetterFields() {
		names = append(names, field.Name)
	}
	for _, name := range names {
		texts := slices.DeleteFunc(slices.Clone(given[name]), func(s string) bool { return s == "" })
		if len(texts) > 0 {
			q.Values[name] = texts
		}
	}
	if q.Get("message")+q.Get("pattern") != "" { // the address of a group
		q.Set("by", "task")
	}
	return q
}

// but returns the query with other values, which are names and values by turns.
func (q deadQuery) but(pairs ...string) deadQuery {
	other := deadQuery{maps.Clone(q.Values)}
	for i := 0; i < len(pairs); i += 2 {
		if other.Del(pairs[i]); pairs[i+1] != "" {
			other.Set(pairs[i], pairs[i+1])
		}
	}
	return other
}

// link is the address of the page.
func (q deadQuery) link(v *visit) string { return v.board.link("/dead") + question(q.Values) }

// Archived reports whether the page has the archived dead letters.
func (q deadQuery) Archived() bool { return q.Get("archived") != "" }

// Listed reports whether the page lists dead letters one by one.
func (q deadQuery) Listed() bool { return q.Get("by") == "task" }

// Filtered reports whether the page leaves some dead letters out.
func (q deadQuery) Filtered() bool { return len(q.but("by", "", "archived", "").Values) > 0 }

func (q deadQuery) filter(v *visit) (inspect.Filter, error) {
	filter, wrong := v.filterFields(inspect.DeadLetterFields(), q.Values)
	for _, name := range slices.Sorted(maps.Keys(wrong)) {
		return filter, notValid(name + strings.TrimPrefix(wrong[name], "It"))
	}
	dead := inspect.DeadLetters()
	if filter.Order, filter.Archived = dead.Order, new(q.Archived()); len(filter.Statuses) == 0 {
		filter.Statuses = dead.Statuses
	}
	since := q.Get("since")
	if !slices.ContainsFunc(sinceChoices, func(known choice) bool { return known.Value == since }) {
		return filter, notValid("since must be 1h, 1d, 7d or 30d")
	}
	if since != "" {
		ago, err := when.Length(since)
		filter.FinishedFrom = v.now.Add(-ago)
		return filter, err
	}
	return filter, nil
}

// deadView shows dead letters, by what went wrong or one by one.
type deadView struct {
	Query deadQuery
	Form  filterForm
	Since []choice
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
		other := q.but("by", by.name)
		if by.name != "task" {
			other = other.but("message", "", "pattern", "") // they are those of a list
		}
		chips = append(chips, chip{Label: by.text, Href: other.link(v), Current: q.Get("by") == by.name})
	}
	archived := q.but("archived", "1")
	if q.Archived() {
		archived = q.but("archived", "")
	}
	return append(chips, chip{Label: "Archived", Href: archived.link(v), Current: q.Archived()})
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
	view.Form = v.filterForm(inspect.DeadLetterFields(), view.Query.Values, nil)
	view.Since = chosen(sinceChoices, view.Query.Get("since"))
	filter, err := view.Query.filter(v)
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
	groups, err := v.inspector.Groups(ctx, v.db, filter, inspect.Grouping(view.Query.Get("by")))
	view.MoreGroups = len(groups) > maxDeadGroups
	if len(groups) > 0 {
		view.Count, view.More = groups[0].Total, groups[0].More
	}
	for _, group := range groups[:min(len(groups), maxDeadGroups)] {
		of := view.Query.but("by", "task", "type", group.Type, "status", string(group.Status), "pattern", group.Pattern,
			"entity", cmp.Or(valueOr(group.Entity), view.Query.Get("entity")),
			"tenant", cmp.Or(valueOr(group.TenantID), view.Query.Get("tenant")))
		one := deadGroup{Group: group, Row: strings.Join([]string{
			group.Type, string(group.Status), valueOr(group.Entity), valueOr(group.TenantID), group.Pattern,
		}, " ")}
		// No filter finds the tasks without an entity or a tenant.
		by := view.Query.Get("by")
		if by == "" || by == "entity" && group.Entity != nil || by == "tenant" && group.TenantID != nil {
			one.Key = of.Encode()
			if group.Pattern != "" {
				one.Link = of.link(v)
			}
		}
		view.Groups = append(view.Groups, one)
	}
	return err
}
