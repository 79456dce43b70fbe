package scheduled

import "github.com/jackc/pgx/v5"

// Tells River once more of jobs that have waited for a second. It was told when they were inserted; but where its listening connection
// had just broken nobody heard, and where its fetch failed nobody asks again before its next poll. Nodes that are full do not mind. The
// channel and the payload are River's own.
const nudgeSQL = `
SELECT pg_notify(concat($1::text, '.river_insert'), json_build_object('queue', waiting.queue)::text)
FROM (
    SELECT DISTINCT queue FROM tasktable.river_job WHERE state = 'available' AND created_at < clock_timestamp() - interval '1 second'
) AS waiting
WHERE pg_notification_queue_usage() < 0.5`

// queueNudge adds the nudge to the leader's tick.
func (l *leader) queueNudge(batch *pgx.Batch) {
	batch.Queue(l.statements.schema.SQL(nudgeSQL), l.statements.schema.String())
}
