package community

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tasktable/tasktable/handlers"
	"github.com/tasktable/tasktable/handlers/community/contract"
)

// mostAccounts is how many accounts one run suspends or deletes at most, beside its bound on rows: their ids go from
// one statement to the next.
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

// logOut ends all by which the members could act.
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

const suspendSQL = `UPDATE community.members SET suspended_at = @now WHERE id = ANY ((@members::text[])[1:@rows::bigint])`

// suspendAccounts runs ACCOUNT_SUSPENSION. Who is suspended is logged out. That comes first, so that the run that
// reaches its bound before it has logged out everybody suspends nobody, and the next one goes on with the same
// accounts.
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

// finishAccounts is finish, and runs again also if there may be more accounts.
func (s *sweep) finishAccounts(found int) {
	s.finish()
	if found == mostAccounts {
		s.e.Again(s.e.StartedAt)
	}
}

// DeactivationGrace is how long a deactivated account can be activated again.
const DeactivationGrace = 30 * 24 * time.Hour

// The lock lets rows that refer to the account be added meanwhile: a reminder under way would otherwise wait for
// this, and this perhaps for its event. If one is added after its table was swept, the last statement fails, and the
// retry finds it.
const leaversSQL = `
SELECT id FROM community.members WHERE deactivated_at <= @before
ORDER BY deactivated_at, id LIMIT @accounts FOR NO KEY UPDATE SKIP LOCKED`

// The lock keeps others from joining while it is seen who could take over.
const hostedSQL = `SELECT id FROM community.communities WHERE host = ANY (@members) ORDER BY id FOR UPDATE`

// A community belongs to its members, not to its host: it goes to who has belonged to it longest, of those whose
// account is in order.
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
    SELECT id FROM community.scheduled_posts WHERE author = ANY (@members) OR community_id = ANY (@orphans) ORDER BY id LIMIT @rows FOR UPDATE))
RETURNING id`
	accountMembershipsSQL = `
DELETE FROM community.memberships WHERE id = ANY (ARRAY(
    SELECT id FROM community.memberships WHERE member_id = ANY (@members) OR community_id = ANY (@orphans) ORDER BY id LIMIT @rows FOR UPDATE))
RETURNING id`
	accountCommunitiesSQL   = `DELETE FROM community.communities WHERE id = ANY ((@orphans::text[])[1:@rows::bigint])`
	accountNotificationsSQL = `
DELETE FROM community.notifications WHERE ctid = ANY (ARRAY(
    SELECT ctid FROM community.notifications WHERE member_id = ANY (@members) LIMIT @rows FOR UPDATE))`
	accountMessagesSQL = `
DELETE FROM community.direct_messages WHERE effect_key = ANY (ARRAY(
    SELECT effect_key FROM community.direct_messages WHERE sender = ANY (@members) OR recipient = ANY (@members) LIMIT @rows FOR UPDATE))`
	accountMomentsSQL = `
DELETE FROM community.moments WHERE id = ANY (ARRAY(
    SELECT id FROM community.moments WHERE member_id = ANY (@members) LIMIT @rows FOR UPDATE))`
	deleteAccountsSQL = `DELETE FROM community.members WHERE id = ANY ((@members::text[])[1:@rows::bigint])`
)

// purgeAccounts runs DEACTIVATED_ACCT_PURGE. With an account goes all that refers to it: what the member wrote, sent
// and was sent. A community that the member hosts is handed over; only one in which nobody with an account in order
// is left goes too. The accounts themselves come last. A run that reaches its bound before has left fewer rows, and
// the next one goes on.
func (a *App) purgeAccounts(ctx context.Context, tx pgx.Tx, t *handlers.Task[contract.DeactivatedAccountPurge]) error {
	s := newSweep(tx, t.Execution)
	members, err := s.find(ctx, "members", leaversSQL, pgx.NamedArgs{"before": t.StartedAt.Add(-DeactivationGrace), "accounts": mostAccounts})
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

// handOver gives the members' communities away and returns those that nobody can take.
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
