package inspect

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/agnivade/levenshtein"

	"github.com/tasktable/tasktable/store"
	"github.com/tasktable/tasktable/store/internal/query"
)

// unknown finds the reason for an id that has neither a row nor a history.
func (i *Inspector) unknown(ctx context.Context, db store.DB, e *Explanation) error {
	e.Reason = Reason{Code: "never_scheduled",
		Text: "never scheduled under this id, or removed by retention or erasure with its history"}
	at := strings.LastIndexByte(e.ID, '@')
	if at < 0 {
		return nil
	}
	parent := e.ID[:at]
	fire, err := time.Parse(time.RFC3339Nano, e.ID[at+1:])
	if err != nil {
		return nil
	}
	row, err := i.tasks.Get(ctx, db, parent)
	if errors.Is(err, store.ErrNotFound) || err == nil && row.Cron == nil {
		return nil
	}
	if err != nil {
		return err
	}
	e.Reason.Code = "no_fire"
	rule, err := i.ruleOf(ctx, db, row)
	switch {
	case err != nil && !errors.Is(err, store.ErrInvalid):
		return err
	case err != nil:
		e.Reason.Text = "recurring task " + parent + " has an expression that cannot be read, and does not fire"
		return nil
	case !rule.Anchored(row.ScheduledAt).Next(fire.Add(-time.Nanosecond)).Equal(fire):
		e.Reason.Text = "recurring task " + parent + " does not fire at that time, by " + *row.Cron + " in " +
			query.OrEmpty(row.TimeZone) + leftOut(rule, fire)
	case fire.After(e.At):
		e.Reason.Text = "recurring task " + parent + " has not fired for that time yet"
	default:
		e.Reason.Text = "recurring task " + parent +
			" did not fire for that time: it had another schedule then, was paused, or its occurrence was removed"
	}
	if next := fires(row, rule); len(next) > 0 {
		e.Reason.Until = &next[0]
	} else if row.Status != store.StatusQueued {
		e.Reason.Text += fmt.Sprintf("; it is %s", row.Status)
	}
	return nil
}

const knownTypesSQL = `
SELECT coalesce(string_agg(DISTINCT known.type, ','), '') FROM tasktable.nodes AS n, unnest(n.types) AS known (type)`

// nearestSQL finds the ids next to $1 in the index, of tasks and of histories whose task is gone. It also finds the
// tasks that have the same key ($2) and another type, and the tasks of the entity $1. $3 is a list of types with
// commas.
const nearestSQL = `
SELECT near.id, bool_or(near.related) AS related FROM (
    (SELECT t.id::text AS id, false AS related FROM tasktable.scheduled_tasks AS t WHERE t.id >= $1::text
        ORDER BY t.id LIMIT 200)
    UNION ALL
    (SELECT t.id::text, false FROM tasktable.scheduled_tasks AS t WHERE t.id < $1::text ORDER BY t.id DESC LIMIT 200)
    UNION ALL
    (SELECT c.task_id, false FROM tasktable.scheduled_task_changes AS c WHERE c.task_id >= $1::text
        ORDER BY c.task_id LIMIT 200)
    UNION ALL
    (SELECT c.task_id, false FROM tasktable.scheduled_task_changes AS c WHERE c.task_id < $1::text
        ORDER BY c.task_id DESC LIMIT 200)
    UNION ALL
    (SELECT t.id::text, true FROM tasktable.scheduled_tasks AS t WHERE t.id IN (
        SELECT 'task-' || known.type || '-' || $2::text FROM unnest(string_to_array($3::text, ',')) AS known (type)))
    UNION ALL
    (SELECT t.id::text, true FROM tasktable.scheduled_tasks AS t WHERE t.entity = $1::text ORDER BY t.id LIMIT 20)
) AS near GROUP BY near.id`

type nearRow struct {
	ID      string
	Related bool // it has the same key, or the given id is its entity
	Changes int  `db:"-"` // how many letters differ
}

// nearestMost is the greatest number of similar ids.
const nearestMost = 5

// nearest returns known ids that are similar to an unknown one. These are the ids with the fewest changed letters,
// and the ids with the same key.
func (i *Inspector) nearest(ctx context.Context, db store.DB, id string, may mayRead) ([]string, error) {
	key := id
	if rest, is := strings.CutPrefix(id, "task-"); is {
		if _, after, found := strings.Cut(rest, "-"); found {
			key = after
		}
	}
	doing, types := "find ids like "+id, ""
	if may.Nodes {
		var err error
		if types, err = query.Value[string](ctx, i.source, db, doing, knownTypesSQL); err != nil {
			return nil, err
		}
	}
	rows, err := query.Collect[nearRow](ctx, i.source, db, doing, nearestSQL, id, key, types)
	if err != nil {
		return nil, err
	}
	for i := range rows {
		rows[i].Changes = levenshtein.ComputeDistance(id, rows[i].ID)
	}
	rows = slices.DeleteFunc(rows, func(row nearRow) bool { return !row.Related && row.Changes > max(3, len(id)/4) })
	slices.SortFunc(rows, func(a, b nearRow) int {
		return cmp.Or(cmp.Compare(a.Changes, b.Changes), cmp.Compare(a.ID, b.ID))
	})
	var ids []string
	for _, row := range rows[:min(len(rows), nearestMost)] {
		ids = append(ids, row.ID)
	}
	return ids, nil
}
