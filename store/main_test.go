package store_test

import (
	"context"
	"database/sql"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tasktable/tasktable/store"
	"github.com/tasktable/tasktable/store/inspect"
	"github.com/tasktable/tasktable/store/internal/testbench"
	"github.com/tasktable/tasktable/store/storetest"
	"github.com/tasktable/tasktable/store/storetest/leaks"
)

func TestMain(m *testing.M) { storetest.Main(m, leaks.Check) }

// Short names of what many tests use.
const (
	service = testbench.Service
	limit   = testbench.Limit
)

var (
	rowKinds, recurringKinds = testbench.Kinds, testbench.RecurringKinds
	payload, typed, far      = testbench.Payload, testbench.Typed, testbench.Far
	base, recurs             = testbench.Base, testbench.Recurs
	outcomes, pretty         = testbench.Outcomes, testbench.Pretty
)

// bench is a Bench with short names.
type bench struct {
	*testbench.Bench
	ctx       context.Context
	pool      *pgxpool.Pool
	tasks     *store.Store
	inspector *inspect.Inspector
}

func newBench(t *testing.T) *bench {
	t.Helper()
	return benchOn(t, storetest.Pool(t))
}

func benchOn(t *testing.T, pool *pgxpool.Pool) *bench {
	b := testbench.On(t, pool)
	return &bench{Bench: b, ctx: b.Ctx, pool: b.Pool, tasks: b.Tasks, inspector: b.Inspector}
}

// each runs a parallel subtest on the same database.
func (b *bench) each(name string, test func(*bench)) {
	b.Run(name, func(t *testing.T) {
		t.Parallel()
		test(benchOn(t, b.pool))
	})
}

// current is the Bench after a test has given this one another Store or context.
func (b *bench) current() *testbench.Bench {
	if b.Tasks != b.tasks || b.Ctx != b.ctx {
		b.Tasks, b.Ctx = b.tasks, b.ctx
	}
	return b.Bench
}

type execer = testbench.Execer

func (b *bench) exec(on execer, sql string, args ...any) {
	b.Helper()
	b.current().Exec(on, sql, args...)
}
func (b *bench) check(err error)                    { b.Helper(); b.current().Check(err) }
func (b *bench) begin(options pgx.TxOptions) pgx.Tx { b.Helper(); return b.current().Begin(options) }
func (b *bench) inTx(do func(pgx.Tx))               { b.Helper(); b.current().InTx(do) }
func (b *bench) asEngine(do func(pgx.Tx))           { b.Helper(); b.current().AsEngine(do) }
func (b *bench) schedule(task store.Task) store.Receipt {
	b.Helper()
	return b.current().Schedule(task)
}
func (b *bench) get(id string) *store.Row         { b.Helper(); return b.current().Get(id) }
func (b *bench) changes(id string) []store.Change { b.Helper(); return b.current().Changes(id) }
func (b *bench) lines(id string) []string         { b.Helper(); return b.current().Lines(id) }
func (b *bench) role() string                     { b.Helper(); return b.current().Role() }
func (b *bench) now() time.Time                   { b.Helper(); return b.current().Now() }
func (b *bench) make(id, kind string)             { b.Helper(); b.current().Make(id, kind) }
func (b *bench) makeRecurring(id, kind string)    { b.Helper(); b.current().MakeRecurring(id, kind) }
func (b *bench) readers() map[string]store.DB     { b.Helper(); return b.current().Readers() }
func (b *bench) poolIn(mode pgx.QueryExecMode) *pgxpool.Pool {
	b.Helper()
	return b.current().PoolIn(mode)
}
func (b *bench) openSQL(driver string) *sql.DB { b.Helper(); return b.current().OpenSQL(driver) }

func one[T any](b *bench, on store.DB, sql string, args ...any) T {
	b.Helper()
	return testbench.One[T](b.current(), on, sql, args...)
}

func same[T any](b *bench, what string, got, want T) {
	b.Helper()
	testbench.Same(b.T, what, got, want)
}

// noDB fails the test when it is asked.
func noDB(b *bench) store.DB { return testbench.NoDB{Bench: b.Bench} }

// refused expects a statement to fail with a message that has a part.
func (b *bench) refused(sql, part string, args ...any) {
	b.Helper()
	if _, err := b.pool.Exec(b.ctx, sql, args...); err == nil || !strings.Contains(err.Error(), part) {
		b.Errorf("%s: got %v, not an error that says %s", sql, err, part)
	}
}
