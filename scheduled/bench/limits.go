package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/tasktable/tasktable/scheduled/internal/pg"
	"github.com/tasktable/tasktable/store"
)

// heldType is a type whose tasks a limit keeps from starting, but for one, which does not return.
const heldType = "BENCH_HELD"

var limitsBench = Bench{
	Name: "limits", Short: "What limits cost, and how exactly a rate is kept", Default: 100000,
	Long: `The bench drain, in turns: without a limit, with a limit that is never reached, with one at a time in each of
many groups of ten tasks, and beside ten times as many due tasks of another type, of which one at a time may run: of the
type, or of their one group. Then 3,200 due tasks start by a rate of 100 a second, with a burst of 10. At last 99
tenants schedule ten tasks a second each, beside a tenant with ten times as many due tasks as the drain has. All take 50
ms. The tenants take turns. Of each, 20 at most may run on 200 slots, and then any number on 100.`,
	Verified: verified, measure: measureLimits,
}

func measureLimits(ctx context.Context, config Config, result *Result) error {
	unreached := func(ctx context.Context, d *database) error {
		return d.limit(ctx, store.Limit{Name: "unreached", Of: store.Type(taskType), MaxRunning: 1_000_000})
	}
	var grouped []*database
	groups := func(ctx context.Context, d *database) error {
		d.group = fmt.Sprint("'group ' || n % ", max(config.Tasks/10, 1))
		grouped = append(grouped, d)
		return d.limit(ctx, store.Limit{Name: "groups", Of: store.Type(taskType), Per: store.PerGroup, MaxRunning: 1})
	}
	held := func(per store.Per) func(ctx context.Context, d *database) error {
		return func(ctx context.Context, d *database) error {
			limit := store.Limit{Name: "held", Of: store.Type(heldType), Per: per, MaxRunning: 1}
			if err := d.limit(ctx, limit); err != nil {
				return err
			}
			_, err := d.Pool.Exec(ctx, insertHeldSQL, 10*config.Tasks)
			return err
		}
	}
	var ratios [4][]float64
	for round := range config.Rounds {
		plain, _, err := drainEngine(ctx, config, nil)
		if err != nil {
			return err
		}
		for i, prepare := range []func(context.Context, *database) error{
			unreached, groups, held(""), held(store.PerGroup),
		} {
			rate, _, err := drainEngine(ctx, config, prepare)
			if err != nil {
				return err
			}
			ratios[i] = append(ratios[i], rate/plain)
		}
		config.Say("round %d of %d: %.0f tasks/s, unreached %.2f, groups %.2f, saturated %.2f, saturated group %.2f",
			round+1, config.Rounds, plain, ratios[0][round], ratios[1][round], ratios[2][round], ratios[3][round])
	}
	exceeded := 0
	for _, d := range grouped {
		exceeded += max(d.groups.most-1, 0)
	}
	passes, err := passRatio(ctx, config, held(store.PerGroup))
	if err != nil {
		return err
	}
	wrong, excess, err := keptRate(ctx, config)
	result.add("unreached_ratio", median(ratios[0]), "of the drain without a limit, with one that is never reached")
	result.add("groups_ratio", median(ratios[1]), "of that drain, one at a time in each group of ten")
	result.add("saturated_ratio", median(ratios[2]), "of that drain, beside ten times as many tasks that a limit holds")
	result.add("saturated_group_ratio", median(ratios[3]), "the same, with a limit of their group")
	result.add("exceeded", float64(exceeded), "how many tasks of a group more than one ran at once, at most")
	result.add("pass_ratio", passes, "how long a pass takes beside that many tasks of a saturated group, / alone")
	result.add("rate_error", wrong, "by which part of it the rate over 30 s differs from 100 a second")
	result.add("excess", excess, "how many tasks more than burst + rate × t started in some time t, at most")
	if err != nil {
		return err
	}
	for _, one := range []struct {
		name       string
		slots, max int
	}{{"fair_idle_p99_ms", 200, 20}, {"fair_busy_p99_ms", 100, 0}} {
		late, err := fair(ctx, config, one.slots, one.max)
		if err != nil {
			return err
		}
		result.add(one.name, late, "ms from due to start, 99 of 100 tasks of the 99 small tenants start within it")
	}
	return nil
}

const insertHeldSQL = `
INSERT INTO tasktable.scheduled_tasks (id, payload, group_key)
SELECT 'held ' || n, jsonb_build_object('type', '` + heldType + `', 'n', n), 'one'
FROM generate_series(1, $1::int) AS n`

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
		if err := n.work(ctx, d, "rate", tasks, "clock_timestamp()", 2*time.Minute); err != nil {
			return err
		}
		starts, err := pg.CollectColumn[time.Time](ctx, d.Pool, "read starts", startsSQL)
		if err != nil {
			return err
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

const (
	fairFor   = 15 * time.Second
	fairEvery = 100 * time.Millisecond
	// insertTenantsSQL schedules one task for each small tenant.
	insertTenantsSQL = `
INSERT INTO tasktable.scheduled_tasks (id, payload, tenant_id)
SELECT $1 || ' ' || n, jsonb_build_object('type', 'BENCH'), 'small-' || n FROM generate_series(1, $2::int) AS n`
	insertTenantSQL = `
INSERT INTO tasktable.scheduled_tasks (id, payload, tenant_id)
SELECT 'large ' || n, jsonb_build_object('type', 'BENCH'), 'large' FROM generate_series(1, $1::int) AS n`
)

// fair returns how late the tasks of small tenants start beside a large one.
func fair(ctx context.Context, config Config, slots, most int) (late float64, err error) {
	const tenants = 99
	work := func(context.Context) error { <-time.After(50 * time.Millisecond); return nil }
	err = within(ctx, config, func(d *database) (err error) {
		limit := store.Limit{Name: "fair", Of: store.Everything(), Per: store.PerTenant, MaxRunning: most}
		if err := d.limit(ctx, limit); err != nil {
			return err
		}
		if _, err := d.Pool.Exec(ctx, insertTenantSQL, 10*config.Tasks); err != nil {
			return err
		}
		if err := d.quiet(ctx); err != nil {
			return err
		}
		n, err := startNode(ctx, d, config, slots, work)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, n.stop()) }()
		if err := n.finished(ctx, int64(slots), time.Minute); err != nil {
			return err
		}
		ticker, rounds := time.NewTicker(fairEvery), 0
		defer ticker.Stop()
		for began := time.Now(); time.Since(began) < fairFor; rounds++ {
			if _, err := d.Pool.Exec(ctx, insertTenantsSQL, fmt.Sprint("few ", rounds), tenants); err != nil {
				return err
			}
			<-ticker.C
		}
		if err := d.Until(ctx, time.Minute, "all tasks of small tenants have run", `SELECT count(*) = $1
			FROM tasktable.scheduled_tasks WHERE starts_with(id, 'few ') AND status = 'COMPLETED'`,
			rounds*tenants); err != nil {
			return err
		}
		lateness, err := d.delays(ctx, "few")
		if err == nil && len(lateness) == 0 {
			err = failed("no task of a small tenant has run")
		}
		late = quantile(lateness, 0.99)
		return err
	})
	return late, err
}
