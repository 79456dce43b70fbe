package store_test

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tasktable/tasktable/store"
)

const racers = 32

// crowd is a bench with a connection for each racer.
func crowd(t *testing.T) *bench {
	t.Helper()
	b := newBench(t)
	config := b.Pool.Config()
	config.MaxConns, config.MinConns = racers, 0
	pool, err := pgxpool.NewWithConfig(b.Ctx, config)
	b.Check(err)
	t.Cleanup(pool.Close)
	return benchOn(t, pool)
}

// race does the same at once in all racers and returns what each got.
func race[T any](b *bench, do func(racer int) (T, error)) []T {
	b.Helper()
	results, start := make([]T, racers), make(chan struct{})
	var group sync.WaitGroup
	for racer := range racers {
		group.Go(func() {
			<-start
			result, err := do(racer)
			if err != nil {
				b.Errorf("racer %d: %v", racer, err)
			}
			results[racer] = result
		})
	}
	close(start)
	group.Wait()
	if b.Failed() {
		b.FailNow()
	}
	return results
}

// wish is the racer's own upsert of a task: no two ask for the same.
func wish(id string, racer int) store.Task {
	return store.Task{ID: id, Payload: payload(racer), At: far(racer)}
}

func TestUpsertsAndDeletesOfOneIDAtOnce(t *testing.T) {
	t.Parallel()
	b := crowd(t)
	for _, deletes := range []bool{false, true} {
		for i := range 6 {
			id := fmt.Sprint(i, deletes)
			b.replay(id, race(b, func(racer int) (store.Receipt, error) {
				if deletes && racer%3 == 0 {
					return b.Tasks.Delete(b.Ctx, b.Pool, id)
				}
				return b.Tasks.Schedule(b.Ctx, b.Pool, wish(id, racer))
			}))
		}
	}
}

// replay goes through the change lines of a task in their order and demands that they are one history: each upsert's
// wish is there once, each begins with what the one before left, and the row is what the last one made.
func (b *bench) replay(id string, receipts []store.Receipt) {
	b.Helper()
	wishes, toDelete := map[int64]int{}, 0 // by revision, whose
	for racer, receipt := range receipts {
		switch receipt.Outcome {
		case store.Deleted:
			toDelete++
		case store.Absent:
		default:
			wishes[receipt.Revision] = racer
		}
	}
	var at any // scheduled_at as it stands; nil: no row
	for _, line := range b.state(id).Changes {
		was, is := b.recorded(line.Old), b.recorded(line.New)
		if was["scheduled_at"] != at {
			b.Fatalf("revision %d begins with %v, the one before left %v", line.Revision, was["scheduled_at"], at)
		}
		at = is["scheduled_at"]
		if line.Outcome == string(store.Deleted) {
			toDelete--
			continue
		}
		racer, ok := wishes[line.Revision]
		wished := far(racer)
		if !ok || at != instant(&wished) || line.Outcome != string(receipts[racer].Outcome) {
			b.Fatalf("revision %d, %s, set %v, which no upsert wished", line.Revision, line.Outcome, at)
		}
		delete(wishes, line.Revision)
	}
	if len(wishes) != 0 || toDelete != 0 {
		b.Fatalf("%d upserts and %d deletes are lost", len(wishes), toDelete)
	}
	var left any
	if row := b.Get(id); row != nil {
		left = instant(&row.ScheduledAt)
	}
	if left != at {
		b.Fatalf("the row says %v, the last change %v", left, at)
	}
}

// later is a call that has to wait for a lock.
type later[T any] struct {
	b    *bench
	pid  uint32
	done chan T
	err  chan error
}

// start does something on a connection of its own and returns at once.
func start[T any](b *bench, do func(*pgxpool.Conn) (T, error)) *later[T] {
	b.Helper()
	conn, err := b.Pool.Acquire(b.Ctx)
	b.Check(err)
	call := &later[T]{b: b, pid: conn.Conn().PgConn().PID(), done: make(chan T, 1), err: make(chan error, 1)}
	go func() {
		defer conn.Release()
		result, err := do(conn)
		call.err <- err
		call.done <- result
	}()
	return call
}

// blocked returns once the call waits for a lock.
func (l *later[T]) blocked() *later[T] {
	l.b.Helper()
	return l.until(`SELECT cardinality(pg_blocking_pids($1)) > 0`, l.pid)
}

// blockedBy returns once the call waits for a lock of the transaction.
func (l *later[T]) blockedBy(tx pgx.Tx) *later[T] {
	l.b.Helper()
	return l.until(`SELECT $2 = ANY (pg_blocking_pids($1))`, l.pid, tx.Conn().PgConn().PID())
}

func (l *later[T]) until(blockedSQL string, args ...any) *later[T] {
	l.b.Helper()
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for !one[bool](l.b, l.b.Pool, blockedSQL, args...) {
		select {
		case <-l.b.Ctx.Done():
			l.b.Fatal("the call never waited")
		case err := <-l.err:
			l.b.Fatalf("the call did not wait: %v", err)
		case <-tick.C:
		}
	}
	return l
}

func (l *later[T]) result() (T, error) {
	l.b.Helper()
	select {
	case err := <-l.err:
		return <-l.done, err
	case <-l.b.Ctx.Done():
		l.b.Fatal("the call never came back")
		panic("unreachable")
	}
}

// What was inserted, edited or deleted by another transaction decides only once that has ended, and as it has ended.
func TestScheduleWaitsForWhatOthersDo(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	for _, race := range []struct {
		name, kind string
		other      string // what the other transaction does: a line of verbTable
		commit     bool
		want       store.Outcome
	}{
		{"an insert that is rolled back", "absent", "identical", false, store.Created},
		{"an insert that is committed", "absent", "identical", true, store.Rescheduled},
		{"an edit that is rolled back", "QUEUED", "other_field", false, store.Rescheduled},
		{"an edit that is committed", "QUEUED", "other_field", true, store.Rescheduled},
		{"the same edit", "QUEUED", "other_time", true, store.Unchanged},
		{"a cancel that is committed", "QUEUED", "cancel", true, store.Rearmed},
		{"a delete that is rolled back", "QUEUED", "delete", false, store.Rescheduled},
		{"a delete that is committed", "QUEUED", "delete", true, store.Created},
	} {
		b.each(race.name, func(b *bench) {
			id := race.name
			b.Make(id, race.kind)
			tx := b.Begin(pgx.TxOptions{})
			b.doOn(tx, race.other, id)
			task := base(id)
			task.At = far(5)
			call := start(b, func(conn *pgxpool.Conn) (store.Receipt, error) {
				return b.Tasks.Schedule(b.Ctx, conn, task)
			}).blocked()
			if race.commit {
				b.Check(tx.Commit(b.Ctx))
			} else {
				b.Check(tx.Rollback(b.Ctx))
			}
			receipt, err := call.result()
			row := b.Get(id)
			if err != nil || receipt.Outcome != race.want || row == nil || !row.ScheduledAt.Equal(far(5)) ||
				row.Revision != receipt.Revision {
				b.Errorf("%+v, %v: %s", receipt, err, pretty(row))
			}
		})
	}
}

// A task that another transaction deletes and schedules anew exists at each commit. So no verb calls it absent.
func TestVerbsFindATaskThatWasMadeAnew(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	for sql, want := range map[string]string{
		`cancel($1)`: "cancelled", `pause($1)`: "paused", `run_now($1)`: "queued", `delete($1)`: "deleted",
		`reschedule($1, now() + interval '5 hours')`: "rescheduled",
	} {
		b.each(want, func(b *bench) {
			b.Make(want, "QUEUED")
			tx := b.Begin(pgx.TxOptions{})
			b.doOn(tx, "delete", want)
			b.doOn(tx, "identical", want)
			call := start(b, func(conn *pgxpool.Conn) (outcome string, err error) {
				return outcome, conn.QueryRow(b.Ctx, `SELECT outcome FROM tasktable.`+sql, want).Scan(&outcome)
			}).blocked()
			b.Check(tx.Commit(b.Ctx))
			if got, err := call.result(); err != nil || got != want {
				b.Errorf("%s: %s, %v", sql, got, err)
			}
		})
	}
}

func TestUnchangedWaitsForNobody(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.Make("one", "QUEUED")
	b.Make("two", "COMPLETED")
	tx := b.Begin(pgx.TxOptions{})
	b.Exec(tx, `SELECT 1 FROM tasktable.scheduled_tasks FOR UPDATE`)
	receipts, err := b.Tasks.ScheduleMany(b.Ctx, b.Pool, []store.Task{base("one"), base("two")})
	b.Check(err)
	same(b, "receipts", outcomes(receipts), []string{"one unchanged", "two finished"})
}
