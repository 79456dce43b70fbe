package scheduled

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tasktable/tasktable/scheduled/internal/taskdb"
)

// abandoned runs on the leader and takes back the claims that nothing else takes back. A node ends the claims in its
// own hands when their leases end. The leader finds the claims of dead nodes, and those that no node has fetched,
// through River's jobs. The claims that are left are those whose job somebody has deleted. abandoned finds them with
// a slow walk through the table. It does not use an index on the lease, because while somebody holds an old snapshot,
// such an index keeps an entry for each task that was ever claimed, and a look for lapsed leases would read all
// entries.
type abandoned struct {
	pool       *pgxpool.Pool
	statements taskdb.Queries
	leads      func() bool
	after      time.Duration // from the end of a lease until the claim is taken back; also the pause between rounds
	within     time.Duration // bounds each part of a round
	metrics    *metrics
	dead       *failureNotifier
	log        *slog.Logger
}

const (
	// abandonedAfter is so long that everything that takes claims back sooner has done so.
	abandonedAfter  = time.Minute
	abandonedPause  = time.Second // between two parts of a round
	abandonedWithin = 5 * time.Second
	// abandonedRefused is how many rows of a part may refuse to be settled. After that, the rest of the part is left to
	// the next round.
	abandonedRefused = 10
)

// run works until ctx is done.
func (a *abandoned) run(ctx context.Context) {
	page, most := int64(0), int64(retainPages)
	repeat(ctx, a.after, func() time.Duration {
		if !a.leads() {
			page, most = 0, retainPages
			return a.after
		}
		next, err := a.step(ctx, page, most)
		switch {
		case err == nil:
			page, most = next, min(2*most, retainPages)
		case ctx.Err() != nil:
		case tookTooLong(err) && most > 1:
			most = max(most/8, 1)
			return abandonedPause
		case tookTooLong(err):
			a.log.Error("claims on a page take too long to take back; the leader leaves them to the next round",
				"page", page, "error", err)
			page++
		default:
			a.log.Warn("leader could not look for claims that nobody holds; it tries again", "error", err)
			return a.after
		}
		if page == 0 {
			return a.after
		}
		return abandonedPause
	})
}

// tookTooLong reports whether a part of a round ran into its own time limit, or into the server's.
func tookTooLong(err error) bool {
	return errors.Is(err, context.DeadlineExceeded) || taskdb.IsTimeout(err)
}

// The statement locks the rows, so that no lease is extended meanwhile.
const abandonedSQL = `
SELECT t.id::text AS id, t.fence, t.revision, t.attempt, '0001-01-01'::timestamptz AS due
FROM tasktable.scheduled_tasks AS t
WHERE t.ctid >= $1::tid AND t.ctid < $2::tid AND t.lease_expires_at < clock_timestamp() - $3::interval
LIMIT 500 FOR UPDATE SKIP LOCKED`

// step looks through at most `most` pages from page on. It returns the page at which to go on, which is 0 at the end
// of the table.
func (a *abandoned) step(ctx context.Context, page, most int64) (next int64, err error) {
	ctx, cancel := context.WithTimeout(ctx, a.within)
	defer cancel()
	pages, err := a.statements.PagesOf(ctx, a.pool, "tasktable.scheduled_tasks")
	if err != nil {
		return page, err
	}
	var ended []taskdb.Settlement
	var done []taskdb.SettleResult
	err = pgx.BeginFunc(ctx, a.pool, func(tx pgx.Tx) error {
		take := func(savepoint pgx.Tx, r taskdb.TupleRange) error {
			some, states, err := a.take(ctx, savepoint, r)
			ended, done = append(ended, some...), append(done, states...)
			return err
		}
		_, refused, err := taskdb.PastRefusals(ctx, tx, taskdb.WholePages(page, page+most), abandonedRefused, take)
		for _, one := range refused {
			a.log.Error("a claim that nobody holds cannot be taken back", "row", one.At.String(), "error", one.Err)
		}
		return err
	})
	if err != nil {
		return page, err
	}
	a.tell(ended, done)
	if next = page + most; next >= pages {
		next = 0
	}
	return next, nil
}

// take ends the abandoned claims on the rows of a range.
func (a *abandoned) take(
	ctx context.Context, tx pgx.Tx, r taskdb.TupleRange,
) (ended []taskdb.Settlement, done []taskdb.SettleResult, err error) {
	holds, err := taskdb.CollectRows[taskdb.Claim](ctx, tx, "read abandoned claims",
		a.statements.Schema.SQL(abandonedSQL), r.From.String(), r.To.String(), a.after)
	if err != nil || len(holds) == 0 {
		return nil, nil, err
	}
	for _, h := range holds {
		h.Due = time.Time{} // the row does not say when the task was due
		ended = append(ended, taskdb.Lost(h, "its lease ended, and nobody held it"))
	}
	if done, err = a.statements.Settle(ctx, tx, nil, nil, ended); err != nil {
		return nil, nil, err
	}
	return ended, done, nil
}

func (a *abandoned) tell(ended []taskdb.Settlement, done []taskdb.SettleResult) {
	states := taskdb.ByFence(done)
	for _, one := range ended {
		if state := states[one.Fence]; state.Settled {
			a.log.Warn("claim taken back", "task", one.ID, "type", state.Type,
				"revision", one.Revision, "attempt", one.Attempt,
				"outcome", one.Outcome, "status", state.Status, "why", *one.Error)
			a.metrics.of(state.Type).recorded(one.Recorded(state))
			a.dead.tell(deadOf(one, state))
		}
	}
}
