package inspect

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/tasktable/tasktable/store"
	"github.com/tasktable/tasktable/store/internal/check"
	"github.com/tasktable/tasktable/store/internal/query"
)

// Verb names a verb for Apply.
type Verb string

// The verbs. The methods of store.Store with the same names document the effect of each verb on a task.
const (
	Cancel  Verb = "cancel"
	Pause   Verb = "pause"
	Resume  Verb = "resume"
	RunNow  Verb = "run_now"
	Retry   Verb = "retry"
	Archive Verb = "archive"
	Delete  Verb = "delete"
)

// Action is a verb and its arguments.
type Action struct {
	Verb Verb
	// Until is the time at which tasks that Pause pauses resume by themselves. The zero time means that they wait
	// until somebody resumes them.
	Until time.Time
	// Note is the note that Archive stores with a dead letter.
	Note string
	// Over spreads the tasks that Retry retries evenly over this time, in the order of the given ids, so that they do
	// not all meet at once a service that has just come back. The first is due at once. The expiration of each counts
	// from its own time. 0 means that all are due at once. Over is at most MaxOver.
	Over time.Duration
	// After delays all tasks that Retry retries. It serves a caller that retries in several batches. After and Over
	// together are at most MaxOver.
	After time.Duration
}

// MaxOver is the longest time over which Retry spreads tasks.
const MaxOver = 24 * time.Hour

func (a Action) check() error {
	rule := fmt.Sprintf("must be from 0 to %s", MaxOver)
	switch {
	case a.Over < 0 || a.Over > MaxOver:
		return check.Invalid("over", rule, a.Over)
	case a.After < 0 || a.After > MaxOver-a.Over:
		return check.Invalid("after", rule+", together with over", a.After)
	case a.Verb != Retry && a.Over+a.After > 0:
		return check.Invalid("over", "is for retry alone", a.Verb)
	}
	return check.Note("note", a.Note)
}

// chosenSQL locks the rows in the order in which every bulk call does, so that two calls do not deadlock. It locks
// them before the verb sees them, so that it excludes a task that has changed meanwhile and that the filter no
// longer selects.
const chosenSQL = `
WITH chosen AS (
    SELECT t.id::text AS id FROM tasktable.scheduled_tasks AS t
    WHERE t.id = ANY (ARRAY(SELECT jsonb_array_elements_text($18::text::jsonb))) AND ` + filterSQL + `
    ORDER BY t.id || '~' FOR NO KEY UPDATE
), given AS (
    SELECT $19::text AS by, $20::text::boolean AS wake, nullif($21::text, '')::timestamptz AS until,
        nullif($22::text, '') AS note, $23::text::interval AS after, $24::text::interval AS step
), placed AS (
    SELECT e.id, min(e.place) - 1 AS steps
    FROM jsonb_array_elements_text($18::text::jsonb) WITH ORDINALITY AS e (id, place) GROUP BY e.id
)
SELECT done.id, coalesce(done.revision, 0) AS revision, done.outcome
FROM given CROSS JOIN chosen JOIN placed USING (id) CROSS JOIN LATERAL `

var applySQL = map[Verb]string{
	Cancel: chosenSQL + `tasktable.cancel(chosen.id, given.by) AS done`,
	Pause:  chosenSQL + `tasktable.pause(chosen.id, given.by, given.until) AS done`,
	Resume: chosenSQL + `tasktable.resume(chosen.id, given.by) AS done`,
	RunNow: chosenSQL + `tasktable.run_now(chosen.id, given.by, given.wake) AS done`,
	Retry: chosenSQL + `tasktable.retry(chosen.id, given.by, given.wake,
		given.after + given.step * placed.steps) AS done`,
	Archive: chosenSQL + `tasktable.archive(chosen.id, given.note, given.by) AS done`,
	Delete:  chosenSQL + `tasktable.delete(chosen.id, given.by) AS done`,
}

// Apply applies a verb, in one statement, to those of the given tasks that the filter selects. It returns one receipt
// for each of them, in the order of their ids. The filter's Order, After, Limit and LatestFirst have no effect.
//
// Apply serves a decision that a person makes. Read the ids by Names, let the person look at them, and pass the ids
// and the same filter to Apply. Apply then leaves a task alone that has changed meanwhile so that the filter no
// longer selects it.
func (i *Inspector) Apply(
	ctx context.Context, db store.DB, action Action, ids []string, filter Filter,
) ([]store.Receipt, error) {
	doing := fmt.Sprintf("%s %d tasks", action.Verb, len(ids))
	statement, known := applySQL[action.Verb]
	if !known {
		const rule = "must be cancel, pause, resume, run_now, retry, archive or delete"
		return nil, fmt.Errorf("apply: %w", check.Invalid("verb", rule, fmt.Sprintf("%q", string(action.Verb))))
	}
	for _, id := range ids {
		if err := check.ID(id); err != nil {
			return nil, fmt.Errorf("%s: %w", doing, err)
		}
	}
	args, err := filter.args()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", doing, err)
	}
	until, err := check.BoundText("until", action.Until)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", doing, err)
	}
	if err := action.check(); err != nil {
		return nil, fmt.Errorf("%s: %w", doing, err)
	}
	encoded, err := json.Marshal(ids)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", doing, err)
	}
	if len(ids) == 0 {
		return nil, nil
	}
	args = append(args, string(encoded), check.OrNil(i.config.Service), strconv.FormatBool(!i.config.NoNotify), until,
		action.Note, check.IntervalText(action.After), check.IntervalText(action.Over/time.Duration(len(ids))))
	receipts, err := query.Collect[store.Receipt](ctx, i.source, db, doing, statement, args...)
	slices.SortFunc(receipts, func(a, b store.Receipt) int { return strings.Compare(a.ID, b.ID) })
	return receipts, err
}

// ApplyAll applies a verb to the tasks that the filter selects: the first ones in its order, up to its Limit. The
// receipts are in the order of the ids. ApplyAll leaves a task alone that has changed since it was selected, so that
// the filter no longer selects it.
func (i *Inspector) ApplyAll(ctx context.Context, db store.DB, action Action, filter Filter) ([]store.Receipt, error) {
	names, err := i.Names(ctx, db, filter)
	if err != nil {
		return nil, err
	}
	ids := make([]string, len(names))
	for i, name := range names {
		ids[i] = name.ID
	}
	return i.Apply(ctx, db, action, ids, filter)
}
