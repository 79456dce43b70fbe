package dashboard

import (
	"context"
	"fmt"
	"net/url"
	"slices"

	"github.com/tasktable/tasktable/store/inspect"
)

const (
	// maxDeadAct is how many dead letters one act changes at most, because its transaction locks each of them.
	maxDeadAct = 10000
	// maxDeadFound is how many names are read to find those of a group. No filter finds those without a message alone.
	maxDeadFound = 100000
)

// chooseDead selects dead letters, those that ended first first: all, those of groups, or single ones.
func (b *bulk) chooseDead(ctx context.Context, v *visit) error {
	groups, ids := v.request.PostForm["group"], v.request.PostForm["id"]
	if only := v.form("only"); only != "" {
		groups = []string{only}
	}
	switch {
	case v.form("all") != "":
		return b.deadOf(ctx, v, v.request.PostForm, maxDeadAct)
	case len(groups) > maxDeadGroups:
		return notValid(fmt.Sprintf("group must be given at most %d times", maxDeadGroups))
	case len(ids) > deadRows:
		return notValid(fmt.Sprintf("id must be given at most %d times", deadRows))
	}
	slices.Sort(groups)
	for _, key := range slices.Compact(groups) { // a form may have one twice
		values, err := url.ParseQuery(key)
		if err != nil {
			return notValid("group must be as the page has it")
		}
		if err := b.deadOf(ctx, v, values, maxDeadFound); err != nil {
			return err
		}
		if len(b.seen) > maxDeadAct { // one act takes no more, and all groups together may fill the memory
			b.seen, b.more = b.seen[:maxDeadAct], true
			break
		}
	}
	slices.Sort(ids)
	for _, id := range slices.Compact(ids) {
		b.seen = append(b.seen, inspect.Name{ID: id})
	}
	return nil
}

// deadOf adds the dead letters of a page, or of one of its groups, which has a message or none.
func (b *bulk) deadOf(ctx context.Context, v *visit, values url.Values, most int) error {
	q := deadQueryOf(values).but("archived", "")
	filter, err := q.filter(v)
	if err != nil {
		return err
	}
	filter.FinishedTo, filter.Limit = v.now, most // those that end from now on are not among the chosen
	names, more, _, err := v.inspector.Choose(ctx, v.db, b.rule.Verb, filter)
	if err != nil {
		return err
	}
	if v.form("all") == "" {
		names = slices.DeleteFunc(names, func(name inspect.Name) bool { return name.Pattern != values.Get("pattern") })
	}
	b.seen, b.more = append(b.seen, names...), b.more || more
	return nil
}
