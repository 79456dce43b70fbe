package main

import (
	"context"
	"errors"
	"runtime"
	"sync/atomic"
	"time"
)

var crowdBench = Bench{
	Name: "crowd", Short: "How many handlers that wait run at once on one node", Default: 10000,
	Long: `The handler of each task waits for a second. One node has as many slots as there are tasks. The bench counts
how many handlers run at once, and measures how long it takes until all tasks have ended.`,
	Verified: verified, measure: measureCrowd,
}

const lastedSQL = `SELECT extract(epoch FROM max(finished_at) - $1)::float8 FROM tasktable.scheduled_task_executions`

func measureCrowd(ctx context.Context, config Config, result *Result) error {
	return within(ctx, config, func(d *database) (err error) {
		var running, most atomic.Int64
		n, err := startNode(ctx, d, config, config.Tasks, func(ctx context.Context) error {
			for now := running.Add(1); ; {
				before := most.Load()
				if now <= before || most.CompareAndSwap(before, now) {
					break
				}
			}
			defer running.Add(-1)
			return pass(ctx, time.Second)
		})
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, n.stop()) }()
		var before, during runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&before)
		if err := d.insert(ctx, "crowd", config.Tasks, "now() + interval '3 seconds'"); err != nil {
			return err
		}
		var due time.Time
		if err := d.Scan(ctx, `SELECT max(scheduled_at) FROM tasktable.scheduled_tasks`, nil, &due); err != nil {
			return err
		}
		if err := n.finished(ctx, 1, time.Minute); err != nil {
			return err
		}
		runtime.ReadMemStats(&during)
		if err := n.finished(ctx, int64(config.Tasks), time.Minute); err != nil {
			return err
		}
		if err := d.done(ctx, "crowd", config.Tasks); err != nil {
			return err
		}
		var seconds float64
		if err := d.Scan(ctx, lastedSQL, []any{due}, &seconds); err != nil {
			return err
		}
		result.add("at_once", float64(most.Load()), "handlers that ran at the same time")
		result.add("seconds", seconds,
			"s from the instant at which all were due until the last was settled; each takes one")
		result.add("heap_mb", float64(during.HeapInuse-before.HeapInuse)/(1<<20),
			"MB of heap that the running handlers and their claims took")
		result.add("stack_mb", float64(during.StackInuse-before.StackInuse)/(1<<20), "MB of stacks")
		return nil
	})
}
