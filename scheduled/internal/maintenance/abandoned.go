package maintenance

import (
	"cmp"
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tasktable/tasktable/scheduled/internal/failures"
	"github.com/tasktable/tasktable/scheduled/internal/loop"
	"github.com/tasktable/tasktable/scheduled/internal/metrics"
	"github.com/tasktable/tasktable/scheduled/internal/pg"
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
	passed []string // the tasks of a round whose claims cannot be taken back
}

// AbandonedConfig is the configuration of Abandoned.
type AbandonedConfig struct {
	Config
	// From the end of a lease until the claim is taken back, and between two rounds; 0: 1 min. It is so long that
	// everything that takes claims back sooner has done so.
	After    time.Duration
	Within   time.Duration // bounds each statement of a look; 0: 5 s
	Metrics  *metrics.Metrics
	Failures *failures.Notifier
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
		if a.config.Leads() {
			more, err := a.runOnce(ctx)
			if err != nil && ctx.Err() == nil {
				a.config.Log.Warn("leader could not take back all claims that nobody holds; it tries again",
					"error", err)
			}
			if more {
				return abandonedPause
			}
		}
		a.passed = nil
		return a.config.After
	})
}

// AbandonedSQL finds claims whose lease has ended. It steps over rows that an application has locked.
const AbandonedSQL = `
SELECT t.id::text AS id, t.fence, t.revision, t.attempt, '0001-01-01'::timestamptz AS due
FROM tasktable.scheduled_tasks AS t
WHERE t.lease_expires_at < statement_timestamp() - $1::interval AND t.id <> ALL ($2::text[])
ORDER BY t.lease_expires_at LIMIT $3::int FOR NO KEY UPDATE SKIP LOCKED`

// runOnce takes back some claims. It reports whether there may be more. It leaves out a claim that Postgres refuses to
// end, or that takes too long by itself, until the next round. A node that was frozen may extend a lease between the
// two statements. It loses the claim all the same, as if it had been frozen for a moment longer.
func (a *Abandoned) runOnce(ctx context.Context) (more bool, err error) {
	most := a.size.Now()
	var claims []taskdb.Claim
	if err = a.config.Housekeeping.Do(ctx, a.config.Within, func(ctx context.Context, tx pgx.Tx) (err error) {
		claims, err = pg.CollectRows[taskdb.Claim](ctx, tx, "read abandoned claims",
			a.config.Statements.Schema.SQL(AbandonedSQL), a.config.After, pg.OrEmpty(a.passed), most)
		return err
	}); err != nil {
		return false, err
	}
	err = pg.Step(a.size, claims, func(some []taskdb.Claim) error { return a.takeBack(ctx, some) },
		func(one taskdb.Claim, err error) error {
			a.passed = append(a.passed, one.ID)
			a.config.Log.Error("a claim that nobody holds cannot be taken back; the next round tries again",
				"task", one.ID, "error", err)
			return nil
		})
	return len(claims) == most && err == nil || pg.IsTimeout(err), err
}

func (a *Abandoned) takeBack(ctx context.Context, claims []taskdb.Claim) error {
	var ended []taskdb.Settlement
	for _, claim := range claims {
		claim.Due = time.Time{} // the row does not say when the task was due
		ended = append(ended, taskdb.Lost(claim, "its lease ended, and nobody held it"))
	}
	var done []taskdb.SettleResult
	if err := a.config.Housekeeping.Do(ctx, a.config.Within, func(ctx context.Context, tx pgx.Tx) (err error) {
		done, err = a.config.Statements.Settle(ctx, tx, nil, nil, ended)
		return err
	}); err != nil {
		return err
	}
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
	return nil
}
