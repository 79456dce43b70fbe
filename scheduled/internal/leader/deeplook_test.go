package leader

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tasktable/tasktable/scheduled/internal/enginetest"
	"github.com/tasktable/tasktable/scheduled/internal/session"
	"github.com/tasktable/tasktable/scheduled/internal/taskdb"
)

// overWire is a pool of at most two connections, with a wire between them and the server.
func (b *bench) overWire(w *enginetest.Wire) *pgxpool.Pool {
	b.T.Helper()
	settings := b.Pool.Config()
	settings.ConnConfig.DialFunc, settings.MaxConns = w.Dial, 2
	pool, err := pgxpool.NewWithConfig(b.T.Context(), settings)
	if err != nil {
		b.T.Fatal(err)
	}
	b.T.Cleanup(func() { w.End(); pool.Close() })
	return pool
}

// A connection that is gone without a word keeps a deep look for seconds only, and the next look has another one.
func TestDeepLookOnADeadConnection(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	limit := enginetest.Limits(t, b.Pool)
	w := enginetest.NewWire()
	deep := &deepLook{pool: b.overWire(w), statements: b.Queries}
	if found := deep.look(t.Context(), nil, nil); found.err != nil {
		t.Fatal(found.err)
	}
	w.Forget()
	began := time.Now()
	if found := deep.look(t.Context(), nil, nil); found.err == nil {
		t.Fatal("a look on a dead connection was answered")
	}
	if took := time.Since(began); took > limit(maxConnecting+2*time.Second) {
		t.Errorf("it gave up after %s", took)
	}
	if found := deep.look(t.Context(), nil, nil); found.err != nil {
		t.Errorf("the next look: %v", found.err)
	}
}

// Lanes that a node has begun to work while a look was under way are read by another look at once. A look that failed
// is not repeated at once.
func TestDeepLookForNewLanes(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	told := make(chan struct{}, 1)
	deep := &deepLook{
		pool: b.Pool, statements: b.Queries, log: enginetest.Logger(), told: func() { told <- struct{}{} },
	}
	first := taskdb.WorkedLane{Queue: "default", Kind: "FIRST"}
	second := taskdb.WorkedLane{Queue: "default", Kind: "SECOND"}
	var marks LowWaterMarks
	marks.Work([]taskdb.WorkedLane{first})
	for _, step := range []struct {
		what   string
		before func()
		begins bool
		during func()
	}{
		{what: "the first", begins: true, during: func() { marks.Work([]taskdb.WorkedLane{first, second}) }},
		{what: "one more at once, because a lane is new", begins: true},
		{what: "no third"},
		{what: "the lane is new again", begins: true, before: func() {
			marks.Work([]taskdb.WorkedLane{first})
			marks.Work([]taskdb.WorkedLane{first, second})
		}},
		{what: "the last look failed", before: func() {
			marks.Work([]taskdb.WorkedLane{first})
			marks.Work([]taskdb.WorkedLane{first, second})
			deep.err = errors.New("failed")
		}},
	} {
		if step.before != nil {
			step.before()
		}
		if deep.begin(t.Context(), &marks); deep.busy != step.begins {
			t.Errorf("%s: it begins %t, want %t", step.what, deep.busy, step.begins)
		}
		if deep.busy {
			if step.during != nil {
				step.during()
			}
			enginetest.Receive(t, told, enginetest.Patience, "the deep look ends")
			found, _ := deep.take()
			marks.Deep(found)
			marks.Quick = false
		}
	}
}

// The time that a look takes is measured where the lanes are read, because Postgres sends the answers to a batch
// together.
func TestDeepLookMeasuresTheLanes(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	const held = 300 * time.Millisecond
	tx, err := b.Pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	looked := make(chan DeepFound, 1)
	config := b.Pool.Config()
	config.MaxConns = 1
	pool, err := pgxpool.NewWithConfig(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	deep := &deepLook{pool: pool, statements: b.Queries, log: enginetest.Logger()}
	worked := []taskdb.WorkedLane{{Queue: "default", Kind: "JOB"}}
	deep.look(t.Context(), worked, nil) // prepares the statements, which would wait for the lock, too
	if _, err := tx.Exec(t.Context(), `LOCK TABLE tasktable.scheduled_tasks`); err != nil {
		t.Fatal(err)
	}
	go func() {
		looked <- deep.look(t.Context(), worked, nil)
	}()
	enginetest.Eventually(t, enginetest.Patience, "the look waits for the lanes", func() bool {
		var waits bool
		if err := b.Pool.QueryRow(t.Context(), `SELECT EXISTS (SELECT FROM pg_locks
			WHERE relation = 'tasktable.scheduled_tasks'::regclass AND NOT granted)`).Scan(&waits); err != nil {
			t.Fatal(err)
		}
		return waits
	})
	if _, err := tx.Exec(t.Context(), `SELECT pg_sleep($1)`, held.Seconds()); err != nil {
		t.Fatal(err)
	}
	if err := tx.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	if found := enginetest.Receive(t, looked, enginetest.Patience, "the look"); found.err != nil || found.Took < held {
		t.Errorf("it took %s, %v; the lanes were locked for %s", found.Took, found.err, held)
	}
}

// A deep look waits while other housekeeping has the connection that is for all of it.
func TestDeepLookWaitsForItsTurn(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	deep := &deepLook{pool: b.Pool, turns: session.NewTurns(2), statements: b.Queries, log: enginetest.Logger()}
	leave, err := deep.turns.Take(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	before := b.Pool.Stat().AcquireCount()
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if found := deep.look(ctx, nil, nil); !errors.Is(found.err, context.DeadlineExceeded) {
		t.Errorf("the look does not wait: %v", found.err)
	}
	if taken := b.Pool.Stat().AcquireCount() - before; taken != 0 {
		t.Errorf("the look took a connection %d times", taken)
	}
	leave()
	for range 2 { // it gives its turn back
		if found := deep.look(t.Context(), nil, nil); found.err != nil {
			t.Error(found.err)
		}
	}
}
