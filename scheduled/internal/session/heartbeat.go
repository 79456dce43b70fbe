package session

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/tasktable/tasktable/scheduled/internal/pg"
)

// beatEvery is the pause between two beats.
const beatEvery = time.Second

// Beat keeps the session alive, and notes its answers. It returns the reason when ctx is done or the session is lost.
// A node that has had no answer for Timeout stops its handlers (see Alive). The other nodes go by its lock, which
// Postgres frees when the session ends.
func (s *Session) Beat(ctx context.Context) error {
	tick := time.NewTicker(beatEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-tick.C:
			if err := s.beat(ctx); err != nil {
				return fmt.Errorf("heartbeat: %w", err)
			}
		}
	}
}

// beat asks for an answer and nothing else, so Postgres begins no transaction.
func (s *Session) beat(ctx context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, Timeout)
	defer cancel()
	sent := time.Now()
	question := s.Conn.PgConn().StartPipeline(ctx)
	if err := errors.Join(question.Sync(), question.Close()); err != nil {
		return err
	}
	s.answeredAt.Store(&sent)
	return nil
}

// Leads reports whether the session has the leader's lock.
func (s *Session) Leads() bool { return s.leading.Load() }

// Alive reports whether the node may still work. After it has become false, other nodes may soon declare the node dead.
func (s *Session) Alive() bool { return s.Unanswered() < Timeout }

// Unanswered is how long ago the last answered question was sent.
func (s *Session) Unanswered() time.Duration { return time.Since(*s.answeredAt.Load()) }

const askSQL = `SELECT clock_timestamp(), current_setting('transaction_read_only') = 'on', ` + pg.HiddenSQL + `,
	CASE WHEN $2 THEN pg_try_advisory_lock($1, 0) ELSE false END`

// Ask learns the database's clock, whether the server has become read-only, and whether tasks have become hidden from
// the node's role. If tries is true, it tries for the leader's lock. It does not wait for the lock, because a statement
// that waits keeps a snapshot open, and that stops vacuum.
func (s *Session) Ask(ctx context.Context, tries bool) error {
	var now time.Time
	var readOnly, hidden, leads bool
	s.mu.Lock()
	ctx, cancel := context.WithTimeout(ctx, Timeout)
	defer cancel()
	sent := time.Now()
	err := s.Conn.QueryRow(ctx, s.config.Schema.SQL(askSQL), pg.LockClass(s.Schema, "leader"), tries).
		Scan(&now, &readOnly, &hidden, &leads)
	received := time.Now()
	s.mu.Unlock()
	switch {
	case err != nil:
		return fmt.Errorf("ping: %w", err)
	case readOnly:
		s.Close(ctx)
		return pg.ErrReadOnly
	case hidden:
		s.Close(ctx)
		return pg.ErrHidden
	case leads:
		s.leading.Store(true)
	case tries:
		s.RefusedAt = sent
	}
	s.Clock.Learn(now, sent, received)
	s.answeredAt.Store(&sent)
	return nil
}

// Resign lets another node lead at once. If Postgres does not free the lock, this node goes on as the leader, so that
// there is one.
func (s *Session) Resign(ctx context.Context) error {
	if !s.Leads() {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, Timeout)
	defer cancel()
	if _, err := s.Conn.Exec(
		ctx, "SELECT pg_advisory_unlock($1, 0)", pg.LockClass(s.Schema, "leader"),
	); err != nil {
		return fmt.Errorf("resign: %w", err)
	}
	s.leading.Store(false)
	return nil
}
