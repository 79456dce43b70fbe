package taskdb

import (
	"context"
	"strings"
	"time"

	"github.com/tasktable/tasktable/scheduled/internal/pg"
	"github.com/tasktable/tasktable/store"
)

// Limit is a row of the table limits.
type Limit struct {
	Name       string
	Scope      string // "all", "queue" or "type"
	ScopeName  string
	Per        string // "group", "tenant", or "": all tasks count together
	InOrder    bool   // the tasks of a group or tenant run one after the other, see inorder.go
	MaxRunning *int   // nil: any number
	Weights    store.Weights
	Running    int `db:"-"` // of its tasks, see plan.Counted
	// Burst tasks may start at once when the limit's bucket is full. Each start takes a token, and the bucket gets one
	// in each Interval. Full is in how long it is full, which is negative if it is full already. With Per each group or
	// tenant has a bucket of its own, and the leader knows in how long these are full (leader/buckets.go).
	Burst    int
	Interval time.Duration // 0: there is no rate
	Full     time.Duration
	Overfull bool      // see LimitsSQL
	Now      time.Time // when Full was so
}

// HasBuckets reports whether each group or tenant has a bucket.
func (l Limit) HasBuckets() bool { return l.Per != "" && l.Interval > 0 }

// KeyOf is the key by which the limit counts a queue's tasks of a type and a key. A limit per group does not count the
// tasks without a group, whose key has nothing behind its prefix.
func (l Limit) KeyOf(queue, kind, key string) (of string, counts bool) {
	prefix := l.Prefix()
	switch {
	case !l.Of(queue, kind):
		return "", false
	case prefix == "":
		return "", true
	}
	return key, strings.HasPrefix(key, prefix) && key != prefix
}

// WeightOf is the weight of a group or tenant, whose key begins with the prefix.
func (l Limit) WeightOf(key string) int {
	return max(l.Weights[strings.TrimPrefix(key, l.Prefix())], 1)
}

// Of reports whether the limit counts a queue's tasks of a type.
func (l Limit) Of(queue, kind string) bool {
	return l.Scope == "all" || l.Scope == "queue" && l.ScopeName == queue || l.Scope == "type" && l.ScopeName == kind
}

// Prefix is how the keys begin by which the limit counts, see the function limit_key_of. It is "" if Per is.
func (l Limit) Prefix() string {
	if l.Per == "" {
		return ""
	}
	return l.Per[:1] + ":"
}

// PrefixOf is how the keys of a queue's tasks of a type begin. It is "" if no limit of theirs has Per.
func PrefixOf(limits []Limit, queue, kind string) string {
	for _, limit := range limits {
		if limit.Per != "" && limit.Of(queue, kind) {
			return limit.Prefix()
		}
	}
	return ""
}

// Tokens is how many tasks the rate lets start now.
func (l Limit) Tokens() int {
	return l.Burst - int((max(l.Full, 0)+l.Interval-1)/l.Interval)
}

// LimitsSQL lists the limits at the time $1. Times are in nanoseconds, because database/sql reads no intervals. After a
// change of the rate, or if the clock was set back, a bucket may be fuller than it can be. It then counts as empty, and
// the leader writes that down. The times are bounded, because somebody may have damaged the row.
const LimitsSQL = `
SELECT l.name, l.scope, l.scope_name, coalesce(l.per, '') AS per, l.in_order, l.max_running,
    coalesce(l.burst, 0) AS burst, l.weights::text AS weights,
    coalesce((extract(epoch FROM l.rate_interval) * 1000000000 / l.rate)::bigint, 0) AS interval,
    CASE WHEN l.rate IS NULL OR b.full_at IS NULL OR b.full_at <= clock.now THEN 0 ELSE (extract(epoch FROM
        least(least(b.full_at, '9999-12-30') - clock.now, l.burst * l.rate_interval / l.rate)) * 1000000000)::bigint
        END AS full,
    coalesce(b.full_at > clock.now + l.burst * l.rate_interval / l.rate, false) AS overfull,
    clock.now
FROM tasktable.limits AS l LEFT JOIN tasktable.limit_buckets AS b ON b.name = l.name AND b.limit_key = ''
CROSS JOIN (SELECT coalesce($1::timestamptz, clock_timestamp()) AS now OFFSET 0) AS clock`

// Limits lists the limits at the time now. nil means the database's time.
func (s Queries) Limits(ctx context.Context, q pg.DB, now *time.Time) ([]Limit, error) {
	return pg.CollectRows[Limit](ctx, q, "read limits", s.Schema.SQL(LimitsSQL), now)
}
