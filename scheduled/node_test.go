package scheduled

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tasktable/tasktable/handlers"
	"github.com/tasktable/tasktable/scheduled/internal/enginetest"
	"github.com/tasktable/tasktable/scheduled/internal/taskdb"
	"github.com/tasktable/tasktable/store"
)

func TestTaskRunsAtItsTimeAndIsRecorded(t *testing.T) {
	s := newBench(t)
	limit := enginetest.Limits(t, s.Pool)
	var log enginetest.LogText
	s.node(func(c *Config) {
		c.Logger = slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	}, handlers.Handle(func(_ context.Context, task *handlers.Task[enginetest.Job]) error {
		task.Note("hello %s", task.Payload.Name)
		task.Result(map[string]int{"n": 1})
		return nil
	}))
	s.Add("invoice-7", func(task *store.Task) { task.At = time.Now().Add(1500 * time.Millisecond) })
	row := s.Is("invoice-7", store.StatusCompleted, taskdb.OutcomeCompleted)
	if row.StartedAt.Before(row.ScheduledAt) || row.StartedAt.Sub(row.ScheduledAt) > limit(time.Second) {
		t.Errorf("scheduled for %s, started at %s", row.ScheduledAt, row.StartedAt)
	}
	if *row.Message != "hello invoice-7" || string(row.Result) != `{"n": 1}` {
		t.Errorf("message %q, result %s", *row.Message, row.Result)
	}
	enginetest.Eventually(t, patience, "at debug the line of the claim names the task", func() bool {
		return len(log.Lines("level=DEBUG", "msg=claimed", "tasks=1", "expired=0", "ids=[invoice-7]")) == 1
	})
}

// flaky is a payload with defaults.
type flaky struct{}

func (flaky) TaskType() string { return "FLAKY" }
func (flaky) TaskDefaults() store.Defaults {
	return store.Defaults{MaxAttempts: 2, Backoff: "1s", Retention: time.Hour}
}

// A node publishes the defaults of its code, so that SQL clients have them. The wait before a retry is the type's.
func TestDefaultsOfTheCodeAreForAll(t *testing.T) {
	s := newBench(t)
	starts := make(chan time.Time, 2)
	s.node(func(c *Config) { c.Defaults.Timeout = time.Minute },
		handlers.Handle(func(_ context.Context, task *handlers.Task[flaky]) error {
			starts <- task.StartedAt
			return errors.New("no")
		}))
	s.Sees("the node's row has those of all types", `SELECT count(*) = 1 FROM tasktable.nodes
		WHERE defaults = '{"timeout": 60000000000}'`)
	s.Sees("the defaults are published", `SELECT count(*) = 2 FROM tasktable.task_defaults WHERE declared_by IS NOT NULL`)
	s.Exec(`SELECT tasktable.schedule('{"type": "FLAKY"}', id => 'one')`)
	if wait := -(<-starts).Sub(<-starts); wait < time.Second || wait > 5*time.Second {
		t.Errorf("tried again after %s", wait)
	}
	s.Sees("it has failed for good", `SELECT status = 'FAILED' FROM tasktable.scheduled_tasks WHERE id = 'one'`)
	row := s.Is("one", store.StatusFailed, taskdb.OutcomeRetried, taskdb.OutcomeFailed)
	if *row.Timeout != time.Minute || *row.Retention != time.Hour || row.MaxAttempts != 2 {
		t.Errorf("the row: %+v", row)
	}
}

// A database whose default isolation is repeatable read changes nothing: a transactional handler may extend its
// lease, and its task may be edited while it runs.
func TestRepeatableReadByDefault(t *testing.T) {
	s := newBench(t)
	s.Exec(`DO $$ BEGIN EXECUTE format('ALTER DATABASE %I SET default_transaction_isolation = %L', current_database(),
		'repeatable read'); END $$`)
	s.nodes.Reset()
	// A transaction has its snapshot from its first statement.
	const look = "SELECT count(*) FROM tasktable.scheduled_tasks"
	s.node(nil,
		handlers.HandleTx(func(ctx context.Context, tx pgx.Tx, task *handlers.Task[enginetest.Job]) error {
			_, err := tx.Exec(ctx, look)
			return errors.Join(err, task.Extend(ctx, 10*time.Minute))
		}),
		handlers.HandleSQLTx(func(ctx context.Context, tx *sql.Tx, task *handlers.Task[ownBackoff]) error {
			_, err := tx.ExecContext(ctx, look)
			return errors.Join(err, task.Extend(ctx, 10*time.Minute))
		}))
	s.Add("pgx", nil)
	s.Add("sql", func(task *store.Task) { task.Payload = ownBackoff{} })
	s.Is("pgx", store.StatusCompleted, taskdb.OutcomeCompleted)
	s.Is("sql", store.StatusCompleted, taskdb.OutcomeCompleted)
}

type ownBackoff struct{}

func (ownBackoff) TaskType() string { return "OWN_BACKOFF" }

// Types that no node has wait, and are seen to; all others go on. When a node has them, they run.
func TestUnknownTypeWaits(t *testing.T) {
	s := newBench(t)
	s.node(nil)
	for i := range 500 {
		s.Add(fmt.Sprint("unknown ", i), func(task *store.Task) {
			task.Payload, task.Priority = store.JSON(`{"type":"UNKNOWN"}`), 100
		})
	}
	s.Add("elsewhere", func(task *store.Task) { task.Queue = "elsewhere" })
	for i := range 5 {
		id := fmt.Sprint("known ", i)
		s.Add(id, nil)
		s.Begins(id).End <- nil
		s.Is(id, store.StatusCompleted, taskdb.OutcomeCompleted)
	}
	s.Counts("tasks wait", 501,
		`SELECT count(*) FROM tasktable.scheduled_tasks WHERE status = 'QUEUED' AND attempt = 0 AND fence IS NULL`)
	s.Counts("tasks are seen to have no node", 501, `SELECT count(*) FROM tasktable.late_tasks WHERE NOT has_node`)
	s.node(func(c *Config) { c.Queues = map[string]int{"default": 100, "elsewhere": 1} },
		handlers.Func("UNKNOWN", func(context.Context) error { return nil }), handlers.Handle(s.Handle))
	s.Begins("elsewhere").End <- nil
	s.Sees("all are completed", `SELECT count(*) = 0 FROM tasktable.scheduled_tasks WHERE status <> 'COMPLETED'`)
}

// A table of letters and a task for each customer, which reads all that have come. Each letter is written with a
// Schedule in one transaction. None may stay unread, whatever the task does at that moment.
func TestNoLetterStaysInAMailbox(t *testing.T) {
	b := newBench(t)
	b.Exec(`CREATE TABLE letters (customer text NOT NULL, n int NOT NULL, read_at timestamptz)`)
	const customers, letters = 40, 40
	read := func(ctx context.Context, task *handlers.Task[enginetest.Job]) error {
		_, err := b.nodes.Exec(ctx, `UPDATE letters SET read_at = clock_timestamp() WHERE customer = $1 AND read_at IS NULL`,
			task.Payload.Name)
		if err == nil && task.Fence%7 == 0 {
			err = errors.New("some attempts fail after the work")
		}
		return err
	}
	for range 2 {
		b.node(nil, handlers.Handle(read))
	}
	var writers sync.WaitGroup
	for customer := range customers {
		writers.Go(func() {
			name := fmt.Sprint("customer ", customer)
			for n := range letters {
				err := pgx.BeginFunc(t.Context(), b.Pool, func(tx pgx.Tx) error {
					if _, err := tx.Exec(t.Context(), `INSERT INTO letters VALUES ($1, $2)`, name, n); err != nil {
						return err
					}
					_, err := b.Tasks.Schedule(t.Context(), tx, store.Task{
						Payload: enginetest.Job{Name: name}, IfFinished: store.Rearm, IfRunning: store.Again, MaxAttempts: 100,
					})
					return err
				})
				if err != nil {
					t.Errorf("letter %d of %s: %v", n, name, err)
				}
			}
		})
	}
	writers.Wait()
	b.SeesWithin(time.Minute, "all tasks end",
		`SELECT count(*) = 0 FROM tasktable.scheduled_tasks WHERE status <> 'COMPLETED'`)
	b.Counts("letters were never read", 0, `SELECT count(*) FROM letters WHERE read_at IS NULL`)
	b.Counts("letters", customers*letters, `SELECT count(*) FROM letters`)
	b.Counts("attempts were superseded", 0,
		`SELECT count(*) FROM tasktable.scheduled_task_executions WHERE outcome = 'SUPERSEDED'`)
}
