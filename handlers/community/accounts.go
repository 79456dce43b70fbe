package community

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tasktable/tasktable/handlers"
	"github.com/tasktable/tasktable/handlers/community/contract"
)

// mostAccounts is how many accounts one run suspends or deletes at most, because each of them has other rows.
const mostAccounts = 100

// suspendSQL also deletes the members' refresh tokens, one-time passwords and sessions, so that they cannot act any
// more.
const suspendSQL = `
WITH flagged AS MATERIALIZED (
    SELECT id FROM community.members WHERE flagged_at <= @now AND suspended_at IS NULL
    ORDER BY flagged_at, id LIMIT @accounts FOR NO KEY UPDATE SKIP LOCKED
), tokens AS (DELETE FROM community.refresh_tokens WHERE member_id IN (SELECT id FROM flagged)
), passwords AS (DELETE FROM community.one_time_passwords WHERE member_id IN (SELECT id FROM flagged)
), sessions AS (DELETE FROM community.sessions WHERE member_id IN (SELECT id FROM flagged))
UPDATE community.members SET suspended_at = @now WHERE id IN (SELECT id FROM flagged)`

// suspendAccounts runs ACCOUNT_SUSPENSION.
func suspendAccounts(ctx context.Context, tx pgx.Tx, t *handlers.Task[contract.AccountSuspension]) error {
	s := newSweep(tx, t.Execution)
	if err := s.exec(ctx, "members", suspendSQL, pgx.NamedArgs{"accounts": mostAccounts}); err != nil {
		return fmt.Errorf("suspend accounts: %w", err)
	}
	s.finishAccounts(int(s.swept["members"]))
	return nil
}

// finishAccounts is finish, and it also asks to run again if there may be more accounts.
func (s *sweep) finishAccounts(found int) {
	s.finish()
	if found == mostAccounts {
		s.e.Again(s.e.StartedAt)
	}
}

// DeactivationGrace is how long after its deactivation an account can be activated again.
const DeactivationGrace = 30 * 24 * time.Hour

// The lock allows other transactions to add rows that refer to the account. Otherwise a running reminder would wait
// for this transaction, and this transaction perhaps for the reminder's event.
const leaversSQL = `
SELECT id FROM community.members WHERE deactivated_at <= @before
ORDER BY deactivated_at, id LIMIT @accounts FOR NO KEY UPDATE SKIP LOCKED`

// purgeAccounts runs DEACTIVATED_ACCT_PURGE. It deletes the accounts, and their posts and memberships with the tasks
// of these. The foreign keys delete everything else that the members wrote, sent and received, and a community that
// they host has no host any more. It deletes the accounts last, so that the next run goes on if this run reaches its
// bound earlier. If a post or a membership is added meanwhile, the last statement fails, and the retry finds it.
func (a *App) purgeAccounts(ctx context.Context, tx pgx.Tx, t *handlers.Task[contract.DeactivatedAccountPurge]) error {
	s := newSweep(tx, t.Execution)
	members, err := s.texts(ctx, leaversSQL, pgx.NamedArgs{
		"before":   t.StartedAt.Add(-DeactivationGrace),
		"accounts": mostAccounts,
	})
	if err != nil {
		return fmt.Errorf("purge deactivated accounts: %w", err)
	}
	for _, step := range []struct{ table, condition string }{
		{"scheduled_posts", "author = ANY (@members)"},
		{"memberships", "member_id = ANY (@members)"},
		{"members", "id = ANY (@members)"},
	} {
		if err := a.delete(ctx, s, step.table, step.condition, pgx.NamedArgs{"members": members}); err != nil {
			return fmt.Errorf("purge deactivated accounts: %w", err)
		}
	}
	s.finishAccounts(len(members))
	return nil
}
