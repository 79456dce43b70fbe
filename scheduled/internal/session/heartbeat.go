package session

import (
	"context"
	"fmt"
	"time"

	"github.com/tasktable/tasktable/scheduled/internal/pg"
)

// The heartbeat of a node is the statement that it sends each second on its session: Ping, Follow, or on the leader the
// tick, which calls Learn. A node that has had no answer for Timeout stops its handlers (see Alive). The other nodes go
// by its lock, which Postgres frees when the session ends.

// answered notes that Postgres has answered a question that was sent at this time.
func (s *Session) answered(sent time.Time) { s.answeredAt.Store(int64(sent.Sub(s.Start))) }

// Heard notes that Postgres has answered a statement that was sent at this time. An error of Postgres is an answer,
// too.
func (s *Session) Heard(sent time.Time, err error) {
	if pg.SessionAnswered(err) {
		s.answered(sent)
	}
}

// LeadsNow reports whether the node leads. It is for all goroutines.
func (s *Session) LeadsNow() bool { return s.Leading.Load() }

// Alive reports whether the node may still work. After it has become false, other nodes may soon declare the node dead.
func (s *Session) Alive() bool {
	return s.Unanswered() < Timeout
}

// Unanswered is how long ago the last answered question was sent.
func (s *Session) Unanswered() time.Duration {
	return time.Since(s.Start) - time.Duration(s.answeredAt.Load())
}

const followSQL = `SELECT clock_timestamp(), pg_try_advisory_lock($1, 0),
	current_setting('transaction_read_only') = 'on'`

// Follow is the tick of a node that does not lead. Its one statement is a ping and a try for the leader's lock. It
// does not wait for the lock, because a statement that waits keeps a snapshot open, and that stops vacuum.
func (s *Session) Follow(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, Timeout)
	defer cancel()
	sent := time.Now()
	var now time.Time
	var readOnly bool
	row := s.Conn.QueryRow(ctx, followSQL, pg.LockClass(s.Schema, "leader"))
	if err := row.Scan(&now, &s.Leads, &readOnly); err != nil {
		return fmt.Errorf("ping: %w", err)
	}
	if readOnly {
		return s.Demoted(ctx)
	}
	s.Leading.Store(s.Leads)
	if !s.Leads {
		s.RefusedAt = sent
	}
	s.Learn(now, sent)
	return nil
}

// Learn takes an answer with the database's time. sent is when the question was sent.
func (s *Session) Learn(now, sent time.Time) {
	s.Clock.Learn(now, sent, time.Now())
	s.answered(sent)
}

const pingSQL = `SELECT clock_timestamp(), current_setting('transaction_read_only') = 'on'`

// Ping keeps the session alive while the node does not lead and must not begin to: while it stops, is quiet, or lets
// another node lead.
func (s *Session) Ping(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, Timeout)
	defer cancel()
	sent := time.Now()
	var now time.Time
	var readOnly bool
	if err := s.Conn.QueryRow(ctx, pingSQL).Scan(&now, &readOnly); err != nil {
		return fmt.Errorf("ping: %w", err)
	}
	if readOnly {
		return s.Demoted(ctx)
	}
	s.Learn(now, sent)
	return nil
}

// Resign lets another node lead at once. If Postgres does not free the lock, this node goes on as the leader, so that
// there is one.
func (s *Session) Resign(ctx context.Context) error {
	if !s.Leads {
		return nil
	}
	if _, err := s.Conn.Exec(
		ctx, "SELECT pg_advisory_unlock($1, 0)", pg.LockClass(s.Schema, "leader"),
	); err != nil {
		return fmt.Errorf("resign: %w", err)
	}
	s.Leads = false
	s.Leading.Store(false)
	return nil
}

// Demoted ends a session whose server has become read-only.
func (s *Session) Demoted(ctx context.Context) error {
	s.Leads = false
	s.Leading.Store(false)
	closeConn(ctx, s.Conn)
	return pg.ErrReadOnly
}
