package leader

import (
	"context"
	"maps"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tasktable/tasktable/scheduled/internal/taskdb"
)

// buckets has the buckets of groups and tenants that are not full, for limits with a rate that count each by itself.
// There may be very many groups, so no look reads their buckets. The leader reads them once in its term for each limit.
// Because nobody else writes them, it then knows them from its own claims.
type buckets struct {
	of      map[string]map[string]time.Time // when each is full, by limit and key
	count   int
	unread  time.Time       // there may be others that are full no later than this, because they were too many
	spent   []taskdb.Bucket // that the transaction under way has written
	sweepAt int             // the number from which full ones are looked for
	swept   time.Time
}

const (
	// maxBuckets is how many buckets the leader knows. They need about 100 MB. While it knows as many, a group that it
	// does not know has no token, because its bucket may not be full.
	maxBuckets = 500_000
	// bucketsRead is how many buckets a statement reads at most, so that it is far from its timeout.
	bucketsRead = 20_000
)

// load reads the buckets of limits that are new to the leader, and forgets those of limits that are gone.
func (b *buckets) load(ctx context.Context, s taskdb.Queries, tx pgx.Tx, limits []taskdb.Limit) error {
	fresh, names, found := map[string]map[string]time.Time{}, []string(nil), map[string]map[string]time.Time{}
	var now time.Time
	for _, limit := range limits {
		if !limit.HasBuckets() {
			continue
		}
		if now = limit.Now; b.of[limit.Name] != nil {
			found[limit.Name] = b.of[limit.Name]
		} else {
			fresh[limit.Name], names = map[string]time.Time{}, append(names, limit.Name)
		}
	}
	if len(found) < len(b.of) {
		b.of = found
		b.recount()
	}
	count, unread := b.count, b.unread
	for last, more := (taskdb.BucketOf{}), len(names) > 0; more; {
		rows, err := s.Buckets(ctx, tx, names, last, bucketsRead)
		if err != nil {
			return err
		}
		for _, row := range rows {
			switch last = row.BucketOf; {
			case !row.FullAt.After(now):
			case count >= maxBuckets:
				unread = later(unread, row.FullAt)
			default:
				fresh[row.Name][row.Key] = row.FullAt
				count++
			}
		}
		more = len(rows) >= bucketsRead
	}
	if len(fresh) > 0 {
		maps.Copy(fresh, b.of)
		b.of, b.count, b.unread = fresh, count, unread
	}
	b.sweep(now)
	return nil
}

// full is in how long the bucket of a key is full. After a change of the rate, or if the clock was set back, a bucket
// may be fuller than it can be. It then counts as empty from now on. Its row still says more, so the next claim may
// empty it once more.
func (b *buckets) full(limit taskdb.Limit, key string) time.Duration {
	most := time.Duration(limit.Burst) * limit.Interval
	of := b.of[limit.Name]
	at, known := of[key]
	switch in := at.Sub(limit.Now); {
	case !known && b.count < maxBuckets && !limit.Now.Before(b.unread):
		return 0
	case !known:
		return most
	case in > most:
		of[key] = limit.Now.Add(most)
		return most
	default:
		return max(in, 0)
	}
}

// settle ends a transaction. If it was rolled back, no token is taken. If nobody knows, tokens count as taken.
func (b *buckets) settle(rolledBack bool) {
	for _, one := range b.spent {
		of := b.of[one.Name]
		if _, known := of[one.Key]; rolledBack || of == nil || one.Key == "" {
			continue
		} else if !known {
			b.count++
		}
		of[one.Key] = one.FullAt
	}
	b.spent = nil
}

// sweep forgets full buckets when their number has doubled, and each second if it is at its maximum.
func (b *buckets) sweep(now time.Time) {
	if b.count < b.sweepAt || b.count == 0 || now.Sub(b.swept).Abs() < tickEvery {
		return
	}
	for _, of := range b.of {
		maps.DeleteFunc(of, func(_ string, fullAt time.Time) bool { return !fullAt.After(now) })
	}
	b.swept = now
	b.recount()
}

func (b *buckets) recount() {
	b.count = 0
	for _, of := range b.of {
		b.count += len(of)
	}
	b.sweepAt = min(2*b.count+1000, maxBuckets)
}

// spend takes the tokens of claimed tasks, in the transaction that claims them.
func (l *Leader) spend(ctx context.Context, tx pgx.Tx, tokens map[taskdb.BucketOf]int) (err error) {
	l.lanes.buckets.spent, err = l.statements.Spend(ctx, tx, nil, tokens)
	return err
}
