package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
)

var snapshotBench = Bench{
	Name: "snapshot", Short: "How fast a backlog is worked off while another session holds an old snapshot",
	Default: 1_000_000,
	Long: `One node with the default settings works off tasks whose handler does nothing, a tenth of the number in each
round. It does the first round alone. During the other rounds another session holds a snapshot. The snapshot keeps
vacuum from removing everything that the tasks leave behind: versions of their rows, River's jobs, and the entries of
both in all indexes. The bench compares the last round with the first.`,
	Verified: verified, measure: measureSnapshot,
}

const snapshotRounds = 10 // beside the snapshot

func measureSnapshot(ctx context.Context, config Config, result *Result) error {
	var before, after float64
	err := withNode(ctx, config, func(d *database, n *node) (err error) {
		some := max(config.Tasks/snapshotRounds, 1)
		if before, err = d.round(ctx, n, "before", some); err != nil {
			return err
		}
		config.Say("without a snapshot: %.0f tasks/s", before)
		letGo, err := d.holdSnapshot(ctx)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, letGo()) }()
		for round := range snapshotRounds {
			if after, err = d.round(ctx, n, fmt.Sprint("held", round), some); err != nil {
				return err
			}
			config.Say("round %d of %d beside a snapshot: %.0f tasks/s", round+1, snapshotRounds, after)
		}
		return nil
	})
	result.add("before_per_s", before, "tasks a second, without a snapshot")
	result.add("after_per_s", after, "tasks a second, in the last tenth of the tasks beside a snapshot")
	result.add("snapshot_ratio", after/before, "after_per_s / before_per_s")
	return err
}

// round works off tasks that are due at once, and returns the tasks per second.
func (d *database) round(ctx context.Context, n *node, prefix string, tasks int) (rate float64, err error) {
	began, err := n.release(ctx, d, tasks, func() error {
		return d.insert(ctx, prefix, tasks, "clock_timestamp()")
	})
	if err != nil {
		return 0, err
	}
	rate = perSecond(tasks, time.Since(began))
	return rate, d.done(ctx, prefix, tasks)
}

// holdSnapshot begins a transaction whose snapshot keeps vacuum from removing rows that die from now on.
func (d *database) holdSnapshot(ctx context.Context) (letGo func() error, err error) {
	tx, err := d.Pool.BeginTx(ctx, pgx.TxOptions{IsoLevel: pgx.RepeatableRead})
	if err != nil {
		return nil, fmt.Errorf("hold a snapshot: %w", err)
	}
	// The rollback does not use ctx, because the transaction must end after an interrupt, too.
	letGo = func() error { return tx.Rollback(context.WithoutCancel(ctx)) }
	if _, err := tx.Exec(ctx, `SELECT count(*) FROM tasktable.nodes`); err != nil {
		return nil, errors.Join(fmt.Errorf("hold a snapshot: %w", err), letGo())
	}
	return letGo, nil
}
