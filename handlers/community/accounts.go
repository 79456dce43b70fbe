package community

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tasktable/tasktable/handlers"
	"github.com/tasktable/tasktable/handlers/community/contract"
)

// mostAccounts is how many accounts one run suspends or deletes at most, beside its bound on rows. It is a bound
// because one statement passes the ids to the next.
const mostAccounts = 1000

const (
	endRefreshSQL = `
DELETE FROM community.refresh_tokens WHERE id = ANY (ARRAY(
    SELECT id FROM community.refresh_tokens WHERE member_id = ANY (@members) LIMIT @rows FOR UPDATE))`
	endCodesSQL = `
DELETE FROM community.one_time_passwords WHERE id = ANY (ARRAY(
    SELECT id FROM community.one_time_passwords WHERE member_id = ANY (@members) LIMIT @rows FOR UPDATE))`
	endSessionsSQL = `
DELETE FROM community.sessions WHERE id = ANY (ARRAY(
    SELECT id FROM community.sessions WHERE member_id = ANY (@members) LIMIT @rows FOR UPDATE))`
)

// logOut deletes the members' refresh tokens, one-time passwords and sessions, so that they cannot act any more.
func logOut(ctx context.Context, s *sweep, members []string) error {
	for _, step := range []struct{ table, statement string }{
		{"refresh_tokens", endRefreshSQL}, {"one_time_passwords", endCodesSQL}, {"sessions", endSessionsSQL},
	} {
		if err := s.exec(ctx, step.table, step.statement, pgx.NamedArgs{"members": members}); err != nil {
			return err
		}
	}
	return nil
}

const flaggedSQL = `
SELECT id FROM community.members WHERE flagged_at <= @now AND suspended_at IS NULL
ORDER BY flagged_at, id LIMIT @accounts FOR NO KEY UPDATE SKIP LOCKED`

const suspendSQL = `
UPDATE community.members SET suspended_at = @now WHERE id = ANY ((@members::text[])[1:@rows::bigint])`

// suspendAccounts runs ACCOUNT_SUSPENSION. It logs the members out before it suspends them. So if a run reaches its
// bound before it has logged out all of them, it suspends nobody, and the next run goes on with the same accounts.
func suspendAccounts(ctx context.Context, tx pgx.Tx, t *handlers.Task[contract.AccountSuspension]) error {
	s := newSweep(tx, t.Execution)
	members, err := s.find(ctx, "members", flaggedSQL, pgx.NamedArgs{"accounts": mostAccounts})
	if err != nil {
		return fmt.Errorf("suspend accounts: %w", err)
	}
	if err := logOut(ctx, s, members); err != nil {
		return fmt.Errorf("suspend accounts: %w", err)
	}
	if err := s.exec(ctx, "members", suspendSQL, pgx.NamedArgs{"members": members}); err != nil {
		return fmt.Errorf("suspend accounts: %w", err)
	}
	s.finishAccounts(len(members))
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
// for this transaction, and this transaction perhaps for the reminder's event. If a row is added after its table was
// swept, the last statement fails, and the retry finds the row.
const leaversSQL = `
SELECT id FROM community.members WHERE deactivated_at <= @before
ORDER BY deactivated_at, id LIMIT @accounts FOR NO KEY UPDATE SKIP LOCKED`

// The lock keeps new members from joining while the next host is chosen.
const hostedSQL = `SELECT id FROM community.communities WHERE host = ANY (@members) ORDER BY id FOR UPDATE`

// The community goes to the member who has belonged to it longest, among the members whose account is neither
// deactivated nor suspended.
const handOverSQL = `
WITH heir AS MATERIALIZED (
    SELECT DISTINCT ON (m.community_id) m.community_id, m.member_id
    FROM community.memberships AS m JOIN community.members AS p ON p.id = m.member_id
    WHERE m.community_id = ANY (@hosted) AND p.deactivated_at IS NULL AND p.suspended_at IS NULL
    ORDER BY m.community_id, m.joined_at, m.id
), chosen AS MATERIALIZED (SELECT * FROM heir ORDER BY community_id LIMIT @rows)
UPDATE community.communities AS c SET host = chosen.member_id FROM chosen WHERE c.id = chosen.community_id`

const (
	accountEventsSQL = `
DELETE FROM community.events WHERE id = ANY (ARRAY(
    SELECT id FROM community.events WHERE community_id = ANY (@orphans) ORDER BY id LIMIT @rows FOR UPDATE))
RETURNING id`
	accountPostsSQL = `
DELETE FROM community.scheduled_posts WHERE id = ANY (ARRAY(
    SELECT id FROM community.scheduled_posts WHERE author = ANY (@members) OR community_id = ANY (@orphans) ORDER BY id
        LIMIT @rows FOR UPDATE))
RETURNING id`
	accountMembershipsSQL = `
DELETE FROM community.memberships WHERE id = ANY (ARRAY(
    SELECT id FROM community.memberships WHERE member_id = ANY (@members) OR community_id = ANY (@orphans) ORDER BY id
        LIMIT @rows FOR UPDATE))
RETURNING id`
	accountCommunitiesSQL   = `DELETE FROM community.communities WHERE id = ANY ((@orphans::text[])[1:@rows::bigint])`
	accountNotificationsSQL = `
DELETE FROM community.notifications WHERE ctid = ANY (ARRAY(
    SELECT ctid FROM community.notifications WHERE member_id = ANY (@members) LIMIT @rows FOR UPDATE))`
	accountMessagesSQL = `
DELETE FROM community.direct_messages WHERE effect_key = ANY (ARRAY(
    SELECT effect_key FROM community.direct_messages WHERE sender = ANY (@members) OR recipient = ANY (@members)
        LIMIT @rows FOR UPDATE))`
	accountActivitiesSQL = `
DELETE FROM community.activities WHERE effect_key = ANY (ARRAY(
    SELECT effect_key FROM community.activities WHERE member_id = ANY (@members) LIMIT @rows FOR UPDATE))`
	accountMomentsSQL = `
DELETE FROM community.moments WHERE id = ANY (ARRAY(
    SELECT id FROM community.moments WHERE member_id = ANY (@members) LIMIT @rows FOR UPDATE))`
	deleteAccountsSQL = `DELETE FROM community.members WHERE id = ANY ((@members::text[])[1:@rows::bigint])`
)

// purgeAccounts runs DEACTIVATED_ACCT_PURGE. It deletes the accounts and all rows that refer to them: everything that
// the members wrote, sent and received. It hands over the communities that the members host. It deletes a community
// only if no member is left whose account is neither deactivated nor suspended. It deletes the accounts last, so that
// the next run goes on if this run reaches its bound earlier.
func (a *App) purgeAccounts(ctx context.Context, tx pgx.Tx, t *handlers.Task[contract.DeactivatedAccountPurge]) error {
	s := newSweep(tx, t.Execution)
	members, err := s.find(ctx, "members", leaversSQL, pgx.NamedArgs{
		"before":   t.StartedAt.Add(-DeactivationGrace),
		"accounts": mostAccounts,
	})
	if err != nil {
		return fmt.Errorf("purge deactivated accounts: %w", err)
	}
	orphans, err := handOver(ctx, s, members)
	if err != nil {
		return fmt.Errorf("purge deactivated accounts: %w", err)
	}
	if err := a.purgeMembers(ctx, s, members, orphans); err != nil {
		return fmt.Errorf("purge deactivated accounts: %w", err)
	}
	s.finishAccounts(len(members))
	return nil
}

// handOver gives the members' communities to other hosts. It returns the communities for which there is no host.
func handOver(ctx context.Context, s *sweep, members []string) (orphans []string, err error) {
	hosted, err := s.find(ctx, "communities", hostedSQL, pgx.NamedArgs{"members": members})
	if err != nil {
		return nil, err
	}
	if err := s.exec(ctx, "communities", handOverSQL, pgx.NamedArgs{"hosted": hosted}); err != nil || s.left <= 0 {
		return nil, err
	}
	return s.find(ctx, "communities", hostedSQL, pgx.NamedArgs{"members": members})
}

func (a *App) purgeMembers(ctx context.Context, s *sweep, members, orphans []string) error {
	args := pgx.NamedArgs{"members": members, "orphans": orphans}
	for _, step := range []struct {
		table, statement string
		entityOf         func(id string) string
	}{
		{"events", accountEventsSQL, entityOfEvent},
		{"scheduled_posts", accountPostsSQL, entityOfPost},
		{"memberships", accountMembershipsSQL, entityOfMembership},
		{"communities", accountCommunitiesSQL, nil},
		{"notifications", accountNotificationsSQL, nil},
		{"direct_messages", accountMessagesSQL, nil},
		{"moments", accountMomentsSQL, nil},
		{"activities", accountActivitiesSQL, nil},
	} {
		if err := a.delete(ctx, s, step.table, step.statement, args, step.entityOf); err != nil {
			return err
		}
	}
	if err := logOut(ctx, s, members); err != nil {
		return err
	}
	return s.exec(ctx, "members", deleteAccountsSQL, args)
}
