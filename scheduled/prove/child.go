package prove

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tasktable/tasktable/handlers"
	"github.com/tasktable/tasktable/scheduled"
	"github.com/tasktable/tasktable/scheduled/internal/throwaway"
	"github.com/tasktable/tasktable/store"
)

// processVariable tells a node's process its number in the proof. The proof does not use PIDs as numbers, because the
// system may use a PID again.
const processVariable = "TASKTABLE_PROVE_PROCESS"

const (
	slots = 20
	// childConns is small, because a server with Postgres's default settings has 100 connections in all.
	childConns = 8
)

// plain and transactional are the two variants of tasks. Their handlers take Millis milliseconds, and write the
// effect halfway.
type (
	plain struct {
		Key    string `json:"key"`
		Millis int    `json:"millis"`
	}
	transactional plain
)

func (plain) TaskType() string          { return "PROVE" }
func (p plain) TaskKey() string         { return p.Key }
func (transactional) TaskType() string  { return "PROVE_TX" }
func (p transactional) TaskKey() string { return p.Key }

// Child runs a node for the proof's tasks, until the process is killed, or until the process that started it ends.
// The program calls Child when it is started with Config.Arguments.
func Child(ctx context.Context, stdout, stderr io.Writer) error {
	process, err := strconv.Atoi(os.Getenv(processVariable))
	if err != nil {
		return fmt.Errorf("%s: %w", processVariable, err)
	}
	d, err := throwaway.Inherited(ctx, childConns)
	if err != nil {
		return err
	}
	defer d.Pool.Close()
	worker := &worker{d.Pool, process}
	registry, err := handlers.NewRegistry(handlers.Handle(worker.plain), handlers.HandleTx(worker.transactional))
	if err != nil {
		return err
	}
	node, err := scheduled.New(scheduled.Config{
		Pool: d.Pool, Handlers: registry, Service: "prove", Queues: map[string]int{store.DefaultQueue: slots},
		Logger: slog.New(slog.NewTextHandler(stderr, &slog.HandlerOptions{Level: slog.LevelError})),
	})
	if err != nil {
		return err
	}
	ctx, release := throwaway.Ready(ctx, stdout)
	defer release()
	return node.Run(ctx)
}

// worker runs the tasks of one process.
type worker struct {
	pool    *pgxpool.Pool
	process int
}

// The record must outlive the process, but not the server. So these two statements do not wait for the disk. The
// effect does.
const (
	beganSQL = `
		INSERT INTO proof.runs (task_id, fence, process)
		SELECT $1, $2, $3 FROM set_config('synchronous_commit', 'off', true) RETURNING number`
	endedSQL = `
		UPDATE proof.runs SET ended_at = clock_timestamp()
		FROM set_config('synchronous_commit', 'off', true) WHERE number = $1`
)

const effectSQL = `INSERT INTO proof.effects (task_id, fence) VALUES ($1, $2)`

func (w *worker) plain(ctx context.Context, t *handlers.Task[plain]) error {
	return w.record(ctx, t.Execution, t.Payload.Millis, func() error {
		_, err := w.pool.Exec(ctx, effectSQL, t.ID, t.Fence)
		return err
	})
}

func (w *worker) transactional(ctx context.Context, tx pgx.Tx, t *handlers.Task[transactional]) error {
	return w.record(ctx, t.Execution, t.Payload.Millis, func() error {
		_, err := tx.Exec(ctx, effectSQL, t.ID, t.Fence)
		return err
	})
}

// record takes millis milliseconds and makes the effect halfway. It records the beginning and the end, even if ctx
// ends or the effect fails.
func (w *worker) record(ctx context.Context, e *handlers.Execution, millis int, effect func() error) error {
	detached := context.WithoutCancel(ctx)
	var number int64
	if err := w.pool.QueryRow(detached, beganSQL, e.ID, e.Fence, w.process).Scan(&number); err != nil {
		return fmt.Errorf("record a run: %w", err)
	}
	half := time.Duration(millis) * time.Millisecond / 2
	err := pause(ctx, half)
	if err == nil {
		err = effect()
	}
	if err == nil {
		err = pause(ctx, half)
	}
	if _, failed := w.pool.Exec(detached, endedSQL, number); failed != nil {
		return fmt.Errorf("record a run: %w", failed)
	}
	return err
}

func pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
