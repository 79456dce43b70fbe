package inspect

import (
	"context"
	"strconv"
	"time"

	"github.com/tasktable/tasktable/store"
	"github.com/tasktable/tasktable/store/internal/query"
)

// Attention tells what an operator should look at.
type Attention struct {
	// At is the database's time of the answer.
	At time.Time `json:"at"`
	// Late are the tasks that have been due for more than a minute and are not claimed. Their At is when they were
	// due. Tasks that a pause of everything, of their queue or of their type holds back are not late, because somebody
	// wants that. The alerts and the notices of late tasks leave them out, too. Tasks that wait for something that is
	// out of order are late.
	Late Several `json:"late"`
	// Waiting are the tasks that wait for something that is out of order, such as a host whose circuit is open. Their
	// At is when they were due.
	Waiting Several `json:"waiting"`
	// Dead are the dead letters that nobody has archived. Their At is when they ended.
	Dead Several `json:"dead"`
	// Paused are the tasks that are paused by themselves. Their At is when they were paused.
	Paused Several `json:"paused"`
	// Stuck are the claimed tasks whose lease has ended. Their At is when it ended.
	Stuck Several `json:"stuck"`
	// Pauses are the pauses of everything, of queues and of types that hold now.
	Pauses []store.Pause `json:"pauses"`
}

// Several counts tasks, and names the oldest of them.
type Several struct {
	Count int `json:"count"`
	// More tells that there are more than Count.
	More bool `json:"more,omitempty"`
	// OldestID and OldestAt are nil if Count is 0.
	OldestID *string    `json:"oldest_id,omitempty"`
	OldestAt *time.Time `json:"oldest_at,omitempty"`
}

// attentionMost is up to which number Attention counts the tasks of each kind.
const attentionMost = 10000

const severalSQL = `
SELECT count(*) AS count, false AS more, (array_agg(one.id ORDER BY one.at, one.id COLLATE "C"))[1] AS oldest_id,
    min(one.at) AS oldest_at
FROM (`

// lateSQL reads the tasks of the lanes whose first task is late, and stops when it has read enough. It begins with the
// lane whose first task has been due for longest.
const lateSQL = lanesCTE + `, late AS (
    SELECT * FROM lane
    WHERE lane.head <= statement_timestamp() AND lane.due < statement_timestamp() - interval '1 minute'
        AND NOT EXISTS (
        SELECT FROM tasktable.pauses AS p WHERE (p.ends_at IS NULL OR p.ends_at > statement_timestamp())
            AND (p.scope = 'all' OR p.scope = 'queue' AND p.name = lane.queue
                OR p.scope = 'type' AND p.name = lane.type))
    ORDER BY lane.due
), waiting AS (
    SELECT t.id::text AS id, t.waiting_since AS at, t.next_attempt_at FROM tasktable.scheduled_tasks AS t
    WHERE t.waiting_since < statement_timestamp() - interval '1 minute' AND t.next_attempt_at IS NOT NULL
        AND NOT EXISTS (SELECT FROM tasktable.pauses AS p WHERE (p.ends_at IS NULL OR p.ends_at > statement_timestamp())
            AND (p.scope = 'all' OR p.scope = 'queue' AND p.name = t.queue
                OR p.scope = 'type' AND p.name = t.type))
    ORDER BY t.waiting_since LIMIT $1::text::int
)` + severalSQL + `
    (SELECT waiting.id, waiting.at FROM waiting
    WHERE waiting.next_attempt_at > statement_timestamp()) -- the others are counted below
    UNION ALL
    SELECT task.id, task.at FROM late CROSS JOIN LATERAL (
        SELECT t.id::text AS id, ` + dueSQL + ` AS at FROM tasktable.scheduled_tasks AS t
        WHERE t.queue = late.queue AND t.type = late.type AND t.priority = late.priority AND t.cron IS NULL
            AND t.next_attempt_at <= statement_timestamp()
        ORDER BY t.next_attempt_at LIMIT $1::text::int) AS task
    WHERE task.at < statement_timestamp() - interval '1 minute'
    LIMIT $1::text::int
) AS one`

const waitingSQL = severalSQL + `
    SELECT t.id::text AS id, t.waiting_since AS at FROM tasktable.scheduled_tasks AS t
    WHERE t.waiting_since IS NOT NULL AND t.next_attempt_at IS NOT NULL ORDER BY t.waiting_since LIMIT $1::text::int
) AS one`

// deadSQL and pausedSQL read the index scheduled_tasks_rare.
const deadSQL = severalSQL + `
    (SELECT t.id::text AS id, t.finished_at AS at FROM tasktable.scheduled_tasks AS t
    WHERE t.status = 'FAILED' AND t.status NOT IN ('QUEUED', 'EXECUTING', 'COMPLETED') AND t.archived_at IS NULL
    ORDER BY t.finished_at LIMIT $1::text::int)
    UNION ALL
    (SELECT t.id::text AS id, t.finished_at AS at FROM tasktable.scheduled_tasks AS t
    WHERE t.status = 'EXPIRED' AND t.status NOT IN ('QUEUED', 'EXECUTING', 'COMPLETED') AND t.archived_at IS NULL
    ORDER BY t.finished_at LIMIT $1::text::int)
    ORDER BY at LIMIT $1::text::int
) AS one`

const pausedSQL = severalSQL + `
    SELECT t.id::text AS id, t.last_status_update AS at FROM tasktable.scheduled_tasks AS t
    WHERE t.status = 'PAUSED' AND t.status NOT IN ('QUEUED', 'EXECUTING', 'COMPLETED')
    LIMIT $1::text::int
) AS one`

const stuckSQL = severalSQL + `
    SELECT t.id::text AS id, t.lease_expires_at::timestamptz AS at FROM tasktable.scheduled_tasks AS t
    WHERE t.lease_expires_at < statement_timestamp() ORDER BY t.lease_expires_at LIMIT $1::text::int
) AS one`

// Attention tells what an operator should look at: late tasks, tasks that wait, dead letters, paused tasks, stuck
// tasks and pauses. It counts up to 10,000 of each kind. If more tasks are paused, it does not know the oldest, and
// names one of them.
func (i *Inspector) Attention(ctx context.Context, db store.DB) (found Attention, err error) {
	for _, one := range []struct {
		sql, doing string
		into       *Several
	}{
		{lateSQL, "count late tasks", &found.Late},
		{waitingSQL, "count tasks that wait", &found.Waiting},
		{deadSQL, "count dead letters", &found.Dead},
		{pausedSQL, "count paused tasks", &found.Paused},
		{stuckSQL, "count stuck tasks", &found.Stuck},
	} {
		rows, err := query.Collect[Several](ctx, i.source, db, one.doing, one.sql, strconv.Itoa(attentionMost+1))
		if err != nil {
			return found, err
		}
		*one.into = rows[0]
		if rows[0].Count > attentionMost {
			one.into.Count, one.into.More = attentionMost, true
		}
	}
	if found.Pauses, err = i.tasks.Pauses(ctx, db); err != nil {
		return found, err
	}
	found.At, err = i.tasks.Now(ctx, db)
	return found, err
}
