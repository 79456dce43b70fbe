package main

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"

	"github.com/tasktable/tasktable/store"
)

var scheduleBench = Bench{
	Name: "schedule", Short: "How fast tasks are scheduled, beside River's inserts", Default: 20000,
	Long: `Schedules tasks for a later time with the store, in three ways: one task a call on 8 connections, 5,000 tasks
a call, and the same unchanged tasks again, one a call on 8 connections. In turns with it, River inserts jobs with the
same payload, one a call and 5,000 a call, into a table with the indexes that River's own migrations make.`,
	Verified: "every task is QUEUED once, with one line of changes", measure: measureSchedule,
}

const (
	scheduleConns = 8
	scheduleBulk  = 5000
)

func measureSchedule(ctx context.Context, config Config, result *Result) error {
	figures := map[string][]float64{}
	for round := range config.Rounds {
		one, err := scheduleRound(ctx, config)
		if err != nil {
			return err
		}
		for name, rate := range one {
			figures[name] = append(figures[name], rate)
		}
		figures["single_vs_river"] = append(figures["single_vs_river"], one["single_per_s"]/one["river_single_per_s"])
		figures["bulk_vs_river"] = append(figures["bulk_vs_river"], one["bulk_per_s"]/one["river_bulk_per_s"])
		figures["replay_vs_single"] = append(figures["replay_vs_single"], one["replay_per_s"]/one["single_per_s"])
		config.Say("round %d of %d: single %.0f/s, bulk %.0f/s, replayed %.0f/s; River single %.0f/s, bulk %.0f/s",
			round+1, config.Rounds, one["single_per_s"], one["bulk_per_s"], one["replay_per_s"],
			one["river_single_per_s"], one["river_bulk_per_s"])
	}
	for _, figure := range []struct{ name, meaning string }{
		{"single_per_s", "tasks a second, one a call, 8 connections"},
		{"river_single_per_s", "River's jobs a second, one a call, 8 connections"},
		{"single_vs_river", "single_per_s / river_single_per_s"},
		{"bulk_per_s", "tasks a second in calls of 5,000"},
		{"river_bulk_per_s",
			"River's jobs a second in calls of 5,000 (InsertMany, which returns the jobs, as ScheduleMany does)"},
		{"bulk_vs_river", "bulk_per_s / river_bulk_per_s"},
		{"replay_per_s", "unchanged tasks a second, one a call, 8 connections"},
		{"replay_vs_single", "replay_per_s / single_per_s"},
	} {
		result.add(figure.name, median(figures[figure.name]), figure.meaning)
	}
	return nil
}

func scheduleRound(ctx context.Context, config Config) (rates map[string]float64, err error) {
	rates = map[string]float64{}
	err = withinRiver(ctx, config, func(d *database) error {
		tasks := store.New(store.Config{Service: "bench"})
		at := time.Now().Add(24 * time.Hour)
		single := func(i int) error {
			_, err := tasks.Schedule(ctx, d.Pool, benchTask("single", i, at))
			return err
		}
		settings := &river.Config{Schema: "tasktable", Logger: slog.New(slog.DiscardHandler)}
		client, err := river.NewClient(riverpgxv5.New(d.Pool), settings)
		if err != nil {
			return fmt.Errorf("make River client: %w", err)
		}
		for _, one := range []struct {
			name string
			do   func(i int) error
		}{
			{"single_per_s", single},
			{"river_single_per_s", func(i int) error {
				_, err := client.Insert(ctx, riverArgs{i}, &river.InsertOpts{ScheduledAt: at})
				return err
			}},
			{"replay_per_s", single},
		} {
			if rates[one.name], err = each(ctx, config.Tasks, one.do); err != nil {
				return fmt.Errorf("%s: %w", one.name, err)
			}
		}
		if rates["bulk_per_s"], err = bulk(config.Tasks, scheduleBulk, func(from, to int) error {
			_, err := tasks.ScheduleMany(ctx, d.Pool, benchTasks("bulk", from, to, at))
			return err
		}); err != nil {
			return err
		}
		if rates["river_bulk_per_s"], err = bulk(config.Tasks, scheduleBulk, func(from, to int) error {
			_, err := client.InsertMany(ctx, riverJobs(from, to, func(int) time.Time { return at }))
			return err
		}); err != nil {
			return err
		}
		return d.verifyScheduled(ctx, 2*config.Tasks)
	})
	return rates, err
}

func benchTask(prefix string, i int, at time.Time) store.Task {
	return store.Task{
		ID:      fmt.Sprintf("%s %d", prefix, i),
		Payload: store.JSON(fmt.Sprintf(`{"type":%q,"n":%d}`, taskType, i)),
		At:      at,
	}
}

func benchTasks(prefix string, from, to int, at time.Time) []store.Task {
	tasks := make([]store.Task, 0, to-from)
	for i := from; i < to; i++ {
		tasks = append(tasks, benchTask(prefix, i, at))
	}
	return tasks
}

// each calls do for the numbers 1 to n on several goroutines, and returns the calls per second.
func each(ctx context.Context, n int, do func(i int) error) (rate float64, err error) {
	var next atomic.Int64
	var wg sync.WaitGroup
	failures := make(chan error, scheduleConns)
	began := time.Now()
	for range scheduleConns {
		wg.Go(func() {
			for i := next.Add(1); i <= int64(n) && ctx.Err() == nil; i = next.Add(1) {
				if err := do(int(i)); err != nil {
					failures <- err
					return
				}
			}
		})
	}
	wg.Wait()
	select {
	case err := <-failures:
		return 0, err
	default:
		return perSecond(n, time.Since(began)), context.Cause(ctx)
	}
}

// bulk calls do for each chunk of 0 to n, and returns the tasks per second.
func bulk(n, chunk int, do func(from, to int) error) (rate float64, err error) {
	began := time.Now()
	for from := 0; from < n; from += chunk {
		if err := do(from, min(from+chunk, n)); err != nil {
			return 0, err
		}
	}
	return perSecond(n, time.Since(began)), nil
}

const verifyScheduledSQL = `
SELECT (SELECT count(*) FROM tasktable.scheduled_tasks WHERE status = 'QUEUED'),
    (SELECT count(*) FROM tasktable.scheduled_task_changes)`

func (d *database) verifyScheduled(ctx context.Context, tasks int) error {
	var queued, changes int
	if err := d.Scan(ctx, verifyScheduledSQL, nil, &queued, &changes); err != nil {
		return fmt.Errorf("verify: %w", err)
	}
	if queued != tasks || changes != tasks {
		return failed("of %d tasks %d are QUEUED, with %d lines of changes", tasks, queued, changes)
	}
	return nil
}
