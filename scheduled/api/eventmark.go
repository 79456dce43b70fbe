package api

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tasktable/tasktable/store"
)

// mark is a place in the history up to which a client has everything. It does not go by the numbers or the times of
// the lines, because a transaction draws them before it commits: a line with a lower number may appear after one with
// a higher number. It goes by transaction ids instead. Every transaction below Xid had ended when the mark was made,
// so its lines were there. Lines of other transactions are read again, and the stream leaves out those it has sent.
//
// Revision and At only keep the reads short. No line of a transaction from Xid on has a lower revision, or ended
// earlier.
type mark struct {
	Xid      int64
	Revision int64
	At       time.Time
}

var errOtherStream = invalid("Last-Event-ID must be the id of an event of this stream")

const markFormat = "%d-%d-%d"

// String is the mark as the id of an event.
func (m mark) String() string { return fmt.Sprintf(markFormat, m.Xid, m.Revision, m.At.UnixMicro()) }

func parseMark(text string) (m mark, err error) {
	var micros int64
	_, err = fmt.Sscanf(text, markFormat, &m.Xid, &m.Revision, &micros)
	if m.At = time.UnixMicro(micros).UTC(); err != nil || m.String() != text || m.Xid < 0 || micros < 0 {
		return m, errOtherStream
	}
	return m, nil
}

// marks remembers how far the history was at earlier times, so that it can tell where the lines of a transaction may
// begin that runs now.
type marks struct {
	schema store.Schema
	mu     sync.Mutex
	seen   []observed
}

// observed is the state of the history at one time.
type observed struct {
	at       time.Time
	xmax     int64 // the next transaction id
	revision int64 // the greatest one that was committed
}

const observeSQL = `
SELECT pg_snapshot_xmin(now.snapshot)::text::bigint, pg_snapshot_xmax(now.snapshot)::text::bigint,
    coalesce((SELECT max(c.revision) FROM tasktable.scheduled_task_changes AS c), 0), clock_timestamp()
FROM (SELECT pg_current_snapshot() AS snapshot) AS now`

const (
	// beforeXid is how long before it gets its id a transaction may draw the number or the time of its first line. A
	// statement does so at its start, and then may wait for a lock.
	beforeXid   = time.Minute
	observeEach = 10 * time.Second
	maxObserved = 1000 // about three hours; a transaction that runs for longer makes the reads longer
)

// nowMark is the mark of a moment.
type nowMark struct {
	mark

	xmax int64 // the next transaction id
}

// now returns the mark of this moment. sure is false if the API has not observed the history for long enough. A
// transaction that is older than its first observation may then have drawn a number below the mark's.
func (k *marks) now(ctx context.Context, pool *pgxpool.Pool) (m nowMark, sure bool, err error) {
	var xmin int64
	var o observed
	err = pool.QueryRow(ctx, k.schema.SQL(observeSQL)).Scan(&xmin, &o.xmax, &o.revision, &o.at)
	if err != nil {
		return nowMark{}, false, fmt.Errorf("observe the history: %w", err)
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if len(k.seen) == 0 || o.at.Sub(k.seen[len(k.seen)-1].at) >= observeEach {
		if len(k.seen) == maxObserved {
			k.seen = k.seen[1:]
		}
		k.seen = append(k.seen, o)
	}
	m.xmax = o.xmax
	m.mark, sure = k.markOf(xmin)
	return m, sure, nil
}

// markOf looks for the latest observation that was made before all transactions from xmin on could draw a number.
func (k *marks) markOf(xmin int64) (m mark, sure bool) {
	for i := len(k.seen) - 1; i >= 0; i-- {
		if k.seen[i].xmax > xmin {
			continue
		}
		begun := k.seen[i].at
		for ; i >= 0; i-- {
			if one := k.seen[i]; one.at.Before(begun.Add(-beforeXid)) {
				return mark{Xid: xmin, Revision: one.revision, At: one.at}, true
			}
		}
	}
	first := k.seen[0]
	return mark{Xid: xmin, Revision: max(first.revision-unobserved, 0), At: first.at.Add(-time.Hour)}, false
}

// unobserved is how many revisions a stream reads back to that begins soon after its API. Of a transaction that was
// open then, and has written more, the stream lacks the first lines.
const unobserved = 10000
