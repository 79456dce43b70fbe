// Package testbench has the tools for the tests of package store and package inspect: a database for each test, a
// Store, an Inspector, and rows in each state that a verb can meet.
package testbench

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
	"github.com/tasktable/tasktable/store/inspect"
	"github.com/tasktable/tasktable/store/storetest"
)

// Service is the author of the changes that the tests make.
const Service = "events-api"

// Limit is the time limit of each wait in a test. A test reaches it only if something hangs.
const Limit = time.Minute

// Bench is a database and the calls that most tests make on it. A call that fails ends the test.
type Bench struct {
	*testing.T
	Ctx       context.Context
	Pool      *pgxpool.Pool
	Tasks     *store.Store
	Inspector *inspect.Inspector
}

// New returns a Bench with its own database.
func New(t *testing.T) *Bench {
	t.Helper()
	return On(t, storetest.Pool(t))
}

// On returns a Bench on the given database.
func On(t *testing.T, pool *pgxpool.Pool) *Bench {
	ctx, cancel := context.WithTimeout(context.Background(), Limit)
	t.Cleanup(cancel)
	config := store.Config{Service: Service}
	return &Bench{T: t, Ctx: ctx, Pool: pool, Tasks: store.New(config), Inspector: inspect.New(config)}
}

// Execer is a pgx Tx, Conn or Pool.
type Execer interface {
	Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error)
}

// Exec runs a statement.
func (b *Bench) Exec(on Execer, sql string, args ...any) {
	b.Helper()
	if _, err := on.Exec(b.Ctx, sql, args...); err != nil {
		b.Fatalf("%s: %v", sql, err)
	}
}

// One returns the single value that a query yields.
func One[T any](b *Bench, on store.DB, sql string, args ...any) T {
	b.Helper()
	rows, err := on.Query(b.Ctx, sql, args...)
	b.Check(err)
	value, err := pgx.CollectExactlyOneRow(rows, pgx.RowTo[T])
	if err != nil {
		b.Fatalf("%s: %v", sql, err)
	}
	return value
}

// Check ends the test if err is not nil.
func (b *Bench) Check(err error) {
	b.Helper()
	if err != nil {
		b.Fatal(err)
	}
}

// Begin begins a transaction. If the test does not end the transaction, it is rolled back at the end of the test.
func (b *Bench) Begin(options pgx.TxOptions) pgx.Tx {
	b.Helper()
	tx, err := b.Pool.BeginTx(b.Ctx, options)
	b.Check(err)
	b.Cleanup(func() { _ = tx.Rollback(context.Background()) }) // after a commit this does nothing
	return tx
}

// InTx runs do in a transaction and commits it.
func (b *Bench) InTx(do func(pgx.Tx)) {
	b.Helper()
	tx := b.Begin(pgx.TxOptions{})
	do(tx)
	b.Check(tx.Commit(b.Ctx))
}

// AsEngine runs do in a transaction whose changes of status count as the engine's own.
func (b *Bench) AsEngine(do func(pgx.Tx)) {
	b.Helper()
	b.InTx(func(tx pgx.Tx) {
		b.Exec(tx, `SELECT set_config('tasktable_change.context', 'engine', true)`)
		do(tx)
	})
}

// Schedule schedules a task.
func (b *Bench) Schedule(task store.Task) store.Receipt {
	b.Helper()
	receipt, err := b.Tasks.Schedule(b.Ctx, b.Pool, task)
	b.Check(err)
	return receipt
}

// Get returns the row of a task, or nil if the task does not exist.
func (b *Bench) Get(id string) *store.Row {
	b.Helper()
	row, err := b.Tasks.Get(b.Ctx, b.Pool, id)
	if errors.Is(err, store.ErrNotFound) {
		return nil
	}
	b.Check(err)
	return &row
}

// Changes returns the recorded changes of a task.
func (b *Bench) Changes(id string) []store.Change {
	b.Helper()
	history, err := b.Tasks.History(b.Ctx, b.Pool, id)
	b.Check(err)
	return history.Changes
}

// Lines returns the recorded changes of a task as "verb outcome by".
func (b *Bench) Lines(id string) []string {
	b.Helper()
	var lines []string
	for _, change := range b.Changes(id) {
		lines = append(lines, change.Verb+" "+change.Outcome+" "+change.ChangedBy)
	}
	return lines
}

// Now returns the database's time.
func (b *Bench) Now() time.Time {
	b.Helper()
	return One[time.Time](b, b.Pool, `SELECT clock_timestamp()`)
}

// Role returns the author of a change that somebody makes by plain SQL.
func (b *Bench) Role() string {
	b.Helper()
	return One[string](b, b.Pool, `SELECT session_user::text`)
}

// NoDB is a store.DB that fails the test if it is used. Bad input must be refused before Postgres refuses it, which
// would abort the transaction.
type NoDB struct{ Bench *Bench }

// Query fails the test.
func (db NoDB) Query(context.Context, string, ...any) (pgx.Rows, error) {
	db.Bench.Helper()
	db.Bench.Error("the database was asked")
	return nil, errors.New("no database")
}

// Outcomes returns the ids and outcomes of receipts, in their order.
func Outcomes(receipts []store.Receipt) []string {
	var found []string
	for _, receipt := range receipts {
		found = append(found, receipt.ID+" "+string(receipt.Outcome))
	}
	return found
}

// Same compares two values as JSON, so that a person can read the difference.
func Same[T any](t testing.TB, what string, got, want T) {
	t.Helper()
	if g, w := Pretty(got), Pretty(want); g != w {
		t.Errorf("%s:\n%s", what, difference(g, w))
	}
}

// Pretty returns a value as indented JSON.
func Pretty(value any) string {
	text, err := json.MarshalIndent(value, "", " ")
	if err != nil {
		return fmt.Sprintf("%+v (%v)", value, err)
	}
	return string(text)
}

// difference lists the lines that only one of the texts has.
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
