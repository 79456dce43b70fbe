package main

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tasktable/tasktable/scheduled"
	"github.com/tasktable/tasktable/scheduled/internal/pg"
	"github.com/tasktable/tasktable/scheduled/internal/taskdb"
	"github.com/tasktable/tasktable/store"
)

// maxBareTasks is how many tasks one statement claims or completes.
const maxBareTasks = 1000

// bareEngine runs the engine's statements on one connection, without River, handlers and gate. Benches compare the
// engine with it, and measure single statements with it.
type bareEngine struct {
	conn       *pgx.Conn
	statements taskdb.Queries
}

// withBareEngine calls do with a connection that is prepared as the engine prepares its own.
func (d *database) withBareEngine(ctx context.Context, do func(*bareEngine) error) error {
	schema, err := store.NewSchema(store.DefaultSchema)
	if err != nil {
		return err
	}
	conn, err := d.Pool.Acquire(ctx)
	if err != nil {
		return err
	}
	defer conn.Release()
	if _, err := conn.Exec(ctx, pg.PlanSettingsSQL); err != nil {
		return fmt.Errorf("prepare connection: %w", err)
	}
	return do(&bareEngine{conn: conn.Conn(), statements: taskdb.Queries{Schema: schema}})
}

// drain claims and completes due tasks, round after round, until none are due. It returns the number of tasks.
func (b *bareEngine) drain(ctx context.Context) (drained int, err error) {
	for {
		claimed, err := b.work(ctx)
		if err != nil || claimed == 0 {
			return drained, err
		}
		drained += claimed
	}
}

// work claims the due tasks, at most a thousand, and completes them. It returns the number of tasks.
func (b *bareEngine) work(ctx context.Context) (claimed int, err error) {
	taken, err := b.claim(ctx)
	if err != nil {
		return 0, err
	}
	return b.complete(ctx, taken)
}

// look measures two times: how long the leader's look at the lanes takes, and how long the statements take with which
// a pass claims the due tasks. It then completes the claimed tasks.
func (b *bareEngine) look(ctx context.Context) (peek, pass time.Duration, claimed int, err error) {
	began := time.Now()
	if _, err := b.statements.Lanes(ctx, b.conn, nil); err != nil {
		return 0, 0, 0, err
	}
	peek = time.Since(began)
	began = time.Now()
	taken, err := b.claim(ctx)
	if err != nil {
		return 0, 0, 0, err
	}
	pass = time.Since(began)
	claimed, err = b.complete(ctx, taken)
	return peek, pass, claimed, err
}

func (b *bareEngine) claim(ctx context.Context) (taken []taskdb.ClaimedLane, err error) {
	err = pgx.BeginFunc(ctx, b.conn, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, taskdb.EnterSQL); err != nil {
			return fmt.Errorf("enter the engine's context: %w", err)
		}
		lanes, err := b.statements.Lanes(ctx, tx, nil)
		if err == nil {
			taken, err = b.claimFrom(ctx, tx, taskdb.Unpaused(lanes.Tasks, lanes.Paused))
		}
		return err
	})
	return taken, err
}

func (b *bareEngine) claimFrom(ctx context.Context, tx pgx.Tx, lanes []taskdb.Lane) ([]taskdb.ClaimedLane, error) {
	var due []taskdb.Grant
	for _, l := range lanes {
		if l.DueIn <= 0 {
			due = append(due, taskdb.Grant{Lane: l, Tasks: max(maxBareTasks/len(lanes), 1)})
		}
	}
	if len(due) == 0 {
		return nil, nil
	}
	return b.statements.Claim(ctx, tx, nil, 0, scheduled.DefaultStartAllowance, due)
}

// complete returns the number of tasks.
func (b *bareEngine) complete(ctx context.Context, taken []taskdb.ClaimedLane) (int, error) {
	now := time.Now()
	var ended []taskdb.Settlement
	for _, lane := range taken {
		for _, c := range lane.Tasks {
			ended = append(ended, taskdb.Settlement{
				Claim: c.Claim, Type: lane.Grant.Type, ScheduledAt: &c.Due, StartedAt: &now,
				Outcome: taskdb.OutcomeCompleted, Edited: taskdb.OutcomeSuperseded, To: store.StatusCompleted,
			})
		}
	}
	if len(ended) == 0 {
		return 0, nil
	}
	_, err := b.statements.CompleteOrSettle(ctx, b.conn, nil, ended)
	return len(ended), err
}
