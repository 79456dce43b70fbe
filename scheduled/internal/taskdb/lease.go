package taskdb

import (
	"context"
	"time"

	"github.com/tasktable/tasktable/scheduled/internal/pg"
)

// extendSQL makes a lease longer, and never shorter. If an application has locked the row, the task keeps the lease
// that it has.
const extendSQL = `
UPDATE tasktable.scheduled_tasks AS t
SET lease_expires_at = greatest(t.lease_expires_at,
    clock_timestamp() + $3::interval + coalesce($4::interval,
    least(greatest(t.expected_execution_time, interval '0'), interval '168 hours')))
WHERE t.ctid = ANY (ARRAY(
    SELECT t.ctid FROM tasktable.scheduled_tasks AS t
    WHERE t.id = $1::text AND t.fence = $2::bigint
    LIMIT 1 FOR NO KEY UPDATE SKIP LOCKED))
RETURNING date_part('epoch', t.lease_expires_at - clock_timestamp())`

// Extend makes a lease last for at least allowance + d from now. d nil means the task's expected execution time. It
// returns how long the lease lasts from now. done is false if the claim is gone, or its row locked.
func (s Queries) Extend(
	ctx context.Context, q pg.DB, claim Claim, allowance time.Duration, d *time.Duration,
) (lease time.Duration, done bool, err error) {
	left, err := pg.CollectColumn[float64](ctx, q, "extend the lease of task "+claim.ID,
		s.Schema.SQL(extendSQL), claim.ID, claim.Fence, allowance, d)
	if err != nil || len(left) == 0 {
		return 0, false, err
	}
	return time.Duration(left[0] * float64(time.Second)), true, nil
}
