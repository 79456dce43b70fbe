package taskdb

import (
	"context"
	"time"

	"github.com/tasktable/tasktable/scheduled/internal/fireplan"
	"github.com/tasktable/tasktable/scheduled/internal/pg"
	"github.com/tasktable/tasktable/store/calendars"
	"github.com/tasktable/tasktable/store/recurrence"
)

const (
	// MaxForks is how many recurring tasks a pass looks at.
	MaxForks = 200
	// MaxFires is how many occurrences a pass makes, because one statement makes them, and it has a time limit.
	MaxFires = 500
	// planningTime is how long a pass computes fires. Meanwhile nothing else is claimed.
	planningTime = 200 * time.Millisecond
)

// pickFiresSQL picks the recurring tasks that are due, $4 of each lane. It steps over tasks that others have locked,
// but only for a time, because somebody may have locked very many. It reads few columns, because others may be
// unreadable.
const pickFiresSQL = `
WITH picked AS MATERIALIZED (
    SELECT head.id, head.revision, lane.type, head.due
    FROM unnest($2::text[], $3::text[], $7::timestamptz[]) AS lane (queue, type, head)
    CROSS JOIN (SELECT coalesce($1::timestamptz, clock_timestamp()) AS now) AS clock
    CROSS JOIN LATERAL (
        SELECT t.id::text AS id, coalesce(t.revision, 0) AS revision, t.next_attempt_at AS due
        FROM tasktable.scheduled_tasks AS t
        WHERE t.queue = lane.queue AND t.type = lane.type AND t.cron IS NOT NULL
            AND t.next_attempt_at BETWEEN lane.head AND clock.now
            AND t.id <> ALL ($5::text[])
            AND clock_timestamp() < (SELECT clock_timestamp() + interval '500 ms')
        ORDER BY t.next_attempt_at
        LIMIT $4::int
        FOR NO KEY UPDATE SKIP LOCKED
    ) AS head
)
SELECT picked.id, picked.revision, picked.type FROM picked ORDER BY picked.due LIMIT $6::int`

// PickFires picks recurring tasks that are due, at most `most` and at most MaxForks.
func (s Queries) PickFires(
	ctx context.Context, q pg.DB, now *time.Time, lanes []Lane, most int, aside ...string,
) ([]LaneHead, error) {
	most = min(most, MaxForks)
	each := max(most/max(len(lanes), 1), 1)
	return pg.CollectRows[LaneHead](ctx, q, "pick recurring tasks",
		s.Schema.SQL(pickFiresSQL), now, column(lanes, func(l *Lane) string { return l.Queue }),
		column(lanes, func(l *Lane) string { return l.Type }), each, pg.OrEmpty(aside), most,
		column(lanes, func(l *Lane) time.Time { return l.Head }))
}

// recurringSQL reads recurring tasks that are due. The rows are found by their ids, because any other condition could
// make Postgres step over the dead entries of an index.
const recurringSQL = `
SELECT t.id::text AS id, t.type::text AS type, t.queue::text AS queue, t.revision, t.cron::text AS cron,
    t.time_zone::text AS time_zone, coalesce(t.tenant_id::text, '') AS tenant_id,
    t.overlap::text AS overlap, t.catch_up::text AS catch_up, t.catch_up_paused::text AS catch_up_paused,
    t.catch_up_limit::int AS catch_up_limit, t.scheduled_at::timestamptz AS scheduled_at, t.started_at AS last_fire,
    greatest(t.next_attempt_at, '1970-01-01'::timestamptz) AS next_fire, t.ends_at::timestamptz AS ends_at,
    t.max_occurrences::int AS max_occurrences, t.occurrence_count, t.open_occurrences_from,
    t.planned_revision IS NOT DISTINCT FROM t.revision AS planned, t.planned_wall, t.planned_zone_data,
    t.planned_day::timestamp AS planned_day, NULL::timestamptz AS moved_from, false AS rests,
    -- OFFSET 0 keeps Postgres from reading all changes into a hash to answer this.
    EXISTS (SELECT 1 FROM tasktable.scheduled_task_changes AS c
        WHERE c.revision = t.revision AND c.outcome = 'queued' AND c.old ->> 'status' = 'PAUSED' OFFSET 0) AS resumed,
    CASE WHEN t.planned_revision IS DISTINCT FROM t.revision THEN (
        SELECT max(c.changed_at) FROM tasktable.scheduled_task_changes AS c WHERE c.task_id = t.id AND c.revision < (
            SELECT max(p.revision) FROM tasktable.scheduled_task_changes AS p
            WHERE p.task_id = t.id AND p.revision < t.revision AND p.new ->> 'status' = 'PAUSED')) END AS edited_at,
    clock.now
FROM tasktable.scheduled_tasks AS t CROSS JOIN (SELECT coalesce($1::timestamptz, clock_timestamp()) AS now) AS clock
WHERE t.id = ANY ($2::text[]) AND t.cron IS NOT NULL AND coalesce(t.next_attempt_at <= clock.now, false)
ORDER BY t.next_attempt_at, t.id::text`

// DueFires is what WriteFires is to write.
type DueFires struct {
	tasks []dueTask
	most  int
	book  *calendars.Book // the days by which they were computed
}

// dueTask is a recurring task with its due fires, or with the error of its expression.
type dueTask struct {
	fireplan.Due
	rule        *recurrence.Rule
	fingerprint string
	changedBy   string // who has changed the calendar of the task's Edit
	err         error
}

// DueFires reads recurring tasks, and computes the fires that are due. It does so for planningTime, or until `most`
// fires may have to be written. The tasks that are left are for the next pass. To compute fires takes long if they are
// many. Therefore the leader calls DueFires outside of transactions.
func (s Queries) DueFires(
	ctx context.Context, q pg.DB, now *time.Time, picked []LaneHead, most int,
) (due DueFires, err error) {
	tasks, err := pg.CollectRows[fireplan.Task](ctx, q, "read recurring tasks", s.Schema.SQL(recurringSQL), now,
		column(picked, func(h *LaneHead) string { return h.ID }))
	if err != nil || len(tasks) == 0 {
		return due, err
	}
	since := tasks[0].NextFire // they are in this order
	paused, err := s.Pauses(ctx, q, now, &since)
	if err != nil {
		return due, err
	}
	tasks = withFewCalendars(tasks)
	due.most = most
	if due.book, err = calendars.Read(ctx, q, s.Schema, column(tasks, rulesOf)...); err != nil {
		return due, err
	}
	fires := 0
	for began := time.Now(); len(due.tasks) < len(tasks) && time.Since(began) < planningTime; {
		one := s.due(tasks[len(due.tasks)], paused, due.book)
		if fires += one.Fires(); fires > most && len(due.tasks) > 0 {
			break
		}
		due.tasks = append(due.tasks, one)
	}
	return due, nil
}

// maxCalendars is how many calendars a pass reads, because each may have thousands of days.
const maxCalendars = 100

// withFewCalendars returns the first of the tasks that have few enough calendars. The others are for the next pass.
func withFewCalendars(tasks []fireplan.Task) []fireplan.Task {
	named := map[[2]string]bool{}
	for i, task := range tasks {
		for _, name := range calendars.Names(task.Cron) {
			named[[2]string{task.TenantID, name}] = true
		}
		if len(named) > maxCalendars {
			return tasks[:max(i, 1)]
		}
	}
	return tasks
}

func rulesOf(task *fireplan.Task) calendars.Of {
	return calendars.Of{Cron: task.Cron, TimeZone: task.TimeZone, TenantID: task.TenantID}
}

// due computes the due fires of a task.
func (s Queries) due(task fireplan.Task, paused []Pause, book *calendars.Book) dueTask {
	rule, err := book.Rule(rulesOf(&task), s.Zones.location)
	if err != nil {
		return dueTask{Due: fireplan.Due{Task: task}, err: err}
	}
	task.Rests = len(rule.Calendars()) > 0
	var pauses []fireplan.Interval
	for _, p := range paused {
		if p.of(task.Queue, task.Type) {
			held := fireplan.Interval{From: p.PausedAt}
			if p.EndsAt != nil {
				held.Until = *p.EndsAt
			}
			pauses = append(pauses, held)
		}
	}
	fingerprint := s.Zones.Fingerprint(task.TimeZone)
	var changedBy string
	if edit, edited := task.Edit(); edited {
		found, _ := book.Find(task.TenantID, edit.Calendar)
		changedBy = found.ChangedBy
	}
	rule = task.Move(rule.Anchored(task.ScheduledAt), fingerprint)
	return dueTask{task.List(rule, pauses), rule, fingerprint, changedBy, nil}
}
