package metrics

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tasktable/tasktable/scheduled/internal/pg"
	"github.com/tasktable/tasktable/scheduled/internal/taskdb"
	"github.com/tasktable/tasktable/store/calendars"
)

const (
	// maxRecurringSeries is how many recurring tasks have series of their own. Some applications make a recurring task
	// for each of their members.
	maxRecurringSeries = 500
	// maxRecurringListed is how many recurring tasks a count reads to choose those with series.
	maxRecurringListed = 20_000
	// maxMissedShown is how far fires without a success are counted.
	maxMissedShown = 10
)

// readRecurringSQL reads the health of recurring tasks. Those that are declared in code come first, because somebody
// watches them. A paused task is not in the index, and has no series. A task may fire at the time at which it begins.
const readRecurringSQL = `
SELECT t.id, t.queue, t.type, t.cron, t.time_zone, t.tenant_id, t.starts_at, h.last_success, h.failures_in_a_row,
    greatest(h.expected_since, t.starts_at - interval '1 microsecond') AS since,
    statement_timestamp() - t.allowance AS until
FROM (
    SELECT t.*
    FROM (
        SELECT t.id::text AS id, t.revision, t.queue::text AS queue, t.type::text AS type, t.cron::text AS cron,
            t.time_zone::text AS time_zone, coalesce(t.tenant_id::text, '') AS tenant_id,
            t.scheduled_at::timestamptz AS starts_at,
            t.expected_execution_time + coalesce(t.jitter, interval '0') AS allowance, t.declared_by
        FROM tasktable.scheduled_tasks AS t
        WHERE t.next_attempt_at IS NOT NULL AND t.cron IS NOT NULL
        ORDER BY t.queue, t.type, t.next_attempt_at LIMIT $1
    ) AS t
    ORDER BY t.declared_by IS NULL, t.id COLLATE "C" LIMIT $2
) AS t
CROSS JOIN LATERAL tasktable.recurring_health(t.id, t.revision, t.queue, t.type, true) AS h
ORDER BY t.declared_by IS NULL, t.id COLLATE "C"`

type recurringRow struct {
	calendars.Of   // its expression, time zone and tenant
	ID             string
	Queue          string
	Type           string
	StartsAt       time.Time
	LastSuccess    *time.Time
	FailuresInARow int
	Since, Until   time.Time // between which a fire must have an occurrence that has ended
	Missed         int       `db:"-"`
}

// countRecurring reads the health of recurring tasks, and the days of their calendars.
func (c *TableStats) countRecurring(ctx context.Context, tx pgx.Tx, found *tableCounts) error {
	return pgx.BeginFunc(ctx, tx, func(tx pgx.Tx) error {
		schema := c.config.Statements.Schema
		rows, err := pg.CollectRows[recurringRow](ctx, tx, "read the health of recurring tasks",
			schema.SQL(readRecurringSQL), maxRecurringListed, maxRecurringSeries)
		if err != nil {
			return err
		}
		of := make([]calendars.Of, len(rows))
		for i := range rows {
			of[i] = rows[i].Of
		}
		book, err := calendars.Read(ctx, tx, schema, of...)
		if err == nil {
			found.hasRecurring(rows, book)
		}
		return err
	})
}

func (found *tableCounts) hasRecurring(rows []recurringRow, book *calendars.Book) {
	for i, row := range rows {
		// If an expression cannot be read, the leader fails the task, which becomes a dead letter.
		if rule, err := book.Rule(row.Of, nil); err == nil {
			rows[i].Missed = rule.Anchored(row.StartsAt).Missed(row.LastSuccess, row.Since, row.Until, maxMissedShown)
		}
	}
	found.recurring = rows
}

func (found *tableCounts) collectRecurring(paused []taskdb.Pause, show show) {
	for _, row := range found.recurring {
		if row.LastSuccess != nil {
			show("recurring_last_success_timestamp_seconds", float64(row.LastSuccess.UnixMilli())/1000, row.ID)
		}
		show("recurring_failures_in_a_row", float64(row.FailuresInARow), row.ID)
		if !taskdb.IsPaused(paused, row.Queue, row.Type) {
			show("recurring_intervals_without_success", float64(row.Missed), row.ID)
		}
	}
}
