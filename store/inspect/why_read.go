package inspect

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/tasktable/tasktable/store"
	"github.com/tasktable/tasktable/store/internal/query"
)

// storyColumns are the columns of a store.Change. Of a change that is large, the story tells only whether the payload
// changed, by its MD5, so that a story has a bound.
const (
	storyColumns = `
SELECT c.revision, c.task_id, c.verb, c.outcome, c.changed_at, c.changed_by,
    (SELECT` + storySideSQL + `FROM (SELECT c.old AS side) AS of)::text AS old,
    (SELECT` + storySideSQL + `FROM (SELECT c.new AS side) AS of)::text AS new
FROM `
	storySideSQL = ` CASE WHEN octet_length(side::text) > 16384
    THEN side - 'payload' - 'result' || jsonb_strip_nulls(jsonb_build_object('payload', CASE
        WHEN side -> 'payload' IS NOT NULL THEN jsonb_build_object('md5', md5(side ->> 'payload')) END))
    ELSE side END `
)

// The order is that of store.History.
const storyChangesSQL = storyColumns + `(
    SELECT * FROM tasktable.scheduled_task_changes WHERE task_id = $1::text
    ORDER BY changed_at DESC, revision DESC LIMIT $2::text::bigint
) AS c ORDER BY c.changed_at, c.revision`

const firstChangeSQL = storyColumns + `tasktable.scheduled_task_changes AS c
WHERE c.task_id = $1::text ORDER BY c.changed_at, c.revision LIMIT 1`

// mayRead tells which of the tables the role may read that an application's role may not.
type mayRead struct {
	Nodes bool
	Jobs  bool
}

// Why asks for the rights first, because a refused query would abort the caller's transaction.
const mayReadSQL = `
SELECT has_table_privilege('tasktable.nodes'::regclass, 'SELECT') AS nodes,
    has_table_privilege('tasktable.river_job'::regclass, 'SELECT') AS jobs`

// lifeOf reads the history of a task and its surroundings.
func (i *Inspector) lifeOf(ctx context.Context, db store.DB, e *Explanation) (known life, err error) {
	may, err := query.Collect[mayRead](ctx, i.source, db, "explain task "+e.ID, mayReadSQL)
	if err != nil {
		return known, err
	}
	known.mayRead = may[0]
	known.changes, err = query.Collect[store.Change](ctx, i.source, db, "explain task "+e.ID, storyChangesSQL, e.ID,
		strconv.Itoa(storyMost+1))
	if err != nil {
		return known, err
	}
	if known.executions, err = i.tasks.Executions(ctx, db, e.ID, "", storyMost+1); err != nil {
		return known, err
	}
	if len(known.executions) > storyMost {
		known.executions, known.shortened = known.executions[1:], true
	}
	if len(known.changes) > storyMost { // the story tells the first change in any case
		first, err := query.Collect[store.Change](ctx, i.source, db, "explain task "+e.ID, firstChangeSQL, e.ID)
		if err != nil {
			return known, err
		}
		known.changes, known.shortened = append(first, known.changes[1:]...), true
	}
	if err := i.surroundings(ctx, db, e, &known); err != nil {
		return known, err
	}
	return known, nil
}

// nodesOfSQL finds the nodes by their numbers, and those that worked the type and the queue. $1 is a list of numbers
// with commas.
const nodesOfSQL = `
SELECT n.number, n.service, n.version, n.host, n.started_at, coalesce(n.last_seen_at, n.dead_at) AS gone_at,
    coalesce($2::text = ANY (n.types) AND n.queues -> $3::text IS NOT NULL, false) AS able
FROM tasktable.nodes AS n
WHERE n.number = ANY (string_to_array($1::text, ',')::bigint[])
    OR $2::text = ANY (n.types) AND n.queues -> $3::text IS NOT NULL
ORDER BY n.number DESC LIMIT 1000`

const pausesOfSQL = `
SELECT p.scope, p.name, p.paused_at, p.paused_by, p.ends_at::timestamptz AS ends_at, p.resumed_by, p.reason,
    p.planned_end::timestamptz AS planned_end
FROM tasktable.pauses AS p
WHERE (p.scope = 'all' OR p.scope = 'type' AND p.name = $1::text OR p.scope = 'queue' AND p.name = $2::text)
    AND (p.ends_at IS NULL OR p.ends_at > $3::text::timestamptz)
ORDER BY p.paused_at`

// surroundings reads the task's nodes, pauses, relatives and claim. The queue of a task that is gone is the one in
// its last change.
func (i *Inspector) surroundings(ctx context.Context, db store.DB, e *Explanation, known *life) error {
	doing := "explain task " + e.ID
	kind, queue := known.lane(e.Row)
	var numbers []string
	if e.Row != nil && e.Row.Node != nil {
		numbers = append(numbers, strconv.FormatInt(*e.Row.Node, 10))
	}
	for _, execution := range known.executions {
		if execution.Node != nil {
			numbers = append(numbers, strconv.FormatInt(*execution.Node, 10))
		}
	}
	slices.Sort(numbers)
	known.nodes = map[int64]nodeLife{}
	if known.mayRead.Nodes {
		nodes, err := query.Collect[nodeLife](ctx, i.source, db, doing, nodesOfSQL,
			strings.Join(slices.Compact(numbers), ","), kind, queue)
		if err != nil {
			return err
		}
		for _, node := range nodes {
			known.nodes[node.Number] = node
		}
	}
	if since := known.since(); !since.IsZero() && kind != "" {
		// A pause that ended before the first change did not concern the task.
		var err error
		known.pauses, err = query.Collect[pauseLife](ctx, i.source, db, doing, pausesOfSQL, kind, queue,
			since.UTC().Format(time.RFC3339Nano))
		if err != nil {
			return err
		}
	}
	if e.Row == nil {
		return nil
	}
	return i.relatives(ctx, db, *e.Row, known)
}

// lane returns the task's type and queue, if they are known.
func (l *life) lane(row *store.Row) (kind, queue string) {
	if row != nil {
		return row.Type, row.Queue
	}
	queue = "default"
	for _, execution := range l.executions {
		kind = execution.Type
	}
	if len(l.changes) > 0 {
		old := decodeFields(l.changes[len(l.changes)-1].Old)
		if was, ok := old["queue"].(string); ok {
			queue = was
		}
		if payload, ok := old["payload"].(map[string]any); ok {
			kind, _ = payload["type"].(string)
		}
	}
	return kind, queue
}

// since returns the time of the first known event of the task.
func (l *life) since() time.Time {
	if len(l.changes) > 0 {
		return l.changes[0].ChangedAt
	}
	if len(l.executions) > 0 {
		return l.executions[0].ScheduledAt
	}
	return time.Time{}
}

// claimOfSQL finds River's job by the tasks in it, which are fence:revision:attempt:due:length:id, one after the
// other. It needs no index, because few jobs are unfinished at once. The leader's guess of the database's clock makes
// created_at, so a job may seem to have been fetched before.
const claimOfSQL = `
SELECT j.state::text AS state, nullif(substring(j.attempted_by[array_length(j.attempted_by, 1)] FROM '-([0-9]+)$'),
    '')::bigint AS node,
    j.attempted_at AS since, least(j.created_at, j.attempted_at) AS claimed_at,
    coalesce(substring(j.args ->> 'tasks' FROM $1::text || ':[0-9]+:([0-9]+):')::int, 0) AS attempt
FROM tasktable.river_job AS j
WHERE j.state IN ('available', 'running') AND j.kind = $3::text
    AND position($1::text || ':' IN j.args ->> 'tasks') > 0
    AND position(':' || octet_length($2::text) || ':' || $2::text IN j.args ->> 'tasks') > 0
LIMIT 1`

// relatives reads the task's parent or occurrences, its follow-ups, and where its claim is.
func (i *Inspector) relatives(ctx context.Context, db store.DB, row store.Row, known *life) error {
	doing := "explain task " + row.ID
	if row.ParentID != nil {
		parent, err := i.tasks.Get(ctx, db, *row.ParentID)
		if err != nil && !errors.Is(err, store.ErrNotFound) {
			return err
		}
		if err == nil {
			known.parent = &parent
		}
	}
	for _, one := range []*store.Row{known.parent, &row} {
		if one != nil && one.Cron != nil {
			rule, err := i.ruleOf(ctx, db, *one)
			if err != nil && !errors.Is(err, store.ErrInvalid) {
				return err
			}
			known.rule = rule
		}
	}
	var err error
	if known.followUps, err = i.FollowUps(ctx, db, row.ID); err != nil {
		return err
	}
	if row.Cron != nil {
		if known.occurrences, err = i.Occurrences(ctx, db, occurrencesMost, row.ID); err != nil {
			return err
		}
		slices.Reverse(known.occurrences)
	}
	if row.Fence != nil && known.mayRead.Jobs {
		claims, err := query.Collect[claimLife](ctx, i.source, db, doing, claimOfSQL,
			strconv.FormatInt(*row.Fence, 10), row.ID, row.Type)
		if err != nil {
			return err
		}
		if len(claims) > 0 {
			known.claim = &claims[0]
		}
	}
	return nil
}
