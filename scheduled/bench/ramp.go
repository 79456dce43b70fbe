package main

import (
	"context"
	"fmt"
	"time"

	"github.com/tasktable/tasktable/scheduled/internal/pg"
)

var rampBench = Bench{
	Name: "ramp", Short: "How late tasks start while the load of a day rises and falls", Default: 60000,
	Long: `A day passes in a minute, or in less if there are fewer tasks, so that a thousand are due in a second on
average. At noon 2.5 times as many are due, and at midnight 0.6 times as many. The tasks are scheduled ahead, and
their handler does nothing. One node with the default settings runs them. The figures are those of each hour. A delay
is the start minus the due time, by the clock of the database.`,
	Verified: verified, measure: measureRamp,
}

// rampDue is when the n-th of $2 tasks is due.
const rampDue = `now() + interval '%f seconds' + interval '%f seconds'
	* ((n - 0.5) / $2::int + 0.6 * sin(2 * pi() * (n - 0.5) / $2::int) / (2 * pi()))`

// rampSQL reads the hours of the day. $2 is the length of the day in seconds.
const rampSQL = `
SELECT least(floor(24 * extract(epoch FROM run.due_at - run.midnight) / $2::float8), 23)::int AS hour,
    count(*)::int AS tasks,
    percentile_disc(0.5) WITHIN GROUP (ORDER BY run.delay)::float8 AS p50,
    percentile_disc(0.99) WITHIN GROUP (ORDER BY run.delay)::float8 AS p99
FROM (
    SELECT due_at, min(due_at) OVER () AS midnight, 1000 * extract(epoch FROM started_at - due_at) AS delay
    FROM tasktable.scheduled_task_executions WHERE starts_with(task_id, $1::text) AND outcome = 'COMPLETED'
) AS run
GROUP BY 1 ORDER BY 1`

type rampHour struct {
	Hour, Tasks int
	P50, P99    float64
}

func measureRamp(ctx context.Context, config Config, result *Result) error {
	return withNode(ctx, config, func(d *database, n *node) error {
		day := time.Duration(config.Tasks) * time.Millisecond
		ahead := 3*time.Second + day/5 // in which all tasks are inserted
		due := fmt.Sprintf(rampDue, ahead.Seconds(), day.Seconds())
		config.Say("%d tasks are due within the next %s", config.Tasks, ahead+day)
		if err := n.work(ctx, d, "ramp", config.Tasks, due, time.Minute+ahead+day); err != nil {
			return err
		}
		hours, err := pg.CollectRows[rampHour](ctx, d.Pool, "read the hours", rampSQL, "ramp ", day.Seconds())
		if err != nil {
			return err
		}
		for _, hour := range hours {
			add := func(name string, value float64, meaning string) {
				result.add(fmt.Sprintf("hour_%02d_%s", hour.Hour, name), value, meaning)
			}
			add("per_s", float64(hour.Tasks)*24/day.Seconds(), "tasks a second")
			add("p50_ms", hour.P50, "ms from due to start, the median")
			add("p99_ms", hour.P99, "ms, 99 of 100 start within it")
		}
		return nil
	})
}
