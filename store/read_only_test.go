package store_test

import (
	"errors"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/tasktable/tasktable/store"
)

// A call that writes on a standby is told what the server is. Reads go on.
func TestAReadOnlyServerIsNamed(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	err := pgx.BeginTxFunc(b.Ctx, b.Pool, pgx.TxOptions{AccessMode: pgx.ReadOnly}, func(tx pgx.Tx) error {
		if _, err := b.Tasks.Get(b.Ctx, tx, "one"); !errors.Is(err, store.ErrNotFound) {
			t.Errorf("Get: %v", err)
		}
		_, err := b.Tasks.Schedule(b.Ctx, tx, base("one"))
		return err
	})
	if !errors.Is(err, store.ErrReadOnly) {
		t.Errorf("Schedule: %v", err)
	}
}
