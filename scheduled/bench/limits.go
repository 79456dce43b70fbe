package main

import (
	"context"
	"fmt"
	"math"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tasktable/tasktable/store"
)

// heldType is a type whose tasks a limit keeps from starting.
const heldType = "BENCH_HELD"

var limitsBench = Bench{
	Name: "limits", Short: "What limits cost, and how exactly a rate is kept", Default: 100000,
	Long: `The bench drain, three times in turns: without a limit, with a limit that is never reached, and beside ten
times as many due tasks of another type, which a limit keeps from starting. Then 3,200 due tasks start by a rate of
100 a second, with a burst of 10.`,
	Run: runLimits,
}

func runLimits(ctx context.Context, config Config) (Result, error) {
	config = config.withDefaults(100000)
	unreached := func(ctx context.Context, d *database) error {
		return d.limit(ctx, store.Limit{Name: "unreached", Of: store.Type(taskType), MaxRunning: 1_000_000})
	}
	saturated := func(ctx context.Context, d *database) error {
		limit := store.Limit{Name: "held", Of: store.Type(heldType), Rate: 1, Interval: 24 * time.Hour}
		if err := d.limit(ctx, limit); err != nil {
			return err
		}
		_, err := d.Pool.Exec(ctx, insertHeldSQL, 10*config.Tasks)
		return err
	}
	var ratios [2][]float64
	for round := range config.Rounds {
		plain, _, err := drainEngine(ctx, config, nil)
		if err != nil {
			return Result{}, err
		}
		for i, prepare := range []func(context.Context, *database) error{unreached, saturated} {
			rate, _, err := drainEngine(ctx, config, prepare)
			if err != nil {
				return Result{}, err
			}
			ratios[i] = append(ratios[i], rate/plain)
		}
		config.Say("round %d of %d: %.0f tasks/s, unreached %.2f, saturated %.2f", round+1, config.Rounds, plain,
			ratios[0][round], ratios[1][round])
	}
	wrong, excess, err := keptRate(ctx, config)
	result := Result{Bench: "limits", Verified: verified}
	result.add("unreached_ratio", median(ratios[0]), "of the drain without a limit, with one that is never reached")
	result.add("saturated_ratio", median(ratios[1]), "of that drain, beside ten times as many tasks that a limit holds")
	result.add("rate_error", wrong, "by which part of it the rate over 30 s differs from 100 a second")
	result.add("excess", excess, "how many tasks more than burst + rate × t started in some time t, at most")
	return result, err
}

const insertHeldSQL = `
INSERT INTO tasktable.scheduled_tasks (id, payload)
SELECT 'held ' || n, jsonb_build_object('type', '` + heldType + `', 'n', n) FROM generate_series(1, $1::int) AS n`

// limit sets a limit.
func (d *database) limit(ctx context.Context, limit store.Limit) error {
	_, err := store.New(store.Config{Service: "bench"}).SetLimit(ctx, d.Pool, limit)
	return err
}

const startsSQL = `
SELECT started_at FROM tasktable.scheduled_task_executions
WHERE starts_with(task_id, 'rate ') AND started_at IS NOT NULL ORDER BY started_at`

// keptRate starts tasks by a rate.
func keptRate(ctx context.Context, config Config) (wrong, excess float64, err error) {
	const rate, burst, tasks, window = 100, 10, 3200, 30 * time.Second
	err = withNode(ctx, config, func(d *database, n *node) error {
		limit := store.Limit{Name: "rate", Of: store.Type(taskType), Rate: rate, Burst: burst}
		if err := d.limit(ctx, limit); err != nil {
			return err
		}
		ran := n.ran.Load()
		if err := d.insert(ctx, "rate", tasks, "clock_timestamp()"); err != nil {
			return err
		}
		if err := n.finished(ctx, ran+tasks, 2*time.Minute); err != nil {
			return err
		}
		if err := d.done(ctx, "rate", tasks); err != nil {
			return err
		}
		rows, err := d.Pool.Query(ctx, startsSQL)
		if err != nil {
			return fmt.Errorf("read starts: %w", err)
		}
		starts, err := pgx.CollectRows(rows, pgx.RowTo[time.Time])
		if err != nil {
			return fmt.Errorf("read starts: %w", err)
		}
		within := 0
		for i, from := range starts {
			if in := from.Sub(starts[burst]); i >= burst && in < window {
				within++
			}
			for j := i; j < len(starts); j++ {
				in := starts[j].Sub(from).Seconds()
				excess = max(excess, float64(j-i+1)-burst-rate*in)
			}
		}
		wrong = math.Abs(float64(within)/window.Seconds()/rate - 1)
		return nil
	})
	return wrong, excess, err
}
