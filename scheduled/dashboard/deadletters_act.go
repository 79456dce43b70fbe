package dashboard

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/tasktable/tasktable/store"
	"github.com/tasktable/tasktable/store/inspect"
)

const (
	// maxDeadAct is how many dead letters one act changes at most, because its transaction locks each of them.
	maxDeadAct = 10000
	// maxDeadFound is how many names are read to find those of a group. No filter finds those without a message alone.
	maxDeadFound = 100000
	deadNamed    = 20 // how many dead letters, and how many kinds of them, the confirmation shows
)

// confirmDeadView asks whether dead letters should be changed.
type confirmDeadView struct {
	Verb  inspect.Verb
	Query deadQuery
	Count int
	More  bool // one act cannot take all
	Kinds []deadKind
	Other int            // how many more kinds there are
	Names []inspect.Name // the first of them
	Gone  []string       // chosen, but no dead letters any more
	IDs   string         // all ids, as JSON
	AsOf  string
	Back  string
	Leave string // the address to go to instead
}

// deadKind counts dead letters of one kind.
type deadKind struct {
	inspect.Name

	Count int
}

// actOnDead asks first. The form of the confirmation has the ids, so that exactly these are changed.
func actOnDead(ctx context.Context, v *visit, verb inspect.Verb) (done, error) {
	q := deadQueryOf(v.request.PostForm)
	q.Archived = false
	if v.form("confirmed") != "" {
		return changeDead(ctx, v, verb)
	}
	filter, err := q.filter(v.now)
	if err != nil {
		return done{}, err
	}
	filter.FinishedTo = v.now // those that end from now on are not among the chosen
	view := confirmDeadView{Verb: verb, Query: q, AsOf: v.now.UTC().Format(time.RFC3339Nano), Back: v.form("back")}
	view.Leave = v.board.link(deadBack(v))
	names, err := view.choose(ctx, v, filter)
	if err != nil {
		return done{}, err
	}
	if len(names) == 0 {
		return done{text: "None of them is a dead letter any more. Nothing was done.", to: deadBack(v)}, nil
	}
	view.More = len(names) > maxDeadAct
	names = names[:min(len(names), maxDeadAct)]
	ids := make([]string, len(names))
	for i, name := range names {
		ids[i] = name.ID
	}
	encoded, err := json.Marshal(ids)
	if err != nil {
		return done{}, fmt.Errorf("encode the ids: %w", err)
	}
	view.IDs, view.Count, view.Kinds = string(encoded), len(names), kindsOf(names)
	view.Names = names[:min(len(names), deadNamed)]
	view.Other = max(0, len(view.Kinds)-deadNamed)
	view.Kinds = view.Kinds[:min(len(view.Kinds), deadNamed)]
	return done{show: "confirm-dead", title: view.title(), view: view}, nil
}

func (view confirmDeadView) title() string {
	does := map[inspect.Verb]string{inspect.Retry: "Retry", inspect.Archive: "Archive"}[view.Verb]
	return does + " " + deadLettersCounted(view.Count) + "?"
}

// Button is the text of the button that confirms.
func (view confirmDeadView) Button() string { return strings.TrimSuffix(view.title(), "?") }

func deadLettersCounted(n int) string { return amount(n, "dead letter", "dead letters") }

// choose returns the dead letters that the form selects, those that ended first first.
func (view *confirmDeadView) choose(ctx context.Context, v *visit, filter inspect.Filter) ([]inspect.Name, error) {
	groups, ids := v.request.PostForm["group"], v.request.PostForm["id"]
	if only := v.form("only"); only != "" {
		groups = []string{only}
	}
	switch {
	case v.form("all") != "":
		filter.Limit = maxDeadAct + 1
		return v.inspector.Names(ctx, v.db, filter)
	case len(groups) > 0:
		return namesOfGroups(ctx, v, groups, filter.FinishedTo)
	case len(ids) > 0:
		return view.namesOf(ctx, v, ids)
	}
	return nil, notValid("at least one of them must be selected")
}

// namesOfGroups finds the dead letters of groups.
func namesOfGroups(ctx context.Context, v *visit, keys []string, before time.Time) ([]inspect.Name, error) {
	if len(keys) > maxDeadGroups {
		return nil, notValid(fmt.Sprintf("group must be given at most %d times", maxDeadGroups))
	}
	var names []inspect.Name
	slices.Sort(keys)
	for _, key := range slices.Compact(keys) { // a form may have one twice
		values, err := url.ParseQuery(key)
		if err != nil {
			return nil, notValid("group must be as the page has it")
		}
		q := deadQueryOf(values)
		q.Archived = false
		filter, err := q.filter(v.now)
		if err != nil {
			return nil, err
		}
		filter.FinishedTo, filter.Limit = before, maxDeadFound
		found, err := v.inspector.Names(ctx, v.db, filter)
		if err != nil {
			return nil, err
		}
		for _, name := range found {
			if name.Pattern == q.Pattern {
				names = append(names, name)
			}
		}
		if len(names) > maxDeadAct { // one act takes no more, and all groups together may fill the memory
			break
		}
	}
	return names, nil
}

// namesOf reads dead letters that were selected one by one.
func (view *confirmDeadView) namesOf(ctx context.Context, v *visit, ids []string) ([]inspect.Name, error) {
	slices.Sort(ids)
	ids = slices.Compact(ids)
	if len(ids) > deadRows {
		return nil, notValid(fmt.Sprintf("id must be given at most %d times", deadRows))
	}
	var names []inspect.Name
	for _, id := range ids {
		row, err := v.tasks.Get(ctx, v.db, id)
		switch {
		case errors.Is(err, store.ErrNotFound), err == nil && !isDead(row):
			view.Gone = append(view.Gone, id)
		case err != nil:
			return nil, err
		default:
			message, _, _ := strings.Cut(textOf(row.Message), "\n")
			names = append(names, inspect.Name{ID: id, Type: row.Type, Status: row.Status, Pattern: message})
		}
	}
	return names, nil
}

// kindsOf counts names by type, status and pattern, the most frequent first.
func kindsOf(names []inspect.Name) []deadKind {
	counts := map[inspect.Name]int{}
	for _, name := range names {
		name.ID = ""
		counts[name]++
	}
	kinds := make([]deadKind, 0, len(counts))
	for name, n := range counts {
		kinds = append(kinds, deadKind{name, n})
	}
	slices.SortFunc(kinds, func(a, b deadKind) int {
		if a.Count != b.Count {
			return b.Count - a.Count
		}
		return strings.Compare(a.Type+string(a.Status)+a.Pattern, b.Type+string(b.Status)+b.Pattern)
	})
	return kinds
}

// changeDead changes the dead letters that somebody has confirmed. It leaves those alone that are no dead letters any
// more, or that have failed once more since.
func changeDead(ctx context.Context, v *visit, verb inspect.Verb) (done, error) {
	var ids []string
	if err := json.Unmarshal([]byte(v.form("ids")), &ids); err != nil || len(ids) == 0 || len(ids) > maxDeadAct {
		return done{}, notValid(fmt.Sprintf("ids must be a list of 1 to %d ids", maxDeadAct))
	}
	asOf, err := time.Parse(time.RFC3339Nano, v.form("as_of"))
	if err != nil {
		return done{}, notValid("as_of must be a time in RFC 3339")
	}
	if !validLongText(v.form("note")) {
		return done{}, notValid("note " + errLongText.Error())
	}
	over, err := time.ParseDuration(cmp.Or(v.form("over"), "0s"))
	if err != nil {
		return done{}, notValid("over must be a duration such as 10m")
	}
	filter := inspect.DeadLetters()
	filter.FinishedTo = asOf
	action := inspect.Action{Verb: verb, Note: v.form("note"), Over: over}
	receipts, err := v.inspector.Apply(ctx, v.db, action, ids, filter)
	if err != nil {
		return done{}, err
	}
	changed := make(map[string]bool, len(receipts))
	for _, receipt := range receipts {
		changed[receipt.ID] = true
	}
	left := slices.DeleteFunc(slices.Clone(ids), func(id string) bool { return changed[id] })
	did := map[inspect.Verb]string{inspect.Retry: "Retried ", inspect.Archive: "Archived "}[verb]
	text := did + deadLettersCounted(len(receipts)) + "."
	switch {
	case len(left) > deadNamed:
		text += fmt.Sprintf(" %s had changed meanwhile and were left alone, among them", deadLettersCounted(len(left)))
	case len(left) > 0:
		text += fmt.Sprintf(" %d had changed meanwhile and were left alone", len(left))
	}
	return done{text: text, tasks: left[:min(len(left), deadNamed)], to: deadBack(v)}, nil
}

// deadBack is the page from which the dead letters were selected.
func deadBack(v *visit) string { return v.board.localPath(cmp.Or(v.form("back"), "/dead")) }
