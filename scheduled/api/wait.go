package api

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tasktable/tasktable/store"
)

// The pauses between two looks at a task that a call waits for. A call holds no connection in between.
const (
	minLookPause = 50 * time.Millisecond
	maxLookPause = time.Second
)

// getTask reads a task. If the call waits, it looks again and again until the status is final or the time is over.
func (a *API) getTask(ctx context.Context, in *taskInput) (*taskAnswer, error) {
	var wait time.Duration
	if in.Wait != "" {
		var err error
		if wait, err = time.ParseDuration(in.Wait); err != nil {
			wait, err = time.ParseDuration(in.Wait + "s") // a number of seconds, as all durations here
		}
		if err != nil || wait < 0 || wait > MaxWait {
			return nil, invalid("wait must be from 0s to 1m, such as 30s")
		}
	}
	row, err := a.look(ctx, in.ID)
	if err != nil {
		return nil, err
	}
	over := time.NewTimer(wait)
	defer over.Stop()
	for pause := minLookPause; wait > 0 && row.FinishedAt == nil; pause = min(2*pause, maxLookPause) {
		again := time.NewTimer(pause)
		select {
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case <-over.C:
			wait = 0
		case <-again.C:
		}
		again.Stop()
		if row, err = a.look(ctx, in.ID); err != nil {
			return nil, err
		}
	}
	return &taskAnswer{ETag: etag(row.Revision), Body: taskOf(row)}, nil
}

// look reads a task in a transaction of its own, so that no transaction is open while the call waits.
func (a *API) look(ctx context.Context, id string) (store.Row, error) {
	ctx, cancel := context.WithTimeout(ctx, a.config.Timeout)
	defer cancel()
	caller := callerOf(ctx)
	row, err := run(ctx, a, caller, pgx.TxOptions{AccessMode: pgx.ReadOnly}, caller.Tenant != "", asked{},
		func(c call) (*store.Row, error) {
			row, err := c.tasks.Get(ctx, c.db, id)
			return &row, err
		})
	if err != nil {
		return store.Row{}, err
	}
	return *row, nil
}
