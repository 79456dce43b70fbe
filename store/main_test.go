package store_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tasktable/tasktable/store"
	"github.com/tasktable/tasktable/store/storetest"
	"github.com/tasktable/tasktable/store/storetest/leaks"
)

func TestMain(m *testing.M) { storetest.Main(m, leaks.Check) }

// service is the author of what the tests do through a store.
const service = "events-api"

// limit bounds each wait of a test. It is reached only where something hangs.
const limit = time.Minute

// bench is what most tests work at: a database of their own, and a store.
type bench struct {
	*testing.T
	ctx   context.Context
	pool  *pgxpool.Pool
	tasks *store.Store
}

func newBench(t *testing.T) *bench {
	t.Helper()
	return benchOn(t, storetest.Pool(t))
}

func benchOn(t *testing.T, pool *pgxpool.Pool) *bench {
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	t.Cleanup(cancel)
	return &bench{T: t, ctx: ctx, pool: pool, tasks: store.New(store.Config{Service: service})}
}

// each runs a parallel subtest on the same database.
func (b *bench) each(name string, test func(*bench)) {
	b.Run(name, func(t *testing.T) {
		t.Parallel()
		test(benchOn(t, b.pool))
	})
}

// execer is a pgx Tx, Conn or Pool.
type execer interface {
	Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error)
}

func (b *bench) exec(on execer, sql string, args ...any) {
	b.Helper()
	if _, err := on.Exec(b.ctx, sql, args...); err != nil {
		b.Fatalf("%s: %v", sql, err)
	}
}

// one reads a single value.
func one[T any](b *bench, on store.DB, sql string, args ...any) T {
	b.Helper()
	rows, err := on.Query(b.ctx, sql, args...)
	b.check(err)
	value, err := pgx.CollectExactlyOneRow(rows, pgx.RowTo[T])
	if err != nil {
		b.Fatalf("%s: %v", sql, err)
	}
	return value
}

func (b *bench) check(err error) {
	b.Helper()
	if err != nil {
		b.Fatal(err)
	}
}

func (b *bench) begin(options pgx.TxOptions) pgx.Tx {
	b.Helper()
	tx, err := b.pool.BeginTx(b.ctx, options)
	b.check(err)
	b.Cleanup(func() { _ = tx.Rollback(context.Background()) }) // after a commit it does nothing
	return tx
}

// inTx runs do in a transaction and commits it.
func (b *bench) inTx(do func(pgx.Tx)) {
	b.Helper()
	tx := b.begin(pgx.TxOptions{})
	do(tx)
	b.check(tx.Commit(b.ctx))
}

// schedule is Schedule on the pool, of which nothing but success is expected.
func (b *bench) schedule(task store.Task) store.Receipt {
	b.Helper()
	receipt, err := b.tasks.Schedule(b.ctx, b.pool, task)
	b.check(err)
	return receipt
}

// get is the row of a task; nil where there is none.
func (b *bench) get(id string) *store.Row {
	b.Helper()
	row, err := b.tasks.Get(b.ctx, b.pool, id)
	if errors.Is(err, store.ErrNotFound) {
		return nil
	}
	b.check(err)
	return &row
}

func (b *bench) changes(id string) []store.Change {
	b.Helper()
	history, err := b.tasks.History(b.ctx, b.pool, id)
	b.check(err)
	return history.Changes
}

// lines are the change lines of a task as "verb outcome by".
func (b *bench) lines(id string) []string {
	b.Helper()
	var lines []string
	for _, change := range b.changes(id) {
		lines = append(lines, change.Verb+" "+change.Outcome+" "+change.ChangedBy)
	}
	return lines
}

// same compares through JSON, in which a difference can be read.
func same[T any](b *bench, what string, got, want T) {
	b.Helper()
	if g, w := pretty(got), pretty(want); g != w {
		b.Errorf("%s:\n%s", what, difference(g, w))
	}
}

func pretty(value any) string {
	text, err := json.MarshalIndent(value, "", " ")
	if err != nil {
		return fmt.Sprintf("%+v (%v)", value, err)
	}
	return string(text)
}

// difference lists the lines that are in one text only.
func difference(got, want string) string {
	count := map[string]int{}
	for line := range strings.Lines(got) {
		count[strings.TrimRight(line, ",\n")]++
	}
	for line := range strings.Lines(want) {
		count[strings.TrimRight(line, ",\n")]--
	}
	var out strings.Builder
	for line := range strings.Lines(got + "\n" + want) {
		switch line = strings.TrimRight(line, ",\n"); {
		case count[line] > 0:
			fmt.Fprintf(&out, "got  %s\n", line)
		case count[line] < 0:
			fmt.Fprintf(&out, "want %s\n", line)
		}
		delete(count, line)
	}
	return out.String()
}

// payload is JSON of type TEST with one more field.
func payload(n int) store.JSON { return store.JSON(fmt.Sprintf(`{"type": "TEST", "n": %d}`, n)) }

// far is a time that no test lives to see; minutes count from it.
func far(minutes int) time.Time {
	return time.Date(2100, 1, 1, 0, minutes, 0, 0, time.UTC)
}

// refused expects a statement to fail with a message that has a part.
func (b *bench) refused(sql, part string, args ...any) {
	b.Helper()
	if _, err := b.pool.Exec(b.ctx, sql, args...); err == nil || !strings.Contains(err.Error(), part) {
		b.Errorf("%s: got %v, not an error that says %s", sql, err, part)
	}
}
