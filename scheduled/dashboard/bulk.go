package dashboard

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/tasktable/tasktable/scheduled/dashboard/internal/words"
	"github.com/tasktable/tasktable/store"
	"github.com/tasktable/tasktable/store/inspect"
	"github.com/tasktable/tasktable/store/when"
)

const (
	maxBulk   = 1000 // tasks in one act, because its transaction locks each of them until its end
	maxListed = 50   // tasks that the question names
	maxNamed  = 5    // tasks that the sentence about the result names
)

// seenTask is a task as a person saw it.
type seenTask struct {
	ID       string       `json:"id"`
	Revision int64        `json:"revision"`
	Status   store.Status `json:"status"`
}

// String is the value of the box that selects the task.
func (s seenTask) String() string { return fmt.Sprintf("%d %s %s", s.Revision, s.Status, s.ID) }

func seenTaskOf(text string) (seenTask, error) {
	parts := strings.SplitN(text, " ", 3)
	if len(parts) == 3 {
		revision, err := strconv.ParseInt(parts[0], 10, 64)
		if err == nil && slices.Contains(store.Statuses(), store.Status(parts[1])) && validName(parts[2]) {
			return seenTask{parts[2], revision, store.Status(parts[1])}, nil
		}
	}
	return seenTask{}, notValid("The field task must be a revision, a status and an id.")
}

// bulkView asks whether to act on many tasks.
type bulkView struct {
	Verb    bulkVerb
	Count   int // tasks on which the act will work
	Amount  string
	Groups  []bulkGroup
	Listed  []presentTask // the first of them
	Changed []string      // ids of tasks that somebody has changed since the list was drawn
	Hidden  int           // changed tasks that Changed does not name
	More    bool          // more tasks match than the act takes
	MaxBulk int
	Seen    []seenTask // for the form
	Exact   bool       // the status must be the same, too
	Input   input      // the argument of the verb, if it takes one
	Errors  formErrors
	Back    string
}

// bulkGroup is the tasks of a status, and what happens to them.
type bulkGroup struct {
	Status store.Status
	Amount string
	Effect string
}

// presentTask is a task as it is now.
type presentTask struct {
	ID       string
	Type     string
	Status   store.Status
	Revision int64
}

// actOnTasks asks first, and acts when the person has confirmed it.
func actOnTasks(ctx context.Context, v *visit) (done, error) {
	verb, known := bulkVerbOf(v.form("verb"))
	if !known {
		return done{}, notValid("The field verb must be cancel, pause, resume, run_now, retry, archive or delete.")
	}
	if err := allow(v.person, scopesOf(string(verb.Verb)), false); err != nil {
		return done{}, err
	}
	view := bulkView{
		Verb: verb, MaxBulk: maxBulk, Exact: verb.restarts || v.form("exact") != "", Errors: formErrors{},
		Back: v.form("back"),
	}
	if err := v.selected(ctx, &view); err != nil {
		return done{}, err
	}
	action := inspect.Action{Verb: verb.Verb}
	view.Input = v.argumentOf(&action, view.Errors)
	if v.form("confirmed") == "" || len(view.Errors) > 0 {
		return v.ask(ctx, view)
	}
	return v.applyTo(ctx, view, action)
}

// argumentOf reads the argument of the verb, if it takes one, and returns its field.
func (v *visit) argumentOf(action *inspect.Action, wrong formErrors) (one input) {
	switch action.Verb {
	case inspect.Pause:
		one = input{Name: "until", Label: "Paused until", List: "moments", Hint: "Empty: until somebody resumes " +
			"them. Otherwise a time in the zone " + v.look.zone.String() + ", such as 2026-11-21 18:00, or +1h."}
		var err error
		action.Until, err = when.Time(v.form("until"), v.now, v.look.zone)
		if err == nil && !action.Until.IsZero() && !action.Until.After(v.now) {
			err = errors.New("must be a time to come")
		}
		wrong.note("until", err)
	case inspect.Archive:
		one = input{Name: "note", Label: "Note", Hint: "What was done about it, for those who ask later."}
		if action.Note = v.form("note"); !validLongText(action.Note) {
			wrong.note("note", errLongText)
		}
	}
	one.Value, one.Error = v.form(one.Name), wrong[one.Name]
	return one
}

// selected reads which tasks the person has selected: each by its box, or all that match the filter.
func (v *visit) selected(ctx context.Context, view *bulkView) error {
	if v.form("all") != "" {
		return v.allThatMatch(ctx, view)
	}
	for _, text := range v.request.PostForm["task"] {
		seen, err := seenTaskOf(text)
		if err != nil {
			return err
		}
		if err := reserved(v.person, seen.ID, ""); err != nil {
			return err
		}
		view.Seen = append(view.Seen, seen)
	}
	slices.SortFunc(view.Seen, func(a, b seenTask) int { return strings.Compare(a.ID, b.ID) })
	view.Seen = slices.CompactFunc(view.Seen, func(a, b seenTask) bool { return a.ID == b.ID })
	switch {
	case len(view.Seen) == 0:
		return notValid("No task is selected. Select at least one. Nothing was done.")
	case len(view.Seen) > maxBulk:
		return notValid(fmt.Sprintf("Select at most %s tasks. Nothing was done.", words.Count(maxBulk, false)))
	}
	return nil
}

// allThatMatch selects the first tasks that match the filter of the list, in its order.
func (v *visit) allThatMatch(ctx context.Context, view *bulkView) error {
	values, err := url.ParseQuery(strings.TrimPrefix(v.form("filter"), "?"))
	if err != nil {
		return notValid("The field filter must be the parameters of an address.")
	}
	filter, wrong := filterOf(values, v.now, v.look.zone)
	if len(wrong) > 0 {
		return notValid("The filter is not valid. Nothing was done.")
	}
	view.Exact = view.Exact || len(filter.Statuses) > 0
	if len(filter.Statuses) == 0 {
		filter.Statuses = view.Verb.statuses
	}
	if view.Verb.Verb == inspect.Retry || view.Verb.Verb == inspect.Archive {
		filter.Archived = new(false)
	}
	filter.After, filter.Limit = nil, maxBulk+1
	names, err := v.inspector.Names(ctx, v.db, filter)
	if err != nil {
		return err
	}
	view.More = len(names) > maxBulk
	ids := make([]string, 0, maxBulk)
	for _, name := range names[:min(len(names), maxBulk)] {
		ids = append(ids, name.ID)
	}
	present, err := v.present(ctx, ids)
	if err != nil {
		return err
	}
	for _, id := range ids {
		if task, known := present[id]; known && reserved(v.person, id, task.Type) == nil {
			view.Seen = append(view.Seen, seenTask{id, task.Revision, task.Status})
		}
	}
	if len(view.Seen) == 0 {
		return notValid("No task matches on which " + strings.ToLower(view.Verb.Label) + " works. Nothing was done.")
	}
	return nil
}

const presentSQL = `
SELECT t.id::text AS id, t.type::text AS type, t.status::text AS status, t.revision
FROM tasktable.scheduled_tasks AS t WHERE t.id = ANY (ARRAY(SELECT jsonb_array_elements_text($1::text::jsonb)))`

// present reads tasks as they are now.
func (v *visit) present(ctx context.Context, ids []string) (map[string]presentTask, error) {
	encoded, err := json.Marshal(ids)
	if err != nil {
		return nil, fmt.Errorf("encode %d ids: %w", len(ids), err)
	}
	rows, err := v.db.Query(ctx, v.board.schema.SQL(presentSQL), string(encoded))
	if err != nil {
		return nil, fmt.Errorf("read %d tasks: %w", len(ids), err)
	}
	found, err := pgx.CollectRows(rows, pgx.RowToStructByName[presentTask])
	if err != nil {
		return nil, fmt.Errorf("read %d tasks: %w", len(ids), err)
	}
	present := make(map[string]presentTask, len(found))
	for _, task := range found {
		present[task.ID] = task
	}
	return present, nil
}

// ask shows what will happen, and changes nothing.
func (v *visit) ask(ctx context.Context, view bulkView) (done, error) {
	ids := make([]string, len(view.Seen))
	for i, seen := range view.Seen {
		ids[i] = seen.ID
	}
	present, err := v.present(ctx, ids)
	if err != nil {
		return done{}, err
	}
	counts := map[store.Status]int{}
	for i, seen := range view.Seen {
		task, known := present[seen.ID]
		if !known || task.Revision != seen.Revision {
			view.Changed = append(view.Changed, seen.ID)
			continue
		}
		view.Seen[i].Status = task.Status // this is what the person sees now
		counts[task.Status]++
		if view.Count++; len(view.Listed) < maxListed {
			view.Listed = append(view.Listed, task)
		}
	}
	view.Amount = amount(view.Count, "task", "tasks")
	view.Hidden = max(0, len(view.Changed)-maxListed)
	view.Changed = view.Changed[:min(len(view.Changed), maxListed)]
	for _, status := range store.Statuses() {
		if counts[status] > 0 {
			view.Groups = append(view.Groups, bulkGroup{status, amount(counts[status], "task", "tasks"),
				view.Verb.effectOn(status)})
		}
	}
	asked := done{show: "confirm-tasks", title: view.Verb.Label + " " + view.Amount + "?", view: view}
	if len(view.Errors) > 0 {
		asked.status = http.StatusUnprocessableEntity
	}
	return asked, nil
}

// lockSeenSQL locks the tasks that are still as the person saw them. It locks them in the order in which every bulk
// call does, so that two calls do not deadlock.
const lockSeenSQL = `
SELECT t.id::text FROM tasktable.scheduled_tasks AS t
JOIN jsonb_to_recordset($1::text::jsonb) AS seen (id text, revision bigint, status text)
    ON seen.id = t.id AND seen.revision = t.revision AND (NOT $2::text::boolean OR seen.status = t.status)
ORDER BY t.id || '~' FOR NO KEY UPDATE OF t`

// applyTo applies the verb to the tasks that are still as the person saw them.
func (v *visit) applyTo(ctx context.Context, view bulkView, action inspect.Action) (done, error) {
	encoded, err := json.Marshal(view.Seen)
	if err != nil {
		return done{}, fmt.Errorf("encode %d tasks: %w", len(view.Seen), err)
	}
	rows, err := v.db.Query(ctx, v.board.schema.SQL(lockSeenSQL), string(encoded), strconv.FormatBool(view.Exact))
	if err != nil {
		return done{}, fmt.Errorf("lock %d tasks: %w", len(view.Seen), err)
	}
	ids, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		return done{}, fmt.Errorf("lock %d tasks: %w", len(view.Seen), err)
	}
	receipts, err := v.inspector.Apply(ctx, v.db, action, ids, inspect.Filter{})
	if err != nil {
		return done{}, err
	}
	same := make(map[string]bool, len(ids))
	for _, id := range ids {
		same[id] = true
	}
	var changed []string
	for _, seen := range view.Seen {
		if !same[seen.ID] {
			changed = append(changed, seen.ID)
		}
	}
	made := done{text: view.Verb.told(receipts, len(changed)), tasks: changed}
	if len(changed) == 0 && len(ids) <= maxNamed && view.Verb.Verb != inspect.Delete {
		made.tasks = ids
	}
	if len(made.tasks) > maxNamed {
		made.text += fmt.Sprintf(", of which these are the first %d", maxNamed)
		made.tasks = made.tasks[:maxNamed]
	}
	if len(made.tasks) == 0 {
		made.text += "."
	}
	return made, nil
}

// hasCode reports whether Postgres refused a statement with a code.
func hasCode(err error, code string) bool {
	var refused *pgconn.PgError
	return errors.As(err, &refused) && refused.Code == code
}
