package scheduled

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/tasktable/tasktable/handlers"
	"github.com/tasktable/tasktable/store"
)

// errFenceLost rolls a transactional handler back: its task is another's now.
var errFenceLost = errors.New("the claim was taken back while the handler ran; its transaction is rolled back")

// attemptTx runs a transactional handler and settles its task in the handler's own transaction, so that its writes and its
// completion commit together. It reports whether the task is settled; if not, the outcome is recorded like any other's. The wait
// for a connection may be long, where others use the pool too: then the gate is asked again, and may refuse.
func (b *batch) attemptTx(
	ctx context.Context, r *run, variant *handlers.Variant, e *handlers.Execution, gateAt time.Time,
) (done bool, refused *gateRow, err error) {
	tx, run, err := b.beginTx(ctx, variant)
	if err != nil { // the handler has not begun: no attempt is used up
		return false, &gateRow{Verdict: verdictNoTx, Payload: "its transaction: " + err.Error()}, nil
	}
	// Not ctx: the rollback must happen after ctx is done, and after a panic or Goexit, too.
	defer func() { _ = tx.rollback(context.WithoutCancel(ctx)) }()
	if time.Since(gateAt) > gateValid {
		if refused := b.gateAgain(ctx, tx.querier, r, e); refused != nil {
			return false, refused, nil
		}
	}
	r.calls(e.StartedAt)
	startTime(ctx)
	b.tally.starts(e.StartedAt.Sub(e.DueAt))
	if err := run(ctx, e); err != nil {
		return false, nil, err
	}
	if err := encodeFollowUps(ctx, b.config.Codec, e); err != nil {
		return false, nil, err
	}
	if err := b.settleTx(ctx, tx.querier, r, e); err != nil {
		return false, nil, err
	}
	// Not ctx: the settle has told the node that the claim has ended, which ends the context, and the commit must not with it.
	committing, cancel := context.WithTimeout(context.WithoutCancel(ctx), commitLimit)
	defer cancel()
	if err := tx.commit(committing); err != nil {
		// Committed or not is unknown. Recording a failure is safe: if the commit happened, the fence is gone, and nothing is
		// recorded.
		return false, nil, fmt.Errorf("commit the handler's transaction: %w", err)
	}
	if r.putOff {
		b.settler.putOff(r.ID, e.Type, r.generations)
	}
	if r.dueSoon { // only now can others see it
		b.settler.dueSoon()
	}
	return true, nil, nil
}

// noTxRest is how long a claim without a transaction keeps its places before it goes back. The task keeps its due time,
// so the leader claims it again at once. Without the rest a database that refuses connections would be asked without a
// pause, and each refusal would write a line of history.
const noTxRest = time.Second

// rest waits, but not when the node stops, becomes quiet or ends its handlers.
func (b *batch) rest(d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-b.stopping:
	case <-b.quiet.begins():
	case <-b.handlers.Done():
	}
}

// gateAgain asks the gate in the handler's own transaction, as late as can be: until an answer is young enough when all else is done. It
// returns the answer that does not let the task through, or nil.
func (b *batch) gateAgain(ctx context.Context, tx querier, r *run, e *handlers.Execution) (refused *gateRow) {
	if lease, ok := ctx.(*leaseContext); ok { // the wait was not the handler's
		if err := b.extendLease(lease, r, nil); err != nil {
			return &gateRow{Verdict: verdictNoTx, Payload: err.Error()}
		}
	}
	for {
		asked := time.Now()
		now, err := instant(ctx, tx) // not the transaction's, which began before what has taken time
		if err != nil {
			return &gateRow{Verdict: verdictNoTx, Payload: err.Error()}
		}
		answers, err := b.statements.gate(ctx, tx, &now, []hold{r.hold}, map[int64]string{r.Fence: ""})
		if err != nil {
			return &gateRow{Verdict: verdictNoTx, Payload: err.Error()}
		}
		answer := answers[r.Fence]
		if answer.Verdict != verdictGo {
			return &answer
		}
		r.restarts(e, answer.Now)
		if why := b.halted(); why != "" { // meanwhile
			return &gateRow{Verdict: verdictHalted, Payload: why}
		}
		if time.Since(b.pace.instant(asked, time.Now())) <= gateValid {
			return nil
		}
	}
}

// instant is the database's time, before the snapshot of the statement that follows.
func instant(ctx context.Context, tx querier) (time.Time, error) {
	return one[time.Time](ctx, tx, "ask the time", "SELECT clock_timestamp()")
}

// commitLimit is for a server that does not answer at all.
const commitLimit = 10 * time.Second

// settleTx settles a completed attempt in tx. A row that an application has locked is waited for: nobody else waits with it.
func (b *batch) settleTx(ctx context.Context, tx querier, r *run, e *handlers.Execution) error {
	outcome := conclude(r.hold, e, nil, nil, b.config.Backoff)
	if outcome.Outcome != outcomeCompleted {
		return handlers.Permanent(errors.New(*outcome.Error)) // an effect that cannot be applied
	}
	// From here on the transaction holds the task's row: a node that is cut off now must not keep it from those who would take
	// the task back.
	const settings = `SELECT set_config('idle_in_transaction_session_timeout', '5s', true), set_config('lock_timeout', '0', true)`
	if _, err := tx.Exec(ctx, settings); err != nil {
		return fmt.Errorf("settle task %s: %w", r.ID, err)
	}
	for {
		done, err := b.statements.settleAll(ctx, tx, nil, &b.settler.node, b.settler.service, []settlement{outcome})
		switch {
		case err != nil:
			return err
		case len(done) == 1 && done[0].Settled:
			r.dueSoon, r.outdated = done[0].DueSoon, !done[0].Current
			r.putOff, r.generations = done[0].PutOff, done[0].Generations
			return nil
		case len(done) == 1 && done[0].Held:
			// A lock that is waited for is seen by Postgres: should the application's transaction wait for this one too, it ends
			// one of the two.
			if err := b.statements.waitInOrder(ctx, tx, outcome); err != nil {
				return err
			}
		default:
			return errFenceLost
		}
	}
}

// sqlQuerier makes a querier of a store.DB: the engine's statements then run in a database/sql transaction, too.
type sqlQuerier struct{ store.DB }

func (q sqlQuerier) Exec(ctx context.Context, statement string, args ...any) (pgconn.CommandTag, error) {
	rows, err := q.Query(ctx, statement, args...)
	if err != nil {
		return pgconn.CommandTag{}, err
	}
	rows.Close()
	return pgconn.CommandTag{}, rows.Err()
}
