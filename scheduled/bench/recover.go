package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/tasktable/tasktable/handlers"
	"github.com/tasktable/tasktable/scheduled"
	"github.com/tasktable/tasktable/scheduled/internal/throwaway"
	"github.com/tasktable/tasktable/store"
)

var recoverBench = Bench{
	Name: "recover", Short: "How soon the tasks of a killed node run elsewhere", Default: 1000,
	Long: `A node in a process of its own runs all tasks. The bench kills it (SIGKILL) while a second node stands by,
and measures the time until all tasks run on the second node, by the clock of the database. The first round kills a
node that does not lead, and the second round kills the leader.`,
	Verified: "every task LOST once, then running on the other node", measure: measureRecover,
}

// runChild runs a node whose handlers run until they are interrupted. The program calls it in the process that the
// bench recover starts and kills.
func runChild(ctx context.Context, stdout io.Writer) error {
	d, err := throwaway.Inherited(ctx, 10)
	if err != nil {
		return err
	}
	registry, err := handlers.NewRegistry(handlers.Func(taskType, func(ctx context.Context) error {
		<-ctx.Done()
		return context.Cause(ctx)
	}))
	if err != nil {
		return err
	}
	node, err := scheduled.New(scheduled.Config{
		Pool:     d.Pool,
		Handlers: registry,
		Service:  "bench",
		Queues:   map[string]int{store.DefaultQueue: 10000},
	})
	if err != nil {
		return err
	}
	ctx, release := throwaway.Ready(ctx, stdout)
	defer release()
	return node.Run(ctx)
}

func measureRecover(ctx context.Context, config Config, result *Result) error {
	for _, one := range []struct {
		name, meaning string
		leader        bool
	}{
		{"seconds", "s from the kill of a follower until all run elsewhere", false},
		{"seconds_leader", "s from the kill of the leader until all run elsewhere", true},
	} {
		seconds, err := recoverRound(ctx, config, one.leader)
		if err != nil {
			return err
		}
		config.Say("%.1f %s", seconds, one.meaning)
		result.add(one.name, seconds, one.meaning)
	}
	return nil
}

func recoverRound(ctx context.Context, config Config, leader bool) (seconds float64, err error) {
	err = within(ctx, config, func(d *database) (err error) {
		if !leader { // start a node that only leads
			first, err := startNode(ctx, d, config, -1, nil)
			if err != nil {
				return err
			}
			defer func() { err = errors.Join(err, first.stop()) }()
		}
		child, err := startChild(ctx, d)
		if err != nil {
			return err
		}
		defer child.Kill()
		if err := d.insert(ctx, "recover", config.Tasks, "clock_timestamp()"); err != nil {
			return err
		}
		if err := d.Until(ctx, time.Minute, "all tasks run", runsSQL, config.Tasks); err != nil {
			return err
		}
		other, err := startNode(ctx, d, config, config.Tasks, func(ctx context.Context) error {
			<-ctx.Done()
			return context.Cause(ctx)
		})
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, other.stop()) }()
		var killed time.Time
		if err := d.Scan(ctx, "SELECT clock_timestamp()", nil, &killed); err != nil {
			return err
		}
		child.Kill()
		if err := d.Until(ctx, time.Minute, "all run elsewhere", runsElsewhereSQL, config.Tasks); err != nil {
			return err
		}
		const sinceSQL = `SELECT extract(epoch FROM clock_timestamp() - $1::timestamptz)::float8`
		return d.Scan(ctx, sinceSQL, []any{killed}, &seconds)
	})
	return seconds, err
}

// runsElsewhereSQL is true when each task is in its second attempt, River has handed it to a worker, and it has a
// LOST execution.
const runsElsewhereSQL = `
SELECT (SELECT count(*) FROM tasktable.scheduled_tasks WHERE status = 'EXECUTING' AND attempt = 2) = $1
    AND (SELECT count(*) FROM tasktable.scheduled_task_executions WHERE outcome = 'LOST') = $1
    AND (SELECT coalesce(sum((metadata ->> 'tasks')::int), 0) FROM tasktable.river_job WHERE state = 'running') = $1`

const runsSQL = `
SELECT (SELECT coalesce(sum((metadata ->> 'tasks')::int), 0) FROM tasktable.river_job WHERE state = 'running') = $1`

func startChild(ctx context.Context, d *database) (*throwaway.Process, error) {
	program, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("find this program: %w", err)
	}
	return d.Start(ctx, program, nil, nil)
}
