package inspect_test

import (
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tasktable/tasktable/store"
	"github.com/tasktable/tasktable/store/internal/testbench"
	"github.com/tasktable/tasktable/store/storetest"
	"github.com/tasktable/tasktable/store/storetest/leaks"
)

func TestMain(m *testing.M) { storetest.Main(m, leaks.Check) }

// Short names of what many tests use.
const service = testbench.Service

var (
	payload, typed, far = testbench.Payload, testbench.Typed, testbench.Far
	base, recurs        = testbench.Base, testbench.Recurs
	outcomes, pretty    = testbench.Outcomes, testbench.Pretty
)

type bench struct{ *testbench.Bench }

func newBench(t *testing.T) *bench {
	t.Helper()
	return &bench{testbench.New(t)}
}

func benchOn(t *testing.T, pool *pgxpool.Pool) *bench { return &bench{testbench.On(t, pool)} }

func one[T any](b *bench, on store.DB, sql string, args ...any) T {
	b.Helper()
	return testbench.One[T](b.Bench, on, sql, args...)
}

func same[T any](b *bench, what string, got, want T) {
	b.Helper()
	testbench.Same(b.T, what, got, want)
}

// must takes the answer of a call that must not fail.
func (b *bench) must(_ any, err error) {
	b.Helper()
	b.Check(err)
}

// seed inserts rows of tasks as they are, past the triggers.
func (b *bench) seed(sql string, args ...any) {
	b.Helper()
	b.InTx(func(tx pgx.Tx) {
		b.Exec(tx, `ALTER TABLE tasktable.scheduled_tasks DISABLE TRIGGER USER`)
		b.Exec(tx, sql, args...)
		b.Exec(tx, `ALTER TABLE tasktable.scheduled_tasks ENABLE TRIGGER USER`)
	})
}

// noDB fails the test when it is asked.
func noDB(b *bench) store.DB { return testbench.NoDB{Bench: b.Bench} }
