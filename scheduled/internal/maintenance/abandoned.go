package maintenance

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tasktable/tasktable/scheduled/internal/failures"
	"github.com/tasktable/tasktable/scheduled/internal/loop"
	"github.com/tasktable/tasktable/scheduled/internal/metrics"
	"github.com/tasktable/tasktable/scheduled/internal/pg"
	"github.com/tasktable/tasktable/scheduled/internal/session"
	"github.com/tasktable/tasktable/scheduled/internal/taskdb"
)

// Abandoned runs on the leader and takes back the claims that nothing else takes back. A node ends the claims in its
// own hands when their leases end. The leader finds the claims of dead nodes, and those that no node has fetched,
// through River's jobs. The claims that are left are those whose job somebody has deleted. Abandoned finds them with
// a slow walk through the table. It does not use an index on the lease, because while somebody holds an old snapshot,
// such an index keeps an entry for each task that was ever claimed, and a look for lapsed leases would read all
// entries.
type Abandoned struct {
	config AbandonedConfig
}

// AbandonedConfig is the configuration of Abandoned.
type AbandonedConfig struct {
	Pool       *pgxpool.Pool
	Turns      session.Turns // for connections of Pool; nil: no bound
	Statements taskdb.Queries
	Leads      func() bool // whether this node leads
	// From the end of a lease until the claim is taken back, and between two rounds; 0: 1 min.
	After    time.Duration
	Within   time.Duration    // bounds each part of a round; 0: 5 s
	Metrics  *metrics.Metrics // nil: nothing is counted
	Failures *failures.Notifier
	Log      *slog.Logger
}

// NewAbandoned makes the walk. It takes nothing back before Run.
func NewAbandoned(config AbandonedConfig) *Abandoned {
	config.After = cmp.Or(config.After, abandonedAfter)
	config.Within = cmp.Or(config.Within, abandonedWithin)
	return &Abandoned{config: config}
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

// Run works until ctx is done.
func (a *Abandoned) Run(ctx context.Context) {
	page, most := int64(0), pg.NewSize(1, taskdb.PagesAtOnce)
	loop.Repeat(ctx, a.config.After, func() time.Duration {
		if !a.config.Leads() {
			page = 0
			most.Reset()
			return a.config.After
		}
		next, err := a.step(ctx, page, int64(most.Now()))
		switch {
		case err == nil:
			page = next
			most.Grow()
		case ctx.Err() != nil:
		case tookTooLong(err) && most.Shrink(most.Now()/4):
			return abandonedPause
		case tookTooLong(err):
			a.config.Log.Error("claims on a page take too long to take back; the leader leaves them to the next round",
				"page", page, "error", err)
			page++
		default:
			a.config.Log.Warn("leader could not look for claims that nobody holds; it tries again", "error", err)
			return a.config.After
		}
		if page == 0 {
			return a.config.After
		}
		return abandonedPause
	})
}

// tookTooLong reports whether a part of a round ran into its own time limit, or into the server's.
func tookTooLong(err error) bool {
	return errors.Is(err, context.DeadlineExceeded) || pg.IsTimeout(err)
}

// AbandonedSQL finds claims whose lease has ended. It locks the rows, so that no lease is extended meanwhile.
const AbandonedSQL = `
SELECT t.id::text AS id, t.fence, t.revision, t.attempt, '0001-01-01'::timestamptz AS due
FROM tasktable.scheduled_tasks AS t
WHERE t.ctid >= $1::tid AND t.ctid < $2::tid AND t.lease_expires_at < clock_timestamp() - $3::interval
LIMIT 500 FOR NO KEY UPDATE SKIP LOCKED`

// step looks through at most `most` pages from page on. It returns the page at which to go on, which is 0 at the end
// of the table.
func (a *Abandoned) step(ctx context.Context, page, most int64) (next int64, err error) {
	leave, err := a.config.Turns.Take(ctx) // the wait does not count as a slow part
	if err != nil {
		return page, err
	}
	defer leave()
	ctx, cancel := context.WithTimeout(ctx, a.config.Within)
	defer cancel()
	pages, err := a.config.Statements.PagesOf(ctx, a.config.Pool, "tasktable.scheduled_tasks")
	if err != nil {
		return page, err
	}
	var ended []taskdb.Settlement
	var done []taskdb.SettleResult
	err = pgx.BeginFunc(ctx, a.config.Pool, func(tx pgx.Tx) error {
		take := func(savepoint pgx.Tx, r taskdb.TupleRange) error {
			some, states, err := a.take(ctx, savepoint, r)
			ended, done = append(ended, some...), append(done, states...)
			return err
		}
		_, refused, err := taskdb.PastRefusals(ctx, tx, taskdb.WholePages(page, page+most), abandonedRefused, take)
		for _, one := range refused {
			a.config.Log.Error(
				"a claim that nobody holds cannot be taken back", "row", one.At.String(), "error", one.Err,
			)
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
func (a *Abandoned) take(
	ctx context.Context, tx pgx.Tx, r taskdb.TupleRange,
) (ended []taskdb.Settlement, done []taskdb.SettleResult, err error) {
	holds, err := pg.CollectRows[taskdb.Claim](ctx, tx, "read abandoned claims",
		a.config.Statements.Schema.SQL(AbandonedSQL), r.From.String(), r.To.String(), a.config.After)
	if err != nil || len(holds) == 0 {
		return nil, nil, err
	}
	for _, h := range holds {
		h.Due = time.Time{} // the row does not say when the task was due
		ended = append(ended, taskdb.Lost(h, "its lease ended, and nobody held it"))
	}
	if done, err = a.config.Statements.Settle(ctx, tx, nil, nil, ended); err != nil {
		return nil, nil, err
	}
	return ended, done, nil
}

func (a *Abandoned) tell(ended []taskdb.Settlement, done []taskdb.SettleResult) {
	states := taskdb.ByFence(done)
	for _, one := range ended {
		if state := states[one.Fence]; state.Settled {
			a.config.Log.Warn("claim taken back", "task", one.ID, "type", state.Type,
				"revision", one.Revision, "attempt", one.Attempt,
				"outcome", one.Outcome, "status", state.Status, "why", *one.Error)
			a.config.Metrics.Of(state.Type).Recorded(state.Recorded)
			a.config.Failures.Tell(failures.Of(one, state))
		}
	}
}
