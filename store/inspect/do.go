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

// check returns the rule of the action's verb.
func (a Action) check() (VerbRule, error) {
	rule, known := a.Verb.Rule()
	if !known {
		return rule, check.Invalid("verb", verbWords(), fmt.Sprintf("%q", string(a.Verb)))
	}
	bounds := fmt.Sprintf("must be from 0 to %s", MaxOver)
	switch {
	case a.Over < 0 || a.Over > MaxOver:
		return rule, check.Invalid("over", bounds, a.Over)
	case a.After < 0 || a.After > MaxOver-a.Over:
		return rule, check.Invalid("after", bounds+", together with over", a.After)
	case !rule.Needs("over") && a.Over+a.After > 0:
		return rule, check.Invalid("over", "is for retry alone", a.Verb)
	case len(a.Note) > MaxNote:
		return rule, check.Invalid("note", "must be at most 4096 bytes", fmt.Sprintf("%d bytes", len(a.Note)))
	}
	return rule, check.Note("note", a.Note)
}

// Targets are the tasks on which Do acts.
type Targets struct {
	// IDs are the ids of tasks. Each gets a receipt, unless there is a Filter.
	IDs []string
	// Seen are tasks as a person saw them. Do leaves a task alone whose revision is another one now. It also leaves a
	// task alone whose status is another one now, if the verb Restarts or SameStatus is set.
	Seen       []Name
	SameStatus bool
	// Filter selects among the IDs or the Seen: Do leaves a task alone that it does not select, at the time of the
	// change. Without IDs and Seen, Do chooses the tasks by it, as Choose does.
	Filter *Filter
	// Dry only chooses the tasks, and changes nothing.
	Dry bool
	// Except leaves out some of the tasks that the Filter chooses.
	Except func(Name) bool
}

// Done tells what Do has done.
type Done struct {
	Receipts []store.Receipt // in the order of the ids
	// Chosen are the tasks that the Filter chose. It is nil if the ids were given.
	Chosen []Name
	// More tells that the Filter selects more tasks than its Limit.
	More bool
}

// Choose lists the tasks on which a verb would act: the first ones that the filter selects, in its order and up to its
// Limit. A filter without statuses selects those of the verb's rule. For a verb of dead letters it selects no archived
// ones. more tells that there are more. filter is the completed filter, for Targets.
func (i *Inspector) Choose(ctx context.Context, db store.DB, verb Verb, given Filter) (
	chosen []Name, more bool, filter Filter, err error,
) {
	rule, err := Action{Verb: verb}.check()
	if err != nil {
		return nil, false, given, fmt.Errorf("choose tasks: %w", err)
	}
	if filter = given; len(filter.Statuses) == 0 {
		filter.Statuses = rule.Statuses
	}
	if rule.Dead && filter.Archived == nil {
		filter.Archived = new(false)
	}
	limit, err := filter.limit(MaxNames)
	if err != nil {
		return nil, false, filter, fmt.Errorf("choose tasks: %w", err)
	}
	wanted := filter
	wanted.Limit = min(limit+1, MaxNames)
	if chosen, err = i.Names(ctx, db, wanted); len(chosen) > limit {
		return chosen[:limit], true, filter, err
	}
	return chosen, false, filter, err
}

// doSQL calls a verb, which follows it. It locks the rows in the order in which every bulk call does, so that two calls
// do not deadlock. It locks them before the verb sees them, so that it excludes a task that has changed meanwhile and
// that is no longer selected.
const doSQL = `
WITH named AS (
    SELECT e.value ->> 'id' AS id, min(e.place) - 1 AS steps, min((e.value ->> 'revision')::bigint) AS revision,
        min(e.value ->> 'status') AS status
    FROM jsonb_array_elements(@tasks::jsonb) WITH ORDINALITY AS e (value, place) GROUP BY 1
), chosen AS (
    SELECT t.id::text AS id FROM tasktable.scheduled_tasks AS t
    JOIN named ON named.id = t.id AND named.revision IN (0, t.revision) AND named.status IN ('', t.status)
    WHERE t.id = ANY (ARRAY(SELECT named.id FROM named)) AND ` + filterSQL + `
    ORDER BY t.id || '~' FOR NO KEY UPDATE OF t
), given AS (
    SELECT nullif(@by, '') AS by, @wake::boolean AS wake, nullif(@until, '')::timestamptz AS until,
        nullif(@note, '') AS note,
        @after::interval AS after, @step::interval AS step
)
SELECT done.id, coalesce(done.revision, 0) AS revision, done.outcome
FROM given CROSS JOIN chosen JOIN named USING (id) CROSS JOIN LATERAL `

// Do applies a verb to tasks in one statement. The receipts are in the order of the ids. Of tasks that a Filter or
// Seen leaves alone there is none.
//
// A decision that a person makes has two calls. Choose lists the tasks, and the person looks at them. Then Do takes
// them as Seen, or their ids with the same filter, and leaves a task alone that has changed meanwhile.
func (i *Inspector) Do(ctx context.Context, db store.DB, action Action, on Targets) (done Done, err error) {
	rule, err := action.check()
	if err != nil {
		return done, fmt.Errorf("do: %w", err)
	}
	if on.Filter != nil && len(on.IDs)+len(on.Seen) == 0 {
		names, more, filter, err := i.Choose(ctx, db, action.Verb, *on.Filter)
		if err != nil {
			return done, err
		}
		if on.Except != nil {
			names = slices.DeleteFunc(names, on.Except)
		}
		if done = (Done{Chosen: names, More: more}); on.Dry {
			return done, nil
		}
		on.Filter, on.IDs = &filter, idsOf(names)
	}
	if on.Dry {
		return done, nil
	}
	done.Receipts, err = i.apply(ctx, db, action, rule, on)
	return done, err
}

func idsOf(names []Name) []string {
	ids := make([]string, len(names))
	for i, name := range names {
		ids[i] = name.ID
	}
	return ids
}

// apply applies a verb to the tasks that are named.
func (i *Inspector) apply(
	ctx context.Context, db store.DB, action Action, rule VerbRule, on Targets,
) ([]store.Receipt, error) {
	tasks := on.tasks(rule)
	doing := fmt.Sprintf("%s %d tasks", action.Verb, len(tasks))
	if len(tasks) == 1 {
		doing = fmt.Sprintf("%s task %s", action.Verb, tasks[0].ID)
	}
	args, err := action.args(tasks, on.Filter)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", doing, err)
	}
	if len(tasks) == 0 {
		return nil, nil
	}
	sql, bound := args.with("by", i.config.Service, "wake", strconv.FormatBool(!i.config.NoNotify)).
		bind(doSQL + rule.call + ` AS done`)
	receipts, err := query.Collect[store.Receipt](ctx, i.source, db, doing, sql, bound...)
	if err == nil && on.Filter == nil {
		receipts = withAbsent(receipts, on.IDs)
	}
	slices.SortFunc(receipts, func(a, b store.Receipt) int { return strings.Compare(a.ID, b.ID) })
	return receipts, err
}

// args checks an action on tasks, and returns it as doSQL takes it.
func (a Action) args(tasks []Name, filter *Filter) (args arguments, err error) {
	args = arguments{}
	if filter != nil {
		if args, err = filter.args(); err != nil {
			return nil, err
		}
	}
	for _, one := range tasks {
		if err := check.ID(one.ID); err != nil {
			return nil, err
		}
	}
	until, err := check.BoundText("until", a.Until)
	if err != nil {
		return nil, err
	}
	encoded, err := json.Marshal(tasks)
	return args.with("tasks", string(encoded), "until", until, "note", a.Note,
		"after", check.IntervalText(a.After), "step", check.IntervalText(a.Over/time.Duration(max(len(tasks), 1)))), err
}

// tasks returns the tasks as doSQL takes them. One without a revision or a status may have any.
func (on Targets) tasks(rule VerbRule) []Name {
	named := make([]Name, 0, len(on.IDs)+len(on.Seen))
	for _, id := range on.IDs {
		named = append(named, Name{ID: id})
	}
	for _, seen := range on.Seen {
		one := Name{ID: seen.ID, Revision: seen.Revision}
		if rule.Restarts || on.SameStatus {
			one.Status = seen.Status
		}
		named = append(named, one)
	}
	return named
}

// withAbsent adds a receipt for each id of no task.
func withAbsent(receipts []store.Receipt, ids []string) []store.Receipt {
	found := make(map[string]bool, len(receipts))
	for _, receipt := range receipts {
		found[receipt.ID] = true
	}
	for _, id := range ids {
		if !found[id] {
			found[id] = true
			receipts = append(receipts, store.Receipt{ID: id, Outcome: store.Absent})
		}
	}
	return receipts
}
