package community

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tasktable/tasktable/handlers"
	"github.com/tasktable/tasktable/handlers/community/contract"
)

// cleanUpTokens runs TOKEN_CLEANUP. A row is expired at the instant expires_at, not only after it, as everywhere in
// this package.
func cleanUpTokens(ctx context.Context, tx pgx.Tx, t *handlers.Task[contract.TokenCleanup]) error {
	s := newSweep(tx, t.Execution)
	for _, table := range []string{"refresh_tokens", "one_time_passwords", "sessions"} {
		if err := s.delete(ctx, table, "expires_at <= @now", nil); err != nil {
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

// purgeMoments runs MOMENT_PURGE.
func purgeMoments(ctx context.Context, tx pgx.Tx, t *handlers.Task[contract.MomentPurge]) error {
	s := newSweep(tx, t.Execution)
	before := t.StartedAt.Add(-MomentRetention)
	if err := s.delete(ctx, "moments", "deleted_at <= @before", pgx.NamedArgs{"before": before}); err != nil {
		return fmt.Errorf("purge moments: %w", err)
	}
	s.finish()
	return nil
}

// expireMessages runs MESSAGE_EXPIRY.
func expireMessages(ctx context.Context, tx pgx.Tx, t *handlers.Task[contract.MessageExpiry]) error {
	s := newSweep(tx, t.Execution)
	if err := s.delete(ctx, "direct_messages", "expires_at <= @now", nil); err != nil {
		return fmt.Errorf("expire messages: %w", err)
	}
	s.finish()
	return nil
}
