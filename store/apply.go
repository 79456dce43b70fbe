package store

import (
	"context"
	"encoding/json"
	"fmt"
	"time"
)

// Verb names a verb for Apply.
type Verb string

// The verbs. What each does to a task, Cancel, Pause and so on say.
const (
	VerbCancel Verb = "cancel"
	VerbPause  Verb = "pause"
	VerbResume Verb = "resume"
	VerbRunNow Verb = "run_now"
	VerbRetry  Verb = "retry"
	VerbDelete Verb = "delete"
)

// Locked in the order of the ids, as by every bulk call: so they do not deadlock. And locked before the verb sees them: what has
// changed meanwhile so that the filter does not select it any more is left out.
const chosenSQL = `
WITH chosen AS (
    SELECT t.id::text AS id FROM tasktable.scheduled_tasks AS t
    WHERE t.id = ANY (ARRAY(SELECT jsonb_array_elements_text($15::text::jsonb))) AND ` + filterSQL + `
    ORDER BY t.id FOR UPDATE
), given AS (SELECT $16::text AS by, $17::text::boolean AS wake, $18::text::timestamptz AS until)
SELECT done.id, done.revision, done.outcome FROM given CROSS JOIN chosen CROSS JOIN LATERAL `

var applySQL = map[Verb]string{
	VerbCancel: chosenSQL + `tasktable.cancel(chosen.id, given.by) AS done`,
	VerbPause:  chosenSQL + `tasktable.pause(chosen.id, given.by, given.until) AS done`,
	VerbResume: chosenSQL + `tasktable.resume(chosen.id, given.by) AS done`,
	VerbRunNow: chosenSQL + `tasktable.run_now(chosen.id, given.by, given.wake) AS done`,
	VerbRetry:  chosenSQL + `tasktable.retry(chosen.id, given.by, given.wake) AS done`,
	VerbDelete: chosenSQL + `tasktable.delete(chosen.id, given.by) AS done`,
}

// Apply does a verb to those of the tasks with these ids that the filter selects, all in one statement: read the ids by Names, let
// somebody look at them, and apply what was decided, but not to a task that has become another meanwhile. The receipts are in
// the order of the ids; what the filter does not select has none. Until is for VerbPause; zero: until resumed. The filter's After, Limit
// and LatestFirst do not count.
func (s *Store) Apply(ctx context.Context, db DB, verb Verb, ids []string, filter Filter, until time.Time) ([]Receipt, error) {
	doing := fmt.Sprintf("%s %d tasks", verb, len(ids))
	statement, known := applySQL[verb]
	if !known {
		const rule = "must be cancel, pause, resume, run_now, retry or delete"
		return nil, fmt.Errorf("apply: %w", invalid("verb", rule, fmt.Sprintf("%q", string(verb))))
	}
	for _, id := range ids {
		if err := checkID(id); err != nil {
			return nil, fmt.Errorf("%s: %w", doing, err)
		}
	}
	args, err := filter.args()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", doing, err)
	}
	var ends *string
	if !until.IsZero() {
		text, err := timeText("until", until)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", doing, err)
		}
		ends = &text
	}
	encoded, err := json.Marshal(ids)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", doing, err)
	}
	if len(ids) == 0 {
		return nil, nil
	}
	rows, err := s.call(ctx, db, doing, statement, append(args, string(encoded), s.author(), s.wake(true), ends)...)
	return receipts(rows), err
}
