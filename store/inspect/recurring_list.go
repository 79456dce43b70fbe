package inspect

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/tasktable/tasktable/store"
	"github.com/tasktable/tasktable/store/calendars"
	"github.com/tasktable/tasktable/store/internal/check"
	"github.com/tasktable/tasktable/store/internal/query"
)

// RecurringTask is a recurring task as the view recurring_tasks shows it.
type RecurringTask struct {
	ID       string       `json:"id"`
	Type     string       `json:"type"`
	Queue    string       `json:"queue"`
	Status   store.Status `json:"status"`
	Entity   *string      `json:"entity,omitempty"`
	TenantID *string      `json:"tenant_id,omitempty"`
	Cron     string       `json:"cron"`
	TimeZone string       `json:"time_zone"`
	// StartsAt is the time for which the task was scheduled. It does not fire before that.
	StartsAt time.Time `json:"starts_at" doc:"From when it fires."`
	// NextFire is the planned next fire. It is nil until the leader has planned it, while the task is paused, and
	// after the task has ended.
	NextFire        *time.Time     `json:"next_fire,omitempty"`
	LastFire        *time.Time     `json:"last_fire,omitempty"`
	OccurrenceCount int            `json:"occurrence_count"`
	Overlap         store.Overlap  `json:"overlap"`
	CatchUp         store.CatchUp  `json:"catch_up"`
	CatchUpPaused   store.CatchUp  `json:"catch_up_paused"`
	CatchUpLimit    int            `json:"catch_up_limit"`
	Jitter          *time.Duration `json:"jitter,omitempty"` // nanoseconds in JSON
	EndsAt          *time.Time     `json:"ends_at,omitempty"`
	MaxOccurrences  *int           `json:"max_occurrences,omitempty"`
	PausedUntil     *time.Time     `json:"paused_until,omitempty"`
	// IsPaused tells that everything, the task's queue or its type is paused. If the task itself is paused, its
	// Status is PAUSED.
	IsPaused   bool    `json:"is_paused" doc:"It, its queue, its type or everything is paused."`
	DeclaredBy *string `json:"declared_by,omitempty" doc:"The service whose code declares it."`
	Message    *string `json:"message,omitempty" doc:"Why it has ended."`
	// LastSuccess is when the newest occurrence that COMPLETED ended. LastFailure is the same for FAILED and EXPIRED,
	// and LastError is the first line of its message. Each is nil if there is none among the 1000 newest occurrences.
	LastSuccess *time.Time `json:"last_success,omitempty" doc:"When the newest that COMPLETED ended."`
	LastFailure *time.Time `json:"last_failure,omitempty" doc:"When the newest that FAILED or EXPIRED ended."`
	LastError   *string    `json:"last_error,omitempty" doc:"The first line of its message."`
	// FailuresInARow is how many occurrences FAILED or EXPIRED since the newest that COMPLETED. A failed attempt that
	// is to be retried is no failure yet.
	FailuresInARow int    `json:"failures_in_a_row" doc:"FAILED or EXPIRED since the last success."`
	Health         Health `json:"health" enum:"ok,new,failing,overdue,paused,ended" doc:"How occurrences end."`
	// PlanFrom is the time from which the leader will plan the next fire. It is nil once the fire is planned.
	PlanFrom *time.Time `json:"-"`
	// PlannedZoneData is the recurrence.Fingerprint of the zone data by which the leader planned NextFire.
	// PlannedWall is the local time of the zone at NextFire, as if it were in UTC. Both are nil for @every.
	PlannedZoneData *string    `json:"-"`
	PlannedWall     *time.Time `json:"-"`

	HealthBasis `json:"-"`

	book *calendars.Book // the days of its calendars; nil if nobody has read them
}

const recurringColumnsSQL = `
SELECT t.id, t.type, t.queue, t.status, t.entity, t.tenant_id, t.cron, t.time_zone, t.scheduled_at AS starts_at,
    CASE WHEN t.planned_revision = t.revision AND (t.planned_zone_data ~ '^(calendar .*)?$') IS NOT TRUE
        THEN t.next_attempt_at END AS next_fire, t.started_at AS last_fire, t.occurrence_count, t.overlap,
    t.catch_up, t.catch_up_paused, t.catch_up_limit, (extract(epoch FROM t.jitter) * 1000000000)::bigint AS jitter,
        t.ends_at, t.max_occurrences,
    t.paused_until, EXISTS (SELECT 1 FROM tasktable.pauses AS p
        WHERE (p.ends_at IS NULL OR p.ends_at > clock_timestamp())
        AND (p.scope = 'all' OR p.scope = 'queue' AND p.name = t.queue OR p.scope = 'type'
            AND p.name = t.type)) AS is_paused,
    t.planned_zone_data, t.planned_wall, t.declared_by, t.message,
        CASE WHEN t.planned_revision IS DISTINCT FROM t.revision THEN t.next_attempt_at END AS plan_from,
    h.last_success, h.last_failure, h.last_error, h.failures_in_a_row, '' AS health, h.expected_since,
    (extract(epoch FROM t.expected_execution_time + coalesce(t.jitter, interval '0')) * 1000000000)::bigint
        AS allowance, clock_timestamp() AS read_at`

const recurringWhereSQL = ` AS t
CROSS JOIN LATERAL tasktable.recurring_health(t.id::text, t.revision, t.queue::text, t.type::text) AS h
WHERE t.cron IS NOT NULL`

// RecurringFilter selects recurring tasks. A task must match all fields that are set. A field that is zero matches
// every task.
type RecurringFilter struct {
	Type     string
	Queue    string
	Status   store.Status
	Entity   string
	TenantID string
	// DeclaredBy is the service whose code declares the tasks (see scheduled.Config.Recurring).
	DeclaredBy string
	// After continues a list. It is the id of the last task of the previous page.
	After string
	// Limit is the maximum number of tasks in a page, from 1 to 10000. 0 means 100.
	Limit int
	// WithoutHealth leaves out the fields about successes, failures and health, which take longest to read.
	WithoutHealth bool
}

// listedRecurringSQL goes by the two indexes of recurring tasks. It sorts by an expression that the index on id does
// not have, because Postgres might otherwise read the whole table in the order of that index. It cuts the list before
// the health of its tasks is read, because that takes longest.
const listedRecurringSQL = `
FROM (
    SELECT * FROM (
        SELECT * FROM tasktable.scheduled_tasks AS fires
        WHERE fires.cron IS NOT NULL AND fires.next_attempt_at IS NOT NULL
        UNION ALL
        SELECT * FROM tasktable.scheduled_tasks AS rests
        WHERE rests.cron IS NOT NULL AND rests.next_attempt_at IS NULL
    ) AS l
    WHERE ($1::text = '' OR l.type = $1::text) AND ($2::text = '' OR l.queue = $2::text)
        AND ($3::text = '' OR l.status = $3::text)
        AND ($4::text = '' OR l.entity = $4::text) AND ($5::text = '' OR l.tenant_id = $5::text)
        AND ($6::text = '' OR l.declared_by = $6::text)
        AND ($7::text = '' OR l.id > $7::text)
    ORDER BY (l.id || '') COLLATE "C" LIMIT $8::text::int
)`

const recurringOrderSQL = `
ORDER BY (t.id || '') COLLATE "C"`

const listRecurringSQL = recurringColumnsSQL + listedRecurringSQL + recurringWhereSQL + recurringOrderSQL

// listPlansSQL is listRecurringSQL without the health.
const listPlansSQL = recurringColumnsSQL + listedRecurringSQL + ` AS t
CROSS JOIN (SELECT NULL::timestamptz AS last_success, NULL::timestamptz AS last_failure, NULL::text AS last_error,
    0 AS failures_in_a_row, NULL::timestamptz AS expected_since) AS h` + recurringOrderSQL

// ListRecurring lists recurring tasks in the order of their ids, including tasks that are paused or have ended. It
// reads only recurring tasks.
func (i *Inspector) ListRecurring(ctx context.Context, db store.DB, filter RecurringFilter) ([]RecurringTask, error) {
	limit, err := pageSize(filter.Limit, defaultLimit, maxLimit)
	if err != nil {
		return nil, fmt.Errorf("list recurring tasks: %w", err)
	}
	var args []any
	for _, field := range []struct{ name, value string }{
		{"type", filter.Type}, {"queue", filter.Queue}, {"status", string(filter.Status)}, {"entity", filter.Entity},
		{"tenant_id", filter.TenantID}, {"declared_by", filter.DeclaredBy}, {"after", filter.After},
	} {
		if err := checkField(field.name, field.value); err != nil {
			return nil, fmt.Errorf("list recurring tasks: %w", err)
		}
		args = append(args, field.value)
	}
	sql := listRecurringSQL
	if filter.WithoutHealth {
		sql = listPlansSQL
	}
	tasks, err := query.Collect[RecurringTask](ctx, i.source, db, "list recurring tasks", sql,
		append(args, strconv.Itoa(limit))...)
	if err == nil {
		err = i.readCalendars(ctx, db, tasks)
	}
	for at := range tasks {
		if !filter.WithoutHealth && err == nil {
			tasks[at].Health = tasks[at].health()
		}
	}
	return tasks, err
}

const getRecurringSQL = recurringColumnsSQL + `
FROM tasktable.scheduled_tasks` + recurringWhereSQL + ` AND t.id = $1::text`

const isTaskSQL = `SELECT EXISTS (SELECT 1 FROM tasktable.scheduled_tasks AS t WHERE t.id = $1::text)`

// GetRecurring reads a recurring task. Its error wraps store.ErrNotFound if there is no such task, and
// store.ErrNotRecurring if the task does not recur.
func (i *Inspector) GetRecurring(ctx context.Context, db store.DB, id string) (RecurringTask, error) {
	if err := check.ID(id); err != nil {
		return RecurringTask{}, fmt.Errorf("get recurring task: %w", err)
	}
	rows, err := query.Collect[RecurringTask](ctx, i.source, db, "get recurring task "+id, getRecurringSQL, id)
	if err != nil {
		return RecurringTask{}, err
	}
	if len(rows) > 0 {
		err = i.readCalendars(ctx, db, rows)
		rows[0].Health = rows[0].health()
		return rows[0], err
	}
	found, err := query.Value[bool](ctx, i.source, db, "get recurring task "+id, isTaskSQL, id)
	switch {
	case err != nil:
		return RecurringTask{}, err
	case found:
		return RecurringTask{}, fmt.Errorf("get recurring task %s: %w", id, store.ErrNotRecurring)
	}
	return RecurringTask{}, fmt.Errorf("get recurring task %s: %w", id, store.ErrNotFound)
}
