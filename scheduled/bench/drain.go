package main

import (
	"context"
	"time"
)

var drainBench = Bench{
	Name: "drain", Short: "How fast a backlog is worked off, beside bare River and the bare statements",
	Default: 100000,
	Long: `All tasks are due, and their handler does nothing. One node with the default settings works them off. In
turns with it, two others do the same work. One is River alone, with the indexes that its own migrations make. It has
several numbers of workers, and the best counts. The other is the engine's claim and settle statements alone, in a loop
on one connection, without River and handlers.`,
	Verified: verified, measure: measureDrain,
}

func measureDrain(ctx context.Context, config Config, result *Result) error {
	var ours, river, floor, vsRiver, vsFloor, wal []float64
	for round := range config.Rounds {
		engine, bytes, err := drainEngine(ctx, config, nil)
		if err != nil {
			return err
		}
		config.Say("round %d of %d: engine %.0f tasks/s, %.0f bytes of WAL a task",
			round+1, config.Rounds, engine, bytes)
		bare, workers, err := drainRiver(ctx, config)
		if err != nil {
			return err
		}
		config.Say("round %d of %d: River alone %.0f jobs/s, with %d workers", round+1, config.Rounds, bare, workers)
		lowest, err := drainFloor(ctx, config)
		if err != nil {
			return err
		}
		config.Say("round %d of %d: statements alone %.0f tasks/s", round+1, config.Rounds, lowest)
		ours, wal, river, floor = append(ours, engine), append(wal, bytes), append(river, bare), append(floor, lowest)
		vsRiver, vsFloor = append(vsRiver, engine/bare), append(vsFloor, engine/lowest)
	}
	result.add("tasks_per_s", median(ours), "tasks a second, one node")
	result.add("river_per_s", median(river), "jobs a second, River alone")
	result.add("floor_per_s", median(floor), "tasks a second, claim and settle alone")
	result.add("vs_river", median(vsRiver), "tasks_per_s / river_per_s")
	result.add("vs_floor", median(vsFloor), "tasks_per_s / floor_per_s")
	result.add("wal_bytes_per_task", median(wal), "bytes of WAL, from claim to settle")
	return nil
}

const walSQL = `SELECT (pg_current_wal_insert_lsn() - '0/0')::float8`

// drainEngine measures from the moment a pause ends until the last task is settled. prepare is called before the tasks
// are inserted. Nil means that there is nothing to prepare.
func drainEngine(
	ctx context.Context, config Config, prepare func(context.Context, *database) error,
) (rate, walPerTask float64, err error) {
	err = withNode(ctx, config, func(d *database, n *node) error {
		var before, after float64
		began, err := n.release(ctx, d, config.Tasks, func() error {
			if prepare != nil {
				if err := prepare(ctx, d); err != nil {
					return err
				}
			}
			if err := d.insert(ctx, "drain", config.Tasks, "clock_timestamp()"); err != nil {
				return err
			}
			if err := d.quiet(ctx); err != nil {
				return err
			}
			return d.Scan(ctx, walSQL, nil, &before)
		})
		if err != nil {
			return err
		}
		if err := d.settled(ctx, "drain", time.Minute); err != nil {
			return err
		}
		rate = perSecond(config.Tasks, time.Since(began))
		if err := d.Scan(ctx, walSQL, nil, &after); err != nil {
			return err
		}
		walPerTask = (after - before) / float64(config.Tasks)
		return d.verify(ctx, "drain", config.Tasks)
	})
	return rate, walPerTask, err
}

// drainFloor measures the engine's statements alone.
func drainFloor(ctx context.Context, config Config) (rate float64, err error) {
	err = within(ctx, config, func(d *database) error {
		if err := d.insert(ctx, "floor", config.Tasks, "clock_timestamp()"); err != nil {
			return err
		}
		if err := d.quiet(ctx); err != nil {
			return err
		}
		return d.withBareEngine(ctx, func(bare *bareEngine) error {
			began := time.Now()
			drained, err := bare.drain(ctx)
			if err != nil {
				return err
			}
			rate = perSecond(config.Tasks, time.Since(began))
			if drained != config.Tasks {
				return failed("%d of %d tasks were claimed", drained, config.Tasks)
			}
			return d.verify(ctx, "floor", config.Tasks)
		})
	})
	return rate, err
}
