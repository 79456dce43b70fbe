package taskdb

import (
	"context"
	"time"

	"github.com/tasktable/tasktable/scheduled/internal/pg"
)

// BucketOf names a bucket of a limit with a rate.
type BucketOf struct {
	Name string // of the limit
	Key  string // of the group or tenant; "" if the limit counts all tasks together
}

// Bucket is a row of the table limit_buckets. A token comes in every Limit.Interval, until there are Limit.Burst of
// them and the bucket is full. A bucket without a row is full, too.
type Bucket struct {
	BucketOf

	FullAt time.Time
}

// spendSQL moves the time at which buckets are full. Nobody else writes these rows meanwhile: a leader that was
// replaced cannot commit, and retention removes only rows of buckets that are full.
const spendSQL = `
WITH spent AS MATERIALIZED (
    SELECT l.name, s.key, clock.now, s.tokens * l.rate_interval / l.rate AS took,
        clock.now + l.burst * l.rate_interval / l.rate AS latest
    FROM unnest($2::text[], $3::text[], $4::int[]) AS s (name, key, tokens)
    JOIN tasktable.limits AS l ON l.name = s.name
    CROSS JOIN (SELECT coalesce($1::timestamptz, clock_timestamp()) AS now OFFSET 0) AS clock
    WHERE l.rate IS NOT NULL
)
INSERT INTO tasktable.limit_buckets AS b (name, limit_key, full_at)
SELECT s.name, s.key, greatest(least(coalesce(was.full_at, s.now), s.latest), s.now) + s.took
FROM spent AS s LEFT JOIN tasktable.limit_buckets AS was ON was.name = s.name AND was.limit_key = s.key
ON CONFLICT (name, limit_key) DO UPDATE SET full_at = excluded.full_at
RETURNING b.name, b.limit_key AS key, b.full_at`

// Spend takes tokens out of the buckets of limits, and returns the buckets. Only the leader may call it, in the
// transaction that claims the tasks. A limit that was removed meanwhile has no bucket.
func (s Queries) Spend(ctx context.Context, tx pg.DB, now *time.Time, spent map[BucketOf]int) ([]Bucket, error) {
	if len(spent) == 0 {
		return nil, nil
	}
	names, keys, tokens := make([]string, 0, len(spent)), make([]string, 0, len(spent)), make([]int, 0, len(spent))
	for of, n := range spent {
		names, keys, tokens = append(names, of.Name), append(keys, of.Key), append(tokens, n)
	}
	return pg.CollectRows[Bucket](ctx, tx, "take tokens of limits", s.Schema.SQL(spendSQL), now, names, keys, tokens)
}

const bucketsSQL = `
SELECT b.name, b.limit_key AS key, least(greatest(b.full_at, '1970-01-01'), '9999-12-30') AS full_at
FROM tasktable.limit_buckets AS b
WHERE b.name = ANY ($1::text[]) AND b.limit_key <> '' AND (b.name, b.limit_key) > ($2::text, $3::text)
ORDER BY b.name, b.limit_key LIMIT $4::int`

// Buckets reads the buckets of groups and tenants behind a given one, at most so many.
func (s Queries) Buckets(ctx context.Context, tx pg.DB, limits []string, after BucketOf, most int) ([]Bucket, error) {
	return pg.CollectRows[Bucket](ctx, tx, "read the tokens of limits", s.Schema.SQL(bucketsSQL), limits, after.Name,
		after.Key, most)
}
