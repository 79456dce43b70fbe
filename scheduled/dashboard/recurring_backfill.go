package dashboard

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/tasktable/tasktable/store"
	"github.com/tasktable/tasktable/store/inspect"
)

// lockedRecurring is locked for a task that recurs.
func lockedRecurring(ctx context.Context, v *visit) (store.Row, error) {
	row, err := v.locked(ctx, v.path("id"))
	if err == nil && row.Cron == nil {
		return row, fmt.Errorf("task %s: %w", row.ID, store.ErrNotRecurring)
	}
	return row, err
}

const backfillShown = 10

// backfilling has the occurrences that a backfill would create.
type backfilling struct {
	From, To time.Time
	Most     int
	Count    int
	Exist    int // fires that have an occurrence already
	More     bool
	First    []time.Time
	LastAt   time.Time
}

// backfill counts first. Then it creates the occurrences that a recurring task would have had.
func backfill(ctx context.Context, v *visit) (done, error) {
	row, err := lockedRecurring(ctx, v)
	if err != nil {
		return done{}, err
	}
	var view backfilling
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
	button := "Create " + occurrencesCounted(view.Count)
	asked := confirmation{
		Said: view.remarks(v, row.ID), Path: recurringPath(row.ID) + "/backfill", Button: button,
		Back: recurringPath(row.ID),
	}
	for _, at := range view.First {
		asked.Facts = append(asked.Facts, fact{Text: v.exact(at)})
	}
	form := frame{visit: v}
	return asked.with("revision", strconv.FormatInt(row.Revision, 10), "zone", form.Zone(), "from",
		form.Input(view.From), "to", form.Input(view.To), "most", strconv.Itoa(view.Most)).asked(button + "?"), nil
}

func (view *backfilling) remarks(v *visit, id string) []remark {
	said := []remark{{Text: fmt.Sprintf("For the fires of %s from %s to %s. All are due at once, and their expiration "+
		"counts from now.", id, v.exact(view.First[0]), v.exact(view.LastAt))}}
	if view.Exist > 0 {
		said = append(said, remark{Text: amount(view.Exist,
			"fire of that time has an occurrence already. It stays as it is.",
			"fires of that time have occurrences already. These stay as they are.")})
	}
	if view.More {
		said = append(said, remark{Tone: "warn", Text: fmt.Sprintf(
			"There are more fires in that time. The earliest %d are taken.", view.Most)})
	}
	if view.Count > len(view.First) {
		said = append(said, remark{Text: fmt.Sprintf("These are the first %d.", len(view.First))})
	}
	return said
}

func occurrencesCounted(n int) string { return amount(n, "occurrence", "occurrences") }

// read reads the form.
func (view *backfilling) read(v *visit) (err error) {
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
func (view *backfilling) find(ctx context.Context, v *visit, row store.Row) error {
	rule, err := v.tasks.ForTenant(textOf(row.TenantID)).Rule(ctx, v.db, *row.Cron, textOf(row.TimeZone))
	if err != nil {
		return notValid(sentence(err))
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
	return nil
}
