package scheduled

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"go.uber.org/goleak"

	"github.com/tasktable/tasktable/handlers"
)

// childVariable holds a childConfig as JSON where this test binary is to be a node's process instead of running tests.
const childVariable = "TASKTABLE_TEST_CHILD"

// Exit codes of a child, besides 0.
const (
	childFailed   = 1
	childLeaked   = 3 // goroutines left after Run returned
	childOrphaned = 4
)

type childConfig struct {
	URL             string
	Slots           int
	ShutdownTimeout time.Duration
	Types           []string // nil: all
}

// runChild does not return in a child.
func runChild() {
	if text := os.Getenv(childVariable); text != "" {
		os.Exit(child(text))
	}
}

func child(text string) int {
	go func() { // the test process holds the other end as long as it lives
		_, _ = io.Copy(io.Discard, os.Stdin)
		os.Exit(childOrphaned)
	}()
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	level := slog.LevelInfo
	if os.Getenv("TASKTABLE_TEST_LOG") != "" {
		level = slog.LevelDebug
	}
	log := slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: level}))
	before := goleak.IgnoreCurrent()
	if err := serveChild(ctx, text, log); err != nil {
		log.Error("child failed", "error", err)
		return childFailed
	}
	if err := goleak.Find(before); err != nil {
		log.Error("child leaked", "error", err.Error()[:min(len(err.Error()), 4000)])
		return childLeaked
	}
	return 0
}

func serveChild(ctx context.Context, text string, log *slog.Logger) error {
	var config childConfig
	if err := json.Unmarshal([]byte(text), &config); err != nil {
		return fmt.Errorf("decode configuration: %w", err)
	}
	// Not ctx: the pools outlive the signal.
	pool, err := openTestPool(context.WithoutCancel(ctx), config.URL, "handlers", 12)
	if err != nil {
		return err
	}
	defer closeSoon(pool)
	own, err := openTestPool(context.WithoutCancel(ctx), config.URL, "records", 12)
	if err != nil {
		return err
	}
	defer closeSoon(own)
	registry, err := handlers.NewRegistry(childHandlers(&records{own}, config.Types)...)
	if err != nil {
		return err
	}
	node, err := New(Config{
		Pool: pool, Handlers: registry, Service: "child", Logger: log, Queues: map[string]int{"default": config.Slots},
		ShutdownTimeout: config.ShutdownTimeout,
	})
	if err != nil {
		return err
	}
	return node.Run(ctx)
}

func openTestPool(ctx context.Context, url, name string, conns int32) (*pgxpool.Pool, error) {
	settings, err := pgxpool.ParseConfig(url)
	if err != nil {
		return nil, fmt.Errorf("parse URL: %w", err)
	}
	settings.MaxConns = conns
	settings.ConnConfig.RuntimeParams["application_name"] = "test " + name
	return pgxpool.NewWithConfig(ctx, settings)
}

// closeSoon does not wait for a handler that ignores its context and has a connection.
func closeSoon(pool *pgxpool.Pool) {
	closed := make(chan struct{})
	go func() {
		pool.Close()
		close(closed)
	}()
	select {
	case <-closed:
	case <-time.After(time.Second):
	}
}

// childHandlers are the variants that a child serves, of the given types or all.
func childHandlers(r *records, types []string) []handlers.Part {
	all := map[string]handlers.Part{
		quick{}.TaskType():     handlers.Handle(r.quick),
		gated{}.TaskType():     handlers.Handle(r.gated),
		stubborn{}.TaskType():  handlers.Handle(r.stubborn),
		effectTx{}.TaskType():  handlers.HandleTx(r.effectTx),
		effectSQL{}.TaskType(): handlers.HandleSQLTx(r.effectSQL),
	}
	var parts []handlers.Part
	for name, part := range all {
		if types == nil || slices.Contains(types, name) {
			parts = append(parts, part)
		}
	}
	return parts
}

// quick records that it ran, after so many milliseconds. A doomed one fails.
type quick struct {
	Name   string `json:"name"`
	Millis int    `json:"millis"`
}

func (quick) TaskType() string  { return "QUICK" }
func (p quick) TaskKey() string { return p.Name }

// gated runs until the test opens its gate, or its context ends.
type gated struct {
	Name string `json:"name"`
	Gate int64  `json:"gate"`
}

func (gated) TaskType() string  { return "GATED" }
func (p gated) TaskKey() string { return p.Name }

// stubborn is gated, but does not mind its context.
type stubborn gated

func (stubborn) TaskType() string  { return "STUBBORN" }
func (p stubborn) TaskKey() string { return p.Name }

// effectTx and effectSQL write a row in the transaction that completes them. With "open" in their names they
// then wait for the gate. With "lock" they take a lock of their type, which the transaction keeps, and wait for
// gate 1 outside of it.
type (
	effectTx  struct{ Name string }
	effectSQL struct{ Name string }
)

func (effectTx) TaskType() string   { return "EFFECT_TX" }
func (p effectTx) TaskKey() string  { return p.Name }
func (effectSQL) TaskType() string  { return "EFFECT_SQL" }
func (p effectSQL) TaskKey() string { return p.Name }

const openGate = 2

// The locks that transactions keep.
const (
	lockOfTx  = 3
	lockOfSQL = 4
)

// records is what handlers tell the tests, through connections of their own.
type records struct{ pool *pgxpool.Pool }

// No unique keys: what runs twice is to be seen.
const recordsSQL = `
CREATE TABLE runs (
    number bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, task_id text NOT NULL, revision bigint NOT NULL,
    fence bigint NOT NULL,
    attempt int NOT NULL, pid int NOT NULL, began_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    ended_at timestamptz, cause text);
CREATE TABLE effects (task_id text NOT NULL, revision bigint NOT NULL, pid int NOT NULL)`

const (
	beganSQL = `INSERT INTO runs (task_id, revision, fence, attempt, pid) VALUES ($1, $2, $3, $4, $5) RETURNING number`
	endedSQL = `UPDATE runs SET ended_at = clock_timestamp(), cause = $2 WHERE number = $1`
	passSQL  = `SELECT pg_advisory_xact_lock_shared($1)`
	lockSQL  = `SELECT pg_advisory_xact_lock($1)`
	writeSQL = `INSERT INTO effects (task_id, revision, pid) VALUES ($1, $2, $3)`
)

// record runs do between two marks.
func (r *records) record(ctx context.Context, e *handlers.Execution, do func() error) error {
	detached := context.WithoutCancel(ctx) // the marks are made, whatever becomes of the task
	var number int64
	err := r.pool.QueryRow(detached, beganSQL, e.ID, e.Revision, e.Fence, e.Attempt, os.Getpid()).Scan(&number)
	if err != nil {
		return err
	}
	err = do()
	var cause *string
	if ctx.Err() != nil {
		cause = new(context.Cause(ctx).Error())
	}
	if _, failed := r.pool.Exec(detached, endedSQL, number, cause); failed != nil {
		return failed
	}
	return err
}

func (r *records) quick(ctx context.Context, t *handlers.Task[quick]) error {
	return r.record(ctx, t.Execution, func() error {
		timer := time.NewTimer(time.Duration(t.Payload.Millis) * time.Millisecond)
		defer timer.Stop()
		select {
		case <-timer.C:
			if strings.HasPrefix(t.Payload.Name, "doomed") {
				return errors.New("doomed")
			}
			return nil
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	})
}

func (r *records) gated(ctx context.Context, t *handlers.Task[gated]) error {
	return r.record(ctx, t.Execution, func() error { return r.pass(ctx, t.Payload.Gate) })
}

func (r *records) stubborn(ctx context.Context, t *handlers.Task[stubborn]) error {
	return r.record(ctx, t.Execution, func() error { return r.pass(context.WithoutCancel(ctx), t.Payload.Gate) })
}

// pass waits for the test to let go of an advisory lock.
func (r *records) pass(ctx context.Context, gate int64) error {
	_, err := r.pool.Exec(ctx, passSQL, gate)
	return err
}

func (r *records) effectTx(ctx context.Context, tx pgx.Tx, t *handlers.Task[effectTx]) error {
	_, err := tx.Exec(ctx, writeSQL, t.ID, t.Revision, os.Getpid())
	if err == nil && strings.Contains(t.ID, "open") {
		_, err = tx.Exec(ctx, passSQL, openGate)
	}
	if err == nil && strings.Contains(t.ID, "lock") {
		if _, err = tx.Exec(ctx, lockSQL, lockOfTx); err == nil {
			err = r.record(ctx, t.Execution, func() error { return r.pass(ctx, 1) })
		}
	}
	return err
}

func (r *records) effectSQL(ctx context.Context, tx *sql.Tx, t *handlers.Task[effectSQL]) error {
	_, err := tx.ExecContext(ctx, writeSQL, t.ID, t.Revision, os.Getpid())
	if err == nil && strings.Contains(t.ID, "open") {
		_, err = tx.ExecContext(ctx, passSQL, openGate)
	}
	if err == nil && strings.Contains(t.ID, "lock") {
		if _, err = tx.ExecContext(ctx, lockSQL, lockOfSQL); err == nil {
			err = r.record(ctx, t.Execution, func() error { return r.pass(ctx, 1) })
		}
	}
	return err
}
