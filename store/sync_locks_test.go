package store_test

import (
	"fmt"
	"testing"

	"github.com/jackc/pgx/v5"
)

// The server has one lock table for all its databases. A job that syncs many entities in one transaction
// must not fill it.
func TestSyncOfManyEntitiesTakesABoundedNumberOfLocks(t *testing.T) {
	t.Parallel()
	const entities, maxLocks = 3000, 1024
	b := newBench(t)
	tx := b.Begin(pgx.TxOptions{})
	b.Exec(tx, fmt.Sprintf(`SELECT tasktable.sync('event:' || n, '[]') FROM generate_series(1, %d) AS n`, entities))
	locks := one[int](b, tx, `SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND pid = pg_backend_pid()`)
	if locks > maxLocks || locks < maxLocks*9/10 {
		t.Errorf("%d entities took %d advisory locks, not up to %d", entities, locks, maxLocks)
	}
}
