package maintenance

import (
	"cmp"
	"context"
	"errors"
	"fmt"
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
// through River's jobs. The claims that are left are those whose job somebody has deleted. While somebody holds an old
// snapshot, the index on the lease keeps an entry for each task that was ever claimed. To step over 300,000 of them
// takes a tenth of a second. If a look takes too long, these claims wait until the snapshot is gone.
type Abandoned struct {
	config AbandonedConfig
	size   *pg.Size // how many claims a look takes back
	passed int      // how many claims a round has found that cannot be taken back
}

// AbandonedConfig is the configuration of Abandoned.
type AbandonedConfig struct {
	Pool       *pgxpool.Pool
	Turns      session.Turns // for connections of Pool; nil: no bound
	Statements taskdb.Queries
	Leads      func() bool // whether this node leads
	// From the end of a lease until the claim is taken back, and between two rounds; 0: 1 min. It is so long that
	// everything that takes claims back sooner has done so.
	After    time.Duration
	Within   time.Duration // bounds each statement of a look; 0: 5 s
	Metrics  *metrics.Metrics
	Failures *failures.Notifier
	Log      *slog.Logger
}

// NewAbandoned makes the component. It takes nothing back before Run.
func NewAbandoned(config AbandonedConfig) *Abandoned {
	config.After = cmp.Or(config.After, time.Minute)
	config.Within = cmp.Or(config.Within, 5*time.Second)
	return &Abandoned{config: config, size: pg.NewSize(1, maxAbandoned)}
}

const (
	maxAbandoned   = 500         // claims that a look takes back
	abandonedPause = time.Second // between two looks of a round
)

// Run works until ctx is done.
func (a *Abandoned) Run(ctx context.Context) {
	loop.Repeat(ctx, a.config.After, func() time.Duration {
		if a.config.Leads() && a.look(ctx) {
			return abandonedPause
		}
		a.passed = 0
		return a.config.After
	})
}

// AbandonedSQL finds claims whose lease has ended. It locks the rows, so that no lease is extended meanwhile.
const AbandonedSQL = `
SELECT t.id::text AS id, t.fence, t.revision, t.attempt, '0001-01-01'::timestamptz AS due
FROM tasktable.scheduled_tasks AS t
WHERE t.lease_expires_at < statement_timestamp() - $1::interval
ORDER BY t.lease_expires_at OFFSET $2::int LIMIT $3::int FOR NO KEY UPDATE SKIP LOCKED`

const abandonedLimitSQL = `SELECT set_config('statement_timeout', ($1::bigint)::text, true)`

// look takes back some claims. It reports whether there may be more. If it takes too long, the next look takes half as
// many. A single claim that takes too long is left to the next round.
func (a *Abandoned) look(ctx context.Context) (more bool) {
	most := a.size.Now()
	ended, done, refused, err := a.takeBack(ctx, most)
	switch tooLong := errors.Is(err, context.DeadlineExceeded) || pg.IsTimeout(err); {
	case ctx.Err() != nil:
		return false
	case err == nil:
		a.passed += refused
		a.size.Grow()
		a.tell(ended, done)
		return len(ended) == most
	case tooLong && len(ended) > 1:
		a.size.Shrink(len(ended))
		return true
	case tooLong && len(ended) == 1:
		a.passed++
		a.config.Log.Error("a claim that nobody holds takes too long to take back; the next round tries again",
			"task", ended[0].ID, "error", err)
		return true
	}
	a.config.Log.Warn("leader could not look for claims that nobody holds; it tries again", "error", err)
	return false
}

// takeBack ends claims that nobody holds, in a transaction. It leaves out those that Postgres refuses to end.
func (a *Abandoned) takeBack(
	ctx context.Context, most int,
) (ended []taskdb.Settlement, done []taskdb.SettleResult, refused int, err error) {
	leave, err := a.config.Turns.Take(ctx) // the wait does not count as a slow look
	if err != nil {
		return nil, nil, 0, err
	}
	defer leave()
	ctx, cancel := context.WithTimeout(ctx, 3*a.config.Within)
	defer cancel()
	err = pgx.BeginFunc(ctx, a.config.Pool, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, abandonedLimitSQL, a.config.Within.Milliseconds()); err != nil {
			return fmt.Errorf("limit statements: %w", err)
		}
		claims, err := pg.CollectRows[taskdb.Claim](ctx, tx, "read abandoned claims",
			a.config.Statements.Schema.SQL(AbandonedSQL), a.config.After, a.passed, most)
		if err != nil {
			return err
		}
		for _, claim := range claims {
			claim.Due = time.Time{} // the row does not say when the task was due
			ended = append(ended, taskdb.Lost(claim, "its lease ended, and nobody held it"))
		}
		return pg.Isolate(ended, func(some []taskdb.Settlement) error {
			return pgx.BeginFunc(ctx, tx, func(savepoint pgx.Tx) error {
				states, err := a.config.Statements.Settle(ctx, savepoint, nil, nil, some)
				done = append(done, states...)
				return err
			})
		}, func(one taskdb.Settlement, err error) error {
			refused++
			a.config.Log.Error("a claim that nobody holds cannot be taken back", "task", one.ID, "error", err)
			return nil
		})
	})
	return ended, done, refused, err
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
