package bench

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tasktable/tasktable/store"
)

var snapshotBench = Bench{
	Name: "snapshot", Short: "How fast a backlog is worked off while another session holds an old snapshot",
	Default: snapshotTasks,
	Long: `One node with the default settings works off tasks whose handler does nothing, a tenth of the number at a
time. It does so once, and then while another session holds a snapshot that keeps everything the tasks leave behind
from being vacuumed: versions of their rows, River's jobs, and the entries of both in all indexes. The last round is
compared to the one before the snapshot.`,
	Run: runSnapshot,
}

const (
	snapshotTasks  = 1_000_000
	snapshotRounds = 10 // in which these tasks run
)

func runSnapshot(ctx context.Context, config Config) (Result, error) {
	config = config.withDefaults(snapshotTasks)
	result := Result{Bench: "snapshot", Verified: verified}
	var before, after float64
	err := within(ctx, config, func(d *database) (err error) {
		n, err := startNode(ctx, d, config, 0, nil)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, n.stop()) }()
		if err := n.warm(ctx, d); err != nil {
			return err
		}
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
	return result, err
}

// round works off tasks that are due at once, and returns how many a second that was.
func (d *database) round(ctx context.Context, n *node, prefix string, tasks int) (rate float64, err error) {
	scheduler := store.New(store.Config{Service: "bench"})
	if _, err := scheduler.PauseScope(ctx, d.Pool, store.Everything(), time.Time{}, "until all is in place"); err != nil {
		return 0, err
	}
	if err := d.insert(ctx, prefix, tasks, "clock_timestamp()"); err != nil {
		return 0, err
	}
	ran := n.ran.Load()
	began := time.Now()
	if _, err := scheduler.ResumeScope(ctx, d.Pool, store.Everything()); err != nil {
		return 0, err
	}
	if err := n.finished(ctx, ran+int64(tasks), 10*time.Minute); err != nil {
		return 0, err
	}
	rate = perSecond(tasks, time.Since(began))
	if err := d.settled(ctx, prefix, time.Minute); err != nil {
		return 0, err
	}
	return rate, d.verify(ctx, prefix, tasks)
}

// holdSnapshot begins a transaction whose snapshot keeps what dies from now on.
func (d *database) holdSnapshot(ctx context.Context) (letGo func() error, err error) {
	tx, err := d.Pool.BeginTx(ctx, pgx.TxOptions{IsoLevel: pgx.RepeatableRead})
	if err != nil {
		return nil, fmt.Errorf("hold a snapshot: %w", err)
	}
	letGo = func() error { return tx.Rollback(context.WithoutCancel(ctx)) } // not ctx: it must end after an interrupt, too
	if _, err := tx.Exec(ctx, `SELECT count(*) FROM tasktable.nodes`); err != nil {
		return nil, errors.Join(fmt.Errorf("hold a snapshot: %w", err), letGo())
	}
	return letGo, nil
}
