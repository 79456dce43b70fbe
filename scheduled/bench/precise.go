package main

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/tasktable/tasktable/scheduled/internal/pg"
	"github.com/tasktable/tasktable/store"
)

var preciseBench = Bench{
	Name: "precise", Short: "How soon after its time a task starts", Default: 2000,
	Long: `A hundred tasks are due each second. They are scheduled 5 seconds ahead. One node with the default settings
runs them, and polls its table only once a minute. Then a tenth as many tasks are scheduled for now, one after the
other. A delay is the start minus the due time, by the clock of the database. The same jobs run on River alone, with its
default settings.`,
	Verified: verified, measure: measurePrecise,
}

const (
	preciseGap   = 10 * time.Millisecond // between the times of two tasks
	preciseAhead = 5 * time.Second
)

// delaysSQL reads the delays in milliseconds, sorted.
const delaysSQL = `
SELECT (extract(epoch FROM started_at - due_at) * 1000)::float8 FROM tasktable.scheduled_task_executions
WHERE starts_with(task_id, $1) AND outcome = 'COMPLETED' ORDER BY 1`

// delays reads the delays of the tasks of the prefix.
func (d *database) delays(ctx context.Context, prefix string) ([]float64, error) {
	return pg.CollectColumn[float64](ctx, d.Pool, "read delays", delaysSQL, prefix+" ")
}

func measurePrecise(ctx context.Context, config Config, result *Result) error {
	err := withNode(ctx, config, func(d *database, n *node) error {
		spread := fmt.Sprintf("clock_timestamp() + interval '%f seconds' + n * interval '%f seconds'",
			preciseAhead.Seconds(), preciseGap.Seconds())
		length := time.Duration(config.Tasks) * preciseGap
		config.Say("%d tasks are due within the next %s", config.Tasks, preciseAhead+length)
		if err := n.work(ctx, d, "precise", config.Tasks, spread, time.Minute+length); err != nil {
			return err
		}
		delays, err := d.delays(ctx, "precise")
		if err != nil {
			return err
		}
		result.add("p50_ms", quantile(delays, 0.5), "ms from due to start, the median")
		result.add("p99_ms", quantile(delays, 0.99), "ms, 99 of 100 start within it")
		result.add("max_ms", delays[len(delays)-1], "ms, the latest")
		early := 0
		for _, delay := range delays {
			if delay < 0 {
				early++
			}
		}
		result.add("early", float64(early), "tasks that started before their time")
		return preciseNow(ctx, config, d, n, result)
	})
	if err != nil {
		return err
	}
	return preciseRiver(ctx, config, result)
}

// preciseNow schedules tasks for now, one after the other, with the store, as a service does.
func preciseNow(ctx context.Context, config Config, d *database, n *node, result *Result) error {
	tasks := store.New(store.Config{Service: "bench"})
	count := max(config.Tasks/10, 1)
	config.Say("%d tasks are scheduled for now", count)
	took := make([]float64, 0, count)
	for i := range count {
		ran, began := n.ran.Load(), time.Now()
		task := store.Task{ID: fmt.Sprintf("now %d", i), Payload: store.JSON(`{"type":"` + taskType + `"}`)}
		if _, err := tasks.Schedule(ctx, d.Pool, task); err != nil {
			return err
		}
		scheduled := time.Now()
		if err := n.finished(ctx, ran+1, 10*time.Second); err != nil {
			return err
		}
		took = append(took, time.Since(scheduled).Seconds()*1000)
		// The waits differ, so that they do not keep time with the engine.
		if err := pass(ctx, time.Duration(i%37)*time.Millisecond+time.Since(began)/10); err != nil {
			return err
		}
	}
	if err := d.done(ctx, "now", count); err != nil {
		return err
	}
	slices.Sort(took)
	result.add("now_p50_ms", quantile(took, 0.5),
		"ms from the commit of a task due now to its handler's end, the median")
	result.add("now_p99_ms", quantile(took, 0.99), "ms, 99 of 100")
	return nil
}
