package dashboard

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/tasktable/tasktable/scheduled/dashboard/internal/words"
	"github.com/tasktable/tasktable/scheduled/internal/pg"
	"github.com/tasktable/tasktable/store"
	"github.com/tasktable/tasktable/store/inspect"
	"github.com/tasktable/tasktable/store/when"
)

const (
	maxBulk   = 1000 // tasks in one act, because its transaction locks each of them until its end
	maxListed = 50   // tasks that the question names
	maxNamed  = 5    // tasks that the sentence about the result names
	maxKinds  = 20   // kinds of dead letters that the question names
)

// seenTaskOf reads the value of the box that selects a task; see taskRow.
func seenTaskOf(text string) (inspect.Name, error) {
	parts := strings.SplitN(text, " ", 3)
	if len(parts) == 3 {
		revision, err := strconv.ParseInt(parts[0], 10, 64)
		if err == nil && slices.Contains(store.Statuses(), store.Status(parts[1])) && validName(parts[2]) {
			return inspect.Name{ID: parts[2], Revision: revision, Status: store.Status(parts[1])}, nil
		}
	}
	return inspect.Name{}, notValid("The field task must be a revision, a status and an id.")
}

// bulk is an act on many tasks.
type bulk struct {
	rule inspect.VerbRule
	dead bool // it is of the page of dead letters
	most int

	seen   []inspect.Name // the tasks that the person has selected
	more   bool           // more tasks match than the act takes
	same   bool           // the status must be the same, too
	action inspect.Action
	inputs []input
	wrong  formErrors
}

// actOnTasks is an act on the page of tasks. The form says which verb.
func actOnTasks(ctx context.Context, v *visit) (done, error) {
	rule, known := inspect.Verb(v.form("verb")).Rule()
	if !known {
		return done{}, notValid("The field verb must be that of a button.")
	}
	if err := allow(v.person, scopesOf(rule), false); err != nil {
		return done{}, err
	}
	return (&bulk{rule: rule, most: maxBulk, same: v.form("exact") != ""}).act(ctx, v)
}

// act asks first, and acts when the person has confirmed it. The form of the question has the tasks as the person has
// seen them.
func (b *bulk) act(ctx context.Context, v *visit) (done, error) {
	b.wrong = formErrors{}
	if err := b.choose(ctx, v); err != nil {
		return done{}, err
	}
	if b.readArguments(v); v.form("confirmed") == "" || len(b.wrong) > 0 {
		return b.ask(ctx, v)
	}
	on := inspect.Targets{Seen: b.seen, SameStatus: b.same}
	if b.dead { // those that have failed once more are left alone
		asOf, err := time.Parse(time.RFC3339Nano, v.form("as_of"))
		if err != nil {
			return done{}, notValid("as_of must be a time in RFC 3339")
		}
		on.Filter = new(inspect.DeadLetters())
		on.Filter.FinishedTo = asOf
	}
	did, err := v.inspector.Do(ctx, v.db, b.action, on)
	if err != nil {
		return done{}, err
	}
	return b.done(v, did.Receipts), nil
}

// done tells the result. It names the tasks that were left alone, or else the changed ones if they are few.
func (b *bulk) done(v *visit, receipts []store.Receipt) done {
	changed := make(map[string]bool, len(receipts))
	var named []string
	for _, receipt := range receipts {
		changed[receipt.ID] = true
		named = append(named, receipt.ID)
	}
	var left []string
	for _, seen := range b.seen {
		if !changed[seen.ID] {
			left = append(left, seen.ID)
		}
	}
	made := done{text: b.rule.Told("", receipts, len(left)), tasks: left, to: b.back(v)}
	if len(left) == 0 && len(named) <= maxNamed && b.rule.Verb != inspect.Delete {
		made.tasks = named
	}
	if len(made.tasks) > maxNamed {
		made.text += fmt.Sprintf(", of which these are the first %d", maxNamed)
		made.tasks = made.tasks[:maxNamed]
	}
	if len(made.tasks) == 0 {
		made.text += "."
	}
	return made
}

// back is the page from which the tasks were selected.
func (b *bulk) back(v *visit) string {
	if b.dead {
		return v.board.localPath(cmp.Or(v.form("back"), "/dead"))
	}
	return v.board.localPath(v.form("back"))
}

// readArguments reads the arguments of the verb, and makes their inputs.
func (b *bulk) readArguments(v *visit) {
	b.action.Verb = b.rule.Verb
	for _, argument := range b.rule.Takes {
		one := input{Name: argument, Value: v.form(argument)}
		var err error
		switch argument {
		case "until":
			one.Label, one.List = "Paused until", "moments"
			one.Hint = "Empty: until somebody resumes them. Otherwise a time in the zone " + v.look.zone.String() +
				", such as 2026-11-21 18:00, or +1h."
			b.action.Until, err = when.Time(one.Value, v.now, v.look.zone)
			if err == nil && !b.action.Until.IsZero() && !b.action.Until.After(v.now) {
				err = errors.New("must be a time to come")
			}
		case "note":
			one.Label, one.Hint = "Note", "What was done about it, for those who ask later."
			if b.action.Note = one.Value; len(one.Value) > inspect.MaxNote {
				err = errors.New("must be at most 4096 bytes of UTF-8 without NUL")
			}
		case "over":
			one.Label, one.Choices = "Due", chosen(spreads, one.Value)
			if b.action.Over, err = time.ParseDuration(cmp.Or(one.Value, "0s")); err != nil {
				err = errors.New("must be a duration such as 10m")
			}
		}
		b.wrong.note(argument, err)
		one.Error = b.wrong[argument]
		b.inputs = append(b.inputs, one)
	}
}

// spreads are the times over which tasks are retried.
var spreads = []choice{
	{Value: "", Label: "all at once"}, {Value: "1m", Label: "one after the other, over 1 minute"},
	{Value: "10m", Label: "one after the other, over 10 minutes"},
	{Value: "1h", Label: "one after the other, over 1 hour"},
	{Value: "12h", Label: "one after the other, over 12 hours"},
}

// choose reads which tasks the person has selected: each by its box, all that match the filter, or groups of dead
// letters. The form of the question names them all.
func (b *bulk) choose(ctx context.Context, v *visit) (err error) {
	switch given := v.form("seen"); {
	case given != "":
		if json.Unmarshal([]byte(given), &b.seen) != nil || len(b.seen) == 0 {
			return notValid("seen must be a list of tasks")
		}
	case b.dead:
		err = b.chooseDead(ctx, v)
	case v.form("all") != "":
		err = b.allThatMatch(ctx, v)
	default:
		for _, text := range v.request.PostForm["task"] {
			seen, err := seenTaskOf(text)
			if err != nil {
				return err
			}
			b.seen = append(b.seen, seen)
		}
	}
	if err != nil {
		return err
	}
	slices.SortStableFunc(b.seen, func(one, two inspect.Name) int {
		if b.dead {
			return 0 // they stay in the order in which they ended
		}
		return strings.Compare(one.ID, two.ID)
	})
	b.seen = slices.CompactFunc(b.seen, func(one, two inspect.Name) bool { return one.ID == two.ID })
	switch {
	case len(b.seen) == 0:
		return notValid("No task is selected on which " + strings.ToLower(b.rule.Label) + " works. Nothing was done.")
	case len(b.seen) > b.most:
		return notValid(fmt.Sprintf("Select at most %s tasks. Nothing was done.", words.Count(b.most, false)))
	}
	for _, seen := range b.seen {
		if err := reserved(v.person, seen.ID, ""); err != nil && !b.dead {
			return err
		}
	}
	return nil
}

// allThatMatch selects the first tasks that match the filter of the list, in its order.
func (b *bulk) allThatMatch(ctx context.Context, v *visit) error {
	values, err := url.ParseQuery(strings.TrimPrefix(v.form("filter"), "?"))
	if err != nil {
		return notValid("The field filter must be the parameters of an address.")
	}
	filter, wrong := v.filterOf(values)
	if len(wrong) > 0 {
		return notValid("The filter is not valid. Nothing was done.")
	}
	b.same = b.same || len(filter.Statuses) > 0
	filter.After, filter.Limit = nil, b.most
	if b.seen, b.more, _, err = v.inspector.Choose(ctx, v.db, b.rule.Verb, filter); err != nil {
		return err
	}
	b.seen = slices.DeleteFunc(b.seen, func(name inspect.Name) bool {
		return reserved(v.person, name.ID, name.Type) != nil
	})
	return nil
}

// presentTask is a task as it is now.
type presentTask struct {
	inspect.Name

	Archived bool
}

const presentSQL = `
SELECT t.id::text AS id, t.type::text AS type, t.status::text AS status, t.revision,
    t.archived_at IS NOT NULL AS archived,
    tasktable.message_pattern(t.message) AS pattern
FROM tasktable.scheduled_tasks AS t WHERE t.id = ANY ($1::text[])`

// present reads tasks as they are now.
func (v *visit) present(ctx context.Context, tasks []inspect.Name) (map[string]presentTask, error) {
	ids := make([]string, len(tasks))
	for i, task := range tasks {
		ids[i] = task.ID
	}
	found, err := pg.CollectRows[presentTask](ctx, v.db, fmt.Sprintf("read %d tasks", len(ids)),
		v.board.schema.SQL(presentSQL), ids)
	if err != nil {
		return nil, err
	}
	present := make(map[string]presentTask, len(found))
	for _, task := range found {
		present[task.ID] = task
	}
	return present, nil
}

// ask shows what will happen, and changes nothing.
func (b *bulk) ask(ctx context.Context, v *visit) (done, error) {
	present, err := v.present(ctx, b.seen)
	if err != nil {
		return done{}, err
	}
	var left []string
	var names []inspect.Name
	for _, seen := range b.seen {
		task, known := present[seen.ID]
		if !known || seen.Revision != 0 && task.Revision != seen.Revision ||
			b.dead && (task.Archived || !slices.Contains(b.rule.Statuses, task.Status)) {
			left = append(left, seen.ID)
			continue
		}
		names = append(names, task.Name)
	}
	encoded, err := json.Marshal(names) // as the person sees them now
	if err != nil {
		return done{}, fmt.Errorf("encode %d tasks: %w", len(names), err)
	}
	title := b.rule.Label + " " + b.amount(len(names))
	asked := confirmation{
		Said: b.remarks(left), Facts: b.facts(names), Names: names[:min(len(names), maxListed)], Of: len(names),
		Path: "/tasks/act", Inputs: b.inputs, Danger: b.rule.Danger, Back: b.back(v),
	}.with("verb", string(b.rule.Verb), "seen", string(encoded), "back", v.form("back"))
	if b.dead {
		asked = asked.with("as_of", v.now.UTC().Format(time.RFC3339Nano))
		asked.Path = "/dead/" + b.rule.Path()
	}
	if b.same {
		asked = asked.with("exact", "1")
	}
	if len(names) > 0 {
		asked.Button = title
	}
	made := asked.asked(title + "?")
	if len(b.wrong) > 0 {
		made.status = http.StatusUnprocessableEntity
	}
	return made, nil
}

func (b *bulk) amount(n int) string {
	if b.dead {
		return amount(n, "dead letter", "dead letters")
	}
	return amount(n, "task", "tasks")
}

// remarks tell what the act leaves out.
func (b *bulk) remarks(left []string) (said []remark) {
	if b.more {
		said = append(said, remark{Tone: "warn", Text: fmt.Sprintf(
			"More than %s match. One act takes at most %s. These are the first of the list. Do it again for the rest.",
			b.amount(b.most), words.Count(b.most, false))})
	}
	if len(left) > 0 {
		said = append(said, remark{Tone: "warn", Tasks: left[:min(len(left), maxListed)],
			Text: "Changed since the list was drawn, and therefore left alone:"})
	}
	return said
}

// facts tell what happens to the tasks of each status, and what went wrong with dead letters.
func (b *bulk) facts(names []inspect.Name) (facts []fact) {
	counts, kinds := map[store.Status]int{}, map[inspect.Name]int{}
	for _, name := range names {
		counts[name.Status]++
		kinds[inspect.Name{Type: name.Type, Status: name.Status, Pattern: name.Pattern}]++
	}
	for _, status := range store.Statuses() {
		if counts[status] > 0 {
			facts = append(facts, fact{status, b.amount(counts[status]), "Each " + b.rule.EffectOn(status).Text + "."})
		}
	}
	if !b.dead {
		return facts
	}
	sorted := make([]inspect.Name, 0, len(kinds))
	for kind := range kinds {
		sorted = append(sorted, kind)
	}
	slices.SortFunc(sorted, func(one, two inspect.Name) int {
		return cmp.Or(kinds[two]-kinds[one], strings.Compare(one.Type+one.Pattern, two.Type+two.Pattern))
	})
	for _, kind := range sorted[:min(len(sorted), maxKinds)] {
		facts = append(facts, fact{kind.Status, words.Count(kinds[kind], false) + " of " + kind.Type,
			cmp.Or(kind.Pattern, "no message")})
	}
	if more := len(sorted) - maxKinds; more > 0 {
		facts = append(facts, fact{nil, "", fmt.Sprintf("And %d more kinds.", more)})
	}
	return facts
}
