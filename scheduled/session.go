package scheduled

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"os"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// ErrPooler is returned by Run when the session connection goes through a pooler that shares server connections: advisory
// locks would then belong to nobody. Give a direct one by Config.Connect (TASKTABLE_SESSION_DATABASE_URL for the command).
var ErrPooler = errors.New("the session connection goes through a pooler in transaction mode; it needs a direct connection to Postgres")

const (
	// A session is over when no ping has been answered for so long, counted from when the ping was sent.
	sessionTimeout = 3 * time.Second
	// So long after the last sign of life of a node its tasks are taken back. It is longer than sessionTimeout and a tick: by
	// then the node has stopped its handlers by itself.
	deadAfter = 5 * time.Second
	tickEvery = time.Second
)

// The server ends a session whose process is stopped or gone: idle ones after 3 s, those in a transaction after 2 s, which
// the first does not cover. Joins in the engine's statements go by primary key whatever the statistics say.
const sessionSettingsSQL = `
SET idle_session_timeout = '3s';
SET idle_in_transaction_session_timeout = '2s';
SET statement_timeout = '2s';
SET lock_timeout = '200ms';
SET tcp_user_timeout = '3s';
SET client_min_messages = 'warning';
` + isolationSQL

// The engine's statements look at rows that others change meanwhile. Under a database's own default of repeatable read they would fail,
// or see a snapshot that is old.
const isolationSQL = `SET default_transaction_isolation = 'read committed'; `

// The server notices within seconds that the machine at the other end is gone, and frees what it had locked.
const keepaliveSQL = `SET tcp_keepalives_idle = 1; SET tcp_keepalives_interval = 1; SET tcp_keepalives_count = 3;`

// The engine's statements go by indexes, also under stale statistics. These settings do not decide how Postgres 18 answers
// an EXISTS: it may read the whole table into a hash. OFFSET 0 in the subquery of a hot statement rules that out.
const planSettingsSQL = `SET enable_seqscan = off; SET enable_hashjoin = off; SET enable_mergejoin = off; SET jit = off`

// session is a node's own connection: its lock says that the node lives, and the leader's lock that it leads. What the leader
// commits, it commits here, so a session that lost its locks can commit nothing.
type session struct {
	conn       *pgx.Conn
	schema     string
	number     int64
	backend    uint32
	clock      *clock
	leads      bool         // for the goroutine that owns the connection
	leading    atomic.Bool  // the same, for others
	refusedAt  time.Time    // when the leader's lock was last asked for in vain, another's then
	answeredAt atomic.Int64 // when the last answered question was sent; monotonic nanoseconds since start
	start      time.Time
	quiet      bool // the node's row says that it works nothing; for the goroutine that owns the connection
}

// lockClass keeps the locks of two schemas in one database apart; the second key of a node's lock is its number, of the
// leader's 0.
func lockClass(schema, kind string) int32 {
	hash := fnv.New32a()
	_, _ = hash.Write([]byte("tasktable " + kind + " " + schema))
	return int32(hash.Sum32())
}

// openSession connects, and ends the backend that this process had before: it may still hold locks.
func openSession(ctx context.Context, config Config, clock *clock, previous uint32) (*session, error) {
	conn, err := config.Connect(ctx)
	if err != nil {
		return nil, fmt.Errorf("connect session: %w", err)
	}
	s := &session{conn: conn, schema: config.Schema, clock: clock, start: time.Now()}
	if err := s.prepare(ctx, previous); err != nil {
		closeConn(ctx, conn)
		return nil, err
	}
	return s, nil
}

// By name, too: after a restart of the server somebody else's session may have the same pid.
const terminateSQL = `SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid = $1 AND application_name = $2`

const nameSQL = `SELECT set_config('application_name', $1, false)`

// sessionName is the application_name of this process's sessions.
var sessionName = "tasktable session " + strconv.FormatUint(rand.Uint64(), 36)

// CheckDirect returns ErrPooler for a connection that goes through a pooler, as Run does for its session: the process number in
// the server's greeting is then the pooler's own, not that of the process which answers.
func CheckDirect(ctx context.Context, conn *pgx.Conn) error {
	var backend uint32
	if err := conn.QueryRow(ctx, "SELECT pg_backend_pid()").Scan(&backend); err != nil {
		return fmt.Errorf("ask for the server's process: %w", err)
	}
	if backend != conn.PgConn().PID() {
		return ErrPooler
	}
	return nil
}

func (s *session) prepare(ctx context.Context, previous uint32) error {
	if err := CheckDirect(ctx, s.conn); err != nil {
		return fmt.Errorf("prepare session: %w", err)
	}
	s.backend = s.conn.PgConn().PID()
	if _, err := s.conn.Exec(ctx, sessionSettingsSQL); err != nil {
		return fmt.Errorf("prepare session: %w", err)
	}
	if _, err := s.conn.Exec(ctx, keepaliveSQL+planSettingsSQL); err != nil {
		return fmt.Errorf("prepare session: %w", err)
	}
	if _, err := s.conn.Exec(ctx, nameSQL, sessionName); err != nil {
		return fmt.Errorf("prepare session: %w", err)
	}
	if previous != 0 {
		_, _ = s.conn.Exec(ctx, terminateSQL, previous, sessionName) // if it may not, the server ends it within seconds
	}
	return nil
}

// In one statement: nobody sees the row of a living node without its lock.
const registerSQL = `
WITH node AS (
    INSERT INTO tasktable.nodes (service, version, host, queues, types, shares_slots, declaration_hash, receives_failures, transactional, places)
    VALUES ($1, $2, $3, $4::text::jsonb, $5, $6, nullif($7::text, ''), $8, $9, $10) RETURNING number)
SELECT number, pg_try_advisory_lock($11, number::int) FROM node`

// register gives the node its number and takes the lock on it.
func (s *session) register(ctx context.Context, config Config, st statements, quiet bool) error {
	queues, types, err := working(config, quiet)
	if err != nil {
		return err
	}
	s.quiet = quiet
	host, _ := os.Hostname() // a node without a name is still a node
	var locked bool
	err = s.conn.QueryRow(ctx, st.schema.SQL(registerSQL), config.Service, config.Version,
		fmt.Sprintf("%s/%d", host, os.Getpid()), queues, types, config.ShareSlots, declarationHash(config.Recurring), config.OnDead != nil || config.OnLost != nil,
		config.transactional(), config.places(), lockClass(s.schema, "node")).Scan(&s.number, &locked)
	if err != nil {
		return fmt.Errorf("register node: %w", err)
	}
	if !locked {
		return fmt.Errorf("lock node %d: somebody else has it", s.number)
	}
	s.answered(time.Now())
	return nil
}

// answered notes that a question sent then was answered.
func (s *session) answered(sent time.Time) { s.answeredAt.Store(int64(sent.Sub(s.start))) }

// heard notes that the server said something, be it an error, to what was sent then: a slow or failing statement is no dead
// session.
func (s *session) heard(sent time.Time, err error) {
	var said *pgconn.PgError
	if err == nil || errors.As(err, &said) {
		s.answered(sent)
	}
}

// alive says whether the node may still take itself for alive: whether others could have declared it dead.
func (s *session) alive() bool {
	return s.unanswered() < sessionTimeout
}

// unanswered is how long ago the question was sent that was answered last.
func (s *session) unanswered() time.Duration {
	return time.Since(s.start) - time.Duration(s.answeredAt.Load())
}

const followSQL = `SELECT clock_timestamp(), pg_try_advisory_lock($1, 0), current_setting('transaction_read_only') = 'on'`

// follow is a tick of a node that does not lead: one statement, ping and try for the leader's lock. It only tries: a lock
// waited for would keep a snapshot open and stop vacuum.
func (s *session) follow(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, sessionTimeout)
	defer cancel()
	sent := time.Now()
	var now time.Time
	var readOnly bool
	if err := s.conn.QueryRow(ctx, followSQL, lockClass(s.schema, "leader")).Scan(&now, &s.leads, &readOnly); err != nil {
		return fmt.Errorf("ping: %w", err)
	}
	if readOnly {
		return s.demoted(ctx)
	}
	s.leading.Store(s.leads)
	if !s.leads {
		s.refusedAt = sent
	}
	s.learn(now, sent)
	return nil
}

func (s *session) learn(now, sent time.Time) {
	s.clock.learn(now, sent, time.Now())
	s.answered(sent)
}

const pingSQL = `SELECT clock_timestamp(), current_setting('transaction_read_only') = 'on'`

// ping keeps the session alive while the node does not lead, and must not: while it stops, is quiet, or lets another lead.
func (s *session) ping(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, sessionTimeout)
	defer cancel()
	sent := time.Now()
	var now time.Time
	var readOnly bool
	if err := s.conn.QueryRow(ctx, pingSQL).Scan(&now, &readOnly); err != nil {
		return fmt.Errorf("ping: %w", err)
	}
	if readOnly {
		return s.demoted(ctx)
	}
	s.learn(now, sent)
	return nil
}

// resign lets another node lead at once. If the server does not do it, the node leads on, so that somebody does.
func (s *session) resign(ctx context.Context) error {
	if !s.leads {
		return nil
	}
	if _, err := s.conn.Exec(ctx, "SELECT pg_advisory_unlock($1, 0)", lockClass(s.schema, "leader")); err != nil {
		return fmt.Errorf("resign: %w", err)
	}
	s.leads = false
	s.leading.Store(false)
	return nil
}

const farewellSQL = `UPDATE tasktable.nodes SET dead_at = clock_timestamp() WHERE number = $1`

// closeWithin bounds the good-bye to a server that may not be there any more.
const closeWithin = time.Second

// close ends the session, and with it its locks.
func (s *session) close(ctx context.Context) { closeConn(ctx, s.conn) }

// closeConn closes a connection also when ctx is done, and does not wait long for the other side.
func closeConn(ctx context.Context, conn *pgx.Conn) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeWithin)
	defer cancel()
	_ = conn.Close(ctx)
}
