package dashboard

import (
	"context"
	"slices"
	"strconv"

	"github.com/tasktable/tasktable/store/inspect"
)

// maxChangesShown is the length of a page of changes.
const maxChangesShown = 50

// changesView tells who did what, the latest first.
type changesView struct {
	Changes []changeView
	After   int64 // where the next page begins; 0: there is none
	Cut     bool  // the search stopped before the page was full
	Filters bool
	Verbs   []string // to choose from
}

// knownVerbs are most verbs that a change can have, in alphabetical order.
func knownVerbs() []string {
	known := []string{"again", "calendar", "reschedule", "schedule", "sql", "sync"}
	for _, rule := range inspect.Verbs() {
		known = append(known, string(rule.Verb))
	}
	slices.Sort(known)
	return known
}

func changesPage(ctx context.Context, v *visit) (any, error) {
	filter, err := changesFilterOf(v)
	if err != nil {
		return nil, err
	}
	found, err := v.inspector.Changes(ctx, v.db, filter)
	if err != nil {
		return nil, err
	}
	view := changesView{After: found.After, Cut: found.Cut, Verbs: knownVerbs()}
	for _, name := range []string{"by", "verb", "id", "from", "to"} {
		view.Filters = view.Filters || v.query(name) != ""
	}
	for _, change := range found.Changes {
		view.Changes = append(view.Changes, v.changeViewOf(change))
	}
	return view, nil
}

func changesFilterOf(v *visit) (filter inspect.ChangesFilter, err error) {
	filter = inspect.ChangesFilter{
		By: v.query("by"), Verb: v.query("verb"), IDPrefix: v.query("id"), Created: v.query("created") != "",
		Limit: maxChangesShown,
	}
	if filter.From, err = typedField("from", v.query("from"), v.now, v.look.zone); err != nil {
		return filter, err
	}
	if filter.To, err = typedField("to", v.query("to"), v.now, v.look.zone); err != nil {
		return filter, err
	}
	if given := v.query("after"); given != "" {
		if filter.After, err = strconv.ParseInt(given, 10, 64); err != nil {
			return filter, notValid("after must be the number of a change.")
		}
	}
	return filter, nil
}
