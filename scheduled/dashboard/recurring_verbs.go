package dashboard

import (
	"context"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/tasktable/tasktable/store"
	"github.com/tasktable/tasktable/store/inspect"
	"github.com/tasktable/tasktable/store/recurrence"
)

// recurringVerb is a verb of recurring tasks, with the sentence for each of its outcomes.
type recurringVerb struct {
	do   func(context.Context, *visit, string) (store.Receipt, error)
	said map[store.Outcome]string
	asks bool // it needs a confirmation
}

// recurringVerbs has the verbs by the last part of their path.
var recurringVerbs = map[string]recurringVerb{
	"pause": {do: pauseTask, said: map[store.Outcome]string{
		store.Paused: "Paused.", store.Unchanged: "It was paused already.", store.Finished: "It has ended already.",
	}},
	"resume": {
		do: func(ctx context.Context, v *visit, id string) (store.Receipt, error) {
			return v.tasks.Resume(ctx, v.db, id)
		},
		said: map[store.Outcome]string{
			store.Queued: "Resumed.", store.Unchanged: "It was not paused.", store.Finished: "It has ended already.",
		},
	},
	"run-now": {
		do: func(ctx context.Context, v *visit, id string) (store.Receipt, error) {
			return v.tasks.RunNow(ctx, v.db, id)
		},
		said: map[store.Outcome]string{store.Queued: "One more occurrence runs now."},
	},
	"cancel": {
		do: func(ctx context.Context, v *visit, id string) (store.Receipt, error) {
			return v.tasks.Cancel(ctx, v.db, id)
		},
		said: map[store.Outcome]string{
			store.Cancelled: "Cancelled.", store.Unchanged: "It was cancelled already.",
			store.Finished: "It has ended already.",
		},
		asks: true,
	},
}

// confirmRecurringView asks whether a recurring task should be cancelled.
type confirmRecurringView struct {
	ID         string
	Revision   int64
	DeclaredBy string
}

func (verb recurringVerb) act(ctx context.Context, v *visit) (done, error) {
	row, err := lockedRecurring(ctx, v)
	if err != nil {
		return done{}, err
	}
	if verb.asks && v.form("confirmed") == "" {
		task, err := v.inspector.GetRecurring(ctx, v.db, row.ID)
		view := confirmRecurringView{row.ID, row.Revision, textOf(task.DeclaredBy)}
		return done{show: "confirm-recurring", title: "Cancel " + row.ID + "?", view: view}, err
	}
	receipt, err := verb.do(ctx, v, row.ID)
	if err != nil {
		return done{}, err
	}
	text := verb.said[receipt.Outcome]
	if text == "" {
		text = "The outcome is " + string(receipt.Outcome) + "."
	}
	return done{text: text, to: recurringPath(row.ID)}, nil
}

// lockedRecurring is locked for a task that recurs.
func lockedRecurring(ctx context.Context, v *visit) (store.Row, error) {
	row, err := v.locked(ctx, v.path("id"))
	if err == nil && row.Cron == nil {
		return row, fmt.Errorf("task %s: %w", row.ID, store.ErrNotRecurring)
	}
	return row, err
}

const backfillShown = 10

// confirmBackfillView asks whether occurrences should be created.
type confirmBackfillView struct {
	ID              string
	Revision        int64
	From, To        time.Time
	Most            int
	Count           int
	Exist           int // fires that have an occurrence already
	More            bool
	First           []time.Time
	FirstAt, LastAt time.Time
}

// Button is the text of the button that confirms.
func (view confirmBackfillView) Button() string { return "Create " + occurrencesCounted(view.Count) }

// backfill counts first. Then it creates the occurrences that a recurring task would have had.
func backfill(ctx context.Context, v *visit) (done, error) {
	row, err := lockedRecurring(ctx, v)
	if err != nil {
		return done{}, err
	}
	view := confirmBackfillView{ID: row.ID, Revision: row.Revision}
	if err := view.read(v); err != nil {
		return done{}, err
	}
	if v.form("confirmed") != "" {
		made, err := v.tasks.Backfill(ctx, v.db, row.ID, view.From, view.To, view.Most)
		return done{text: fmt.Sprintf("Created %s.", occurrencesCounted(made)), to: recurringPath(row.ID)}, err
	}
	if err := view.find(ctx, v, row); err != nil {
		return done{}, err
	}
	if view.Count == 0 {
		text := "There is nothing to create: the task has no fire in that time."
		if view.Exist > 0 {
			text = "There is nothing to create: each fire of that time has an occurrence already."
		}
		return done{text: text, to: recurringPath(row.ID)}, nil
	}
	return done{show: "confirm-backfill", title: view.Button() + "?", view: view}, nil
}

func occurrencesCounted(n int) string { return amount(n, "occurrence", "occurrences") }

// read reads the form.
func (view *confirmBackfillView) read(v *visit) (err error) {
	if view.From, err = v.momentOf("from"); err != nil {
		return err
	}
	if view.To, err = v.momentOf("to"); err != nil {
		return err
	}
	view.Most, err = strconv.Atoi(v.form("most"))
	switch {
	case view.From.IsZero():
		return notValid("from must be given")
	case view.To.IsZero():
		return notValid("to must be given")
	case !view.From.Before(view.To):
		return notValid("from must be before to")
	case err != nil || view.Most < 1 || view.Most > store.MaxBackfill:
		return notValid(fmt.Sprintf("at most must be a number from 1 to %d", store.MaxBackfill))
	}
	return nil
}

// find counts the occurrences that Backfill would create.
func (view *confirmBackfillView) find(ctx context.Context, v *visit, row store.Row) error {
	rule, err := recurrence.Parse(*row.Cron, textOf(row.TimeZone))
	if err != nil {
		return problem{http.StatusUnprocessableEntity, "Not valid", errorView{Text: sentence(err)}}
	}
	to := view.To
	if to.After(v.now) {
		to = v.now // the leader creates the occurrences of coming fires
	}
	fires, more := rule.Anchored(row.ScheduledAt).Between(view.From, to, view.Most)
	if view.More = more; len(fires) == 0 {
		return nil
	}
	existing, err := v.inspector.Names(ctx, v.db, inspect.Filter{
		IDPrefix: row.ID + "@", Order: inspect.ByID, Limit: inspect.MaxNames,
		ScheduledFrom: fires[0], ScheduledTo: fires[len(fires)-1].Add(time.Second),
	})
	if err != nil {
		return err
	}
	known := make(map[string]bool, len(existing))
	for _, name := range existing {
		known[name.ID] = true
	}
	for _, at := range fires {
		if known[row.ID+"@"+at.UTC().Format(time.RFC3339)] {
			view.Exist++
			continue
		}
		if view.Count++; len(view.First) < backfillShown {
			view.First = append(view.First, at)
		}
		view.LastAt = at
	}
	if len(view.First) > 0 {
		view.FirstAt = view.First[0]
	}
	return nil
}
