package community

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tasktable/tasktable/handlers"
	"github.com/tasktable/tasktable/handlers/community/contract"
)

const (
	expireRefreshSQL = `
DELETE FROM community.refresh_tokens WHERE id = ANY (ARRAY(
    SELECT id FROM community.refresh_tokens WHERE expires_at <= @now ORDER BY expires_at LIMIT @rows
        FOR UPDATE SKIP LOCKED))`
	expireCodesSQL = `
DELETE FROM community.one_time_passwords WHERE id = ANY (ARRAY(
    SELECT id FROM community.one_time_passwords WHERE expires_at <= @now ORDER BY expires_at LIMIT @rows
        FOR UPDATE SKIP LOCKED))`
	expireSessionsSQL = `
DELETE FROM community.sessions WHERE id = ANY (ARRAY(
    SELECT id FROM community.sessions WHERE expires_at <= @now ORDER BY expires_at LIMIT @rows FOR UPDATE SKIP LOCKED))`
)

// cleanUpTokens runs TOKEN_CLEANUP. A row is expired at the instant expires_at, not only after it, as everywhere in
// this package.
func cleanUpTokens(ctx context.Context, tx pgx.Tx, t *handlers.Task[contract.TokenCleanup]) error {
	s := newSweep(tx, t.Execution)
	for _, step := range []struct{ table, statement string }{
		{"refresh_tokens", expireRefreshSQL},
		{"one_time_passwords", expireCodesSQL},
		{"sessions", expireSessionsSQL},
	} {
		if err := s.exec(ctx, step.table, step.statement, nil); err != nil {
			return fmt.Errorf("clean up tokens: %w", err)
		}
	}
	s.finish()
	return nil
}

const cleanUpMomentsSQL = `
UPDATE community.moments SET deleted_at = @now WHERE id = ANY (ARRAY(
    SELECT id FROM community.moments WHERE expires_at <= @now AND NOT journaled AND deleted_at IS NULL
    ORDER BY expires_at LIMIT @rows FOR UPDATE SKIP LOCKED))`

// cleanUpMoments runs MOMENT_CLEANUP.
func cleanUpMoments(ctx context.Context, tx pgx.Tx, t *handlers.Task[contract.MomentCleanup]) error {
	s := newSweep(tx, t.Execution)
	if err := s.exec(ctx, "moments", cleanUpMomentsSQL, nil); err != nil {
		return fmt.Errorf("clean up moments: %w", err)
	}
	s.finish()
	return nil
}

// MomentRetention is how long a hidden moment is kept, journaled or not. Its author or MOMENT_CLEANUP has hidden it.
const MomentRetention = 7 * 24 * time.Hour

const purgeMomentsSQL = `
DELETE FROM community.moments WHERE id = ANY (ARRAY(
    SELECT id FROM community.moments WHERE deleted_at <= @before ORDER BY deleted_at LIMIT @rows
        FOR UPDATE SKIP LOCKED))`

// purgeMoments runs MOMENT_PURGE.
func purgeMoments(ctx context.Context, tx pgx.Tx, t *handlers.Task[contract.MomentPurge]) error {
	s := newSweep(tx, t.Execution)
	before := t.StartedAt.Add(-MomentRetention)
	if err := s.exec(ctx, "moments", purgeMomentsSQL, pgx.NamedArgs{"before": before}); err != nil {
		return fmt.Errorf("purge moments: %w", err)
	}
	s.finish()
	return nil
}

const expireMessagesSQL = `
DELETE FROM community.direct_messages WHERE effect_key = ANY (ARRAY(
    SELECT effect_key FROM community.direct_messages WHERE expires_at <= @now ORDER BY expires_at LIMIT @rows
        FOR UPDATE SKIP LOCKED))`

// expireMessages runs MESSAGE_EXPIRY.
func expireMessages(ctx context.Context, tx pgx.Tx, t *handlers.Task[contract.MessageExpiry]) error {
	s := newSweep(tx, t.Execution)
	if err := s.exec(ctx, "direct_messages", expireMessagesSQL, nil); err != nil {
		return fmt.Errorf("expire messages: %w", err)
	}
	s.finish()
	return nil
}
