package doctor

import (
	"context"
	"fmt"
	"strings"
	"time"
)

// deadSQL reads the whole table, because there is no index on dead letters. gone is when retention removes the first
// of them. Null means never.
const deadSQL = `
WITH dead AS MATERIALIZED (
    SELECT t.id::text AS id, t.status, t.cron IS NOT NULL AS recurs, t.finished_at,
        left(coalesce(t.message, ''), 200) AS message,
        t.finished_at + coalesce(t.retention::interval, $1::text::interval) AS gone
    FROM tasktable.scheduled_tasks AS t WHERE t.status IN ('FAILED', 'EXPIRED') AND t.archived_at IS NULL
)
SELECT count(*) FILTER (WHERE status = 'FAILED')::int AS failed,
    count(*) FILTER (WHERE status = 'EXPIRED')::int AS expired,
    max(finished_at) AS newest, min(gone) AS gone,
    coalesce((SELECT d.message FROM dead AS d GROUP BY d.message ORDER BY count(*) DESC, d.message LIMIT 1),
    '') AS commonest,
    coalesce((SELECT count(*) FROM dead AS d GROUP BY d.message ORDER BY 1 DESC LIMIT 1), 0)::int AS times,
    coalesce((SELECT array_agg(d.id ORDER BY d.id) FROM dead AS d WHERE d.recurs AND d.status = 'FAILED'),
    '{}') AS recurring
FROM dead`

type deadRow struct {
	Failed    int
	Expired   int
	Newest    *time.Time
	Gone      *time.Time
	Commonest string // the most frequent message
	Times     int
	Recurring []string
}

// deadLetters reports the tasks that do not run again unless somebody retries them.
func (e *examination) deadLetters(ctx context.Context) error {
	var period *string
	if e.config.Retention != -1 {
		text := fmt.Sprintf("%d microseconds", e.config.Retention.Microseconds())
		period = &text
	}
	found, err := row[deadRow](ctx, e, deadSQL, period)
	if err != nil {
		return err
	}
	if found.Failed+found.Expired == 0 {
		e.ok("no dead letters")
		return nil
	}
	until := "; they are kept for ever"
	if found.Gone != nil {
		until = "; retention takes the first at " + instant(*found.Gone)
	}
	level := Info // a task that EXPIRED was meant to
	if found.Failed > 0 {
		level = Warning
	}
	e.find(level, e.sql("SELECT * FROM tasktable.dead_letters WHERE archived_at IS NULL ORDER BY finished_at DESC")+
		" or "+e.command("dead list")+"\n"+e.command("dead retry ID")+", or "+e.command("dead archive ID --note why")+
		"; in SQL tasktable.retry(id) and archive(id, 'why')",
		"%d FAILED and %d EXPIRED that nobody has dealt with, the newest at %s%s; %s: %s",
		found.Failed, found.Expired, instant(*found.Newest), until, several(found.Times, "time"), line(found.Commonest))
	if len(found.Recurring) > 0 {
		e.fail("correct their cron or time_zone, which plans them anew, or cancel them",
			"recurring tasks that are FAILED fire no more (%d): %s",
			len(found.Recurring), line(strings.Join(found.Recurring, ", ")))
	}
	return nil
}
