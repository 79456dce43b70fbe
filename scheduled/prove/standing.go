package prove

import (
	"context"
	"fmt"
	"time"
)

// Standing is the state of a running proof.
type Standing struct {
	Elapsed   time.Duration
	Scheduled int     // tasks accepted so far
	Ran       int     // tasks that have COMPLETED
	Running   int     // handlers that run
	Waiting   int     // accepted tasks that have neither ended nor are lost
	TakenBack int     // claims of killed nodes that the leader has taken back
	Lost      int     // accepted tasks that have vanished or FAILED
	Twice     int     // revisions that were settled as completed more than once
	Early     int     // attempts that started before their time
	Kills     int     // killed nodes
	Delay     float64 // ms from the due time to the start of a task; 99 of 100 are below
}

// standingSQL counts in one query the same things as the queries of the verdicts.
const standingSQL = `
WITH tasks AS (
    SELECT t.status FROM proof.accepted AS a LEFT JOIN tasktable.scheduled_tasks AS t ON t.id = a.task_id
)
SELECT extract(epoch FROM clock_timestamp() - $1::timestamptz)::float8,
    (SELECT count(*) FROM tasks),
    (SELECT count(*) FROM tasks WHERE status = 'COMPLETED'),
    (SELECT count(*) FROM proof.runs AS r
        WHERE ended_at IS NULL AND NOT EXISTS (SELECT 1 FROM proof.kills AS k WHERE k.process = r.process)),
    (SELECT count(*) FROM tasks WHERE status IN ('QUEUED', 'EXECUTING', 'PAUSED')),
    (SELECT count(*) FROM tasktable.scheduled_task_executions WHERE outcome = 'LOST'),
    (SELECT count(*) FROM tasks WHERE status IS NULL OR status = 'FAILED'),
    (SELECT count(*) FROM (SELECT 1 FROM tasktable.scheduled_task_executions
        WHERE outcome = 'COMPLETED' GROUP BY task_id, revision HAVING count(*) > 1) AS t),
    (SELECT count(*) FROM tasktable.scheduled_task_executions WHERE started_at < due_at OR started_at < scheduled_at),
    (SELECT count(*) FROM proof.kills),
    (SELECT coalesce(percentile_cont(0.99) WITHIN GROUP (ORDER BY extract(epoch
        FROM started_at - due_at) * 1000), 0)::float8
        FROM tasktable.scheduled_task_executions WHERE started_at IS NOT NULL)`

func (r *run) show(ctx context.Context) (s Standing, err error) {
	var seconds float64
	began := time.Now()
	err = r.Scan(ctx, standingSQL, []any{r.begin},
		&seconds, &s.Scheduled, &s.Ran, &s.Running, &s.Waiting, &s.TakenBack, &s.Lost, &s.Twice, &s.Early, &s.Kills,
		&s.Delay)
	if err != nil {
		return s, fmt.Errorf("ask how it stands: %w", err)
	}
	s.Elapsed = time.Duration(seconds * float64(time.Second))
	r.nextShow = max(r.Every, 4*time.Since(began)) // so that counting takes a quarter of the time at most
	r.Show(s)
	return s, nil
}

// String returns the state as one line. The promises come first, because a narrow terminal cuts off the end.
func (s Standing) String() string {
	const line = "%3.0f s  scheduled %d  run %d  lost %d  twice %d  early %d  running %d  kills %d  taken back %d  " +
		"delay p99 %s"
	return fmt.Sprintf(line,
		s.Elapsed.Seconds(), s.Scheduled, s.Ran, s.Lost, s.Twice, s.Early, s.Running, s.Kills, s.TakenBack,
		Millis(s.Delay))
}

// Millis formats milliseconds, from 1000 on as seconds.
func Millis(ms float64) string {
	if ms >= 1000 {
		return fmt.Sprintf("%.1f s", ms/1000)
	}
	return fmt.Sprintf("%.1f ms", ms)
}
