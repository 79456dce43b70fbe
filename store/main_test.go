package store_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tasktable/tasktable/store"
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

// bench is a Bench with the checks of this package.
type bench struct{ *testbench.Bench }

func newBench(t *testing.T) *bench {
	t.Helper()
	return benchOn(t, storetest.Pool(t))
}

func benchOn(t *testing.T, pool *pgxpool.Pool) *bench { return &bench{testbench.On(t, pool)} }

// each runs a parallel subtest on the same database.
func (b *bench) each(name string, test func(*bench)) {
	b.Run(name, func(t *testing.T) {
		t.Parallel()
		test(benchOn(t, b.Pool))
	})
}

func one[T any](b *bench, on store.DB, sql string, args ...any) T {
	b.Helper()
	return testbench.One[T](b.Bench, on, sql, args...)
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
	if _, err := b.Pool.Exec(b.Ctx, sql, args...); err == nil || !strings.Contains(err.Error(), part) {
		b.Errorf("%s: got %v, not an error that says %s", sql, err, part)
	}
}

// succeeds ends the test if a call has failed.
func (b *bench) succeeds(_ any, err error) {
	b.Helper()
	b.Check(err)
}

// wantInvalid expects an error about bad input that has the texts.
func (b *bench) wantInvalid(err error, texts ...string) {
	b.Helper()
	if !errors.Is(err, store.ErrInvalid) {
		b.Errorf("the error is %v, which is not ErrInvalid and lacks %q", err, texts)
		return
	}
	for _, text := range texts {
		if !strings.Contains(err.Error(), text) {
			b.Errorf("the error lacks %q: %v", text, err)
		}
	}
}

func (b *bench) wantOutcome(doing string, want store.Outcome, got store.Receipt) {
	b.Helper()
	if got.Outcome != want {
		b.Errorf("%s: %s, not %s", doing, got.Outcome, want)
	}
}

// step is something that happens to a task.
type step = func(b *bench, id string)

// does is the verb of a line of verbTable.
func does(verb string) step {
	return func(b *bench, id string) { b.do(verb, id) }
}

// schedules is Schedule of base with a change.
func schedules(change func(*store.Task)) step {
	return func(b *bench, id string) {
		task := base(id)
		change(&task)
		b.Schedule(task)
	}
}

// sets is an UPDATE by plain SQL.
func sets(set string) step {
	return func(b *bench, id string) {
		b.Exec(b.Pool, `UPDATE tasktable.scheduled_tasks SET `+set+` WHERE id = $1`, id)
	}
}
