package taskdb

import (
	"slices"
	"strings"
)

// With a limit in order, a task of a group or tenant starts when the one before has ended, after all its attempts. The
// claim sets the column goes_first. A task that goes first and waits again holds up the others of its group or tenant:
// it is to be retried, or its claim was handed back.
//
// This is exact, because the claim looks for such a task itself, after the leader has read River's jobs. A job is
// removed after the outcomes of its tasks are committed. So if the leader has seen the job of the task before, that
// task counts as running, and nothing is granted. If it has not, the claim sees what became of the task.

// OrderOf says with which tasks limits in order keep the tasks of a queue and type in order: those of the words all,
// queue and type. It is "" if there is no such limit.
func OrderOf(limits []Limit, queue, kind string) string {
	var words []string
	for _, limit := range limits {
		if limit.InOrder && limit.Of(queue, kind) && !slices.Contains(words, limit.Scope) {
			words = append(words, limit.Scope)
		}
	}
	slices.Sort(words)
	return strings.Join(words, " ")
}

// Counted reports whether the lane is that of a group or tenant. The key of tasks without one has nothing behind its
// prefix.
func (k LaneKey) Counted() bool { return len(k.LimitKey) > len("g:") }

// joinFirstSQL finds, for each lane in order, the task that goes first. The order does not change while tasks wait, so
// that two of them do not hold up each other.
const joinFirstSQL = `
    LEFT JOIN LATERAL (
        SELECT o.id::text AS first, o.next_attempt_at::timestamptz AS first_at,
            o.queue = lane.queue AND o.type = lane.type AND o.priority = lane.priority AS here
        FROM tasktable.scheduled_tasks AS o
        WHERE lane.in_order <> '' AND o.limit_key = lane.limit_key AND o.goes_first AND o.next_attempt_at IS NOT NULL
            AND o.cron IS NULL AND (lane.in_order LIKE '%all%' OR lane.in_order LIKE '%queue%' AND o.queue = lane.queue
                OR lane.in_order LIKE '%type%' AND o.type = lane.type)
        ORDER BY o.scheduled_at, o.id LIMIT 1
    ) AS first ON true`

// claimInOrderSQL claims from lanes in order, whose words are the last parameter. Of such a lane it takes the task that
// goes first, and no other while there is one. That task has the time first_at, so that the scan steps over no others.
var claimInOrderSQL = strings.NewReplacer(
	"FROM unnest($4::text[]", "FROM (SELECT lane.*, first.* FROM unnest($4::text[]",
	"$11::text[])", "$11::text[], $12::text[])",
	"AS l (queue, type, priority, head, tasks, near, limit_key, number)",
	"AS lane (queue, type, priority, head, tasks, near, limit_key, in_order, number)"+joinFirstSQL+") AS l",
	"tasks, limit_key,\n", "tasks, limit_key, first, first_at,\n",
	"BETWEEN (lane.limit_key, lane.head) AND (lane.limit_key, clock.now + lane.ahead)",
	"BETWEEN (lane.limit_key, coalesce(lane.first_at, lane.head)) "+
		"AND (lane.limit_key, least(clock.now + lane.ahead, lane.first_at))\n            "+
		"AND coalesce(t.id = lane.first, true)",
	// Its time is that of its retry, and tasks that are due before wait behind it.
	"t.next_attempt_at AS since", "CASE WHEN t.goes_first THEN '1970-01-01' ELSE t.next_attempt_at END AS since",
	"next_attempt_at = NULL,", "next_attempt_at = NULL,\n        goes_first = true,",
).Replace(claimKeyedSQL)

// lockOrderedHeadSQL locks the task that claimInOrderSQL would take.
const lockOrderedHeadSQL = `
WITH lane AS MATERIALIZED (
    SELECT lane.*, first.*
    FROM (SELECT $1::text AS queue, $2::text AS type, $3::int AS priority, $7::text AS limit_key,
        $8::text AS in_order) AS lane` + joinFirstSQL + `
)
SELECT t.id::text AS id, coalesce(t.revision, 0) AS revision, $2::text AS type
FROM lane CROSS JOIN LATERAL (
    SELECT t.id, t.revision FROM tasktable.scheduled_tasks AS t
    WHERE t.queue = lane.queue AND t.type = lane.type AND t.priority = lane.priority AND t.cron IS NULL
        AND t.limit_key <> '' AND t.next_attempt_at IS NOT NULL AND t.id <> ALL ($5::text[])
        AND (t.limit_key, t.next_attempt_at) BETWEEN (lane.limit_key, coalesce(lane.first_at, $6::timestamptz))
            AND (lane.limit_key, least(clock_timestamp() + $4::interval, lane.first_at))
        AND coalesce(t.id = lane.first, true)
    ORDER BY t.limit_key, t.next_attempt_at LIMIT 1 FOR UPDATE SKIP LOCKED
) AS t`
