package scheduled

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/tasktable/tasktable/scheduled/internal/taskdb"
)

// ErrPooler means that the session connection goes through a pooler that shares server connections. Advisory locks
// would then belong to nobody. Run and CheckDirect return it. Let Config.Connect give a direct connection. For the
// command, set TASKTABLE_SESSION_DATABASE_URL.
var ErrPooler = errors.New(
	"the session connection goes through a pooler in transaction mode; it needs a direct connection to Postgres",
)

const (
	// sessionTimeout is how long a session may be without an answered ping. The time counts from when the last answered
	// ping was sent.
	sessionTimeout = 3 * time.Second
	// deadAfter is how long a node must be silent before the leader takes its tasks back. It is longer than
	// sessionTimeout and a tick, because a node that has lost its session stops its handlers by itself within that
	// time.
	deadAfter = 5 * time.Second
	tickEvery = time.Second
)

// sessionSettingsSQL makes Postgres end a session whose process is stopped or gone. Postgres ends an idle session
// after 3 s, and a session in a transaction after 2 s. Both settings are needed, because the first does not cover
// transactions.
const sessionSettingsSQL = `
SET idle_session_timeout = '3s';
SET idle_in_transaction_session_timeout = '2s';
SET statement_timeout = '2s';
SET lock_timeout = '200ms';
SET tcp_user_timeout = '3s';
SET client_min_messages = 'warning';
` + isolationSQL

// isolationSQL is needed because the engine's statements read rows that others change meanwhile. Under a default of
// repeatable read, the statements would fail, or see an old snapshot.
const isolationSQL = `SET default_transaction_isolation = 'read committed'; `

// keepaliveSQL makes Postgres notice within seconds that the client's machine is gone. Then Postgres frees the locks
// of that client.
const keepaliveSQL = `SET tcp_keepalives_idle = 1; SET tcp_keepalives_interval = 1; SET tcp_keepalives_count = 3;`

// session is a node's own connection. Its lock on the node's number says that the node lives, and the leader's lock
// says that the node leads. The leader commits everything on this connection, so a session that has lost its locks
// can commit nothing.
type session struct {
	conn       *pgx.Conn
	schema     string
	number     int64
	backend    uint32
	clock      *clock
	leads      bool         // for the goroutine that owns the connection
	leading    atomic.Bool  // the same, for other goroutines
	refusedAt  time.Time    // when this node last asked for the leader's lock while another node had it
	answeredAt atomic.Int64 // when the last answered question was sent, in monotonic nanoseconds since start
	start      time.Time
	quiet      bool // the node's row says that it works no queue; for the goroutine that owns the connection
}

// openSession connects. It also ends the backend of this process's previous session, because that backend may still
// hold locks.
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

// terminateSQL checks the name too, because after a restart of the server somebody else's session may have the same
// pid.
const terminateSQL = `SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid = $1 AND application_name = $2`

const nameSQL = `SELECT set_config('application_name', $1, false)`

// sessionName is the application_name of the sessions of this process.
var sessionName = "tasktable session " + strconv.FormatUint(rand.Uint64(), 36)

// CheckDirect returns ErrPooler if the connection goes through a pooler. Run makes the same check for its session.
// Behind a pooler, the process number in the server's greeting is the pooler's own, and not that of the process that
// answers.
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
	if _, err := s.conn.Exec(ctx, keepaliveSQL+taskdb.PlanSettingsSQL); err != nil {
		return fmt.Errorf("prepare session: %w", err)
	}
	if _, err := s.conn.Exec(ctx, nameSQL, sessionName); err != nil {
		return fmt.Errorf("prepare session: %w", err)
	}
	if previous != 0 {
		// If this session may not end the other, Postgres ends it within seconds.
		_, _ = s.conn.Exec(ctx, terminateSQL, previous, sessionName)
	}
	return nil
}

// registerSQL inserts the row and takes the lock in one statement, so that nobody sees a living node's row without
// its lock.
const registerSQL = `
WITH node AS (
    INSERT INTO tasktable.nodes (service, version, host, queues, types, shares_slots, declaration_hash,
        receives_failures, transactional, places)
    VALUES ($1, $2, $3, $4::text::jsonb, $5, $6, nullif($7::text, ''), $8, $9, $10) RETURNING number)
SELECT number, pg_try_advisory_lock($11, number::int) FROM node`

// register inserts the node's row, which gives the node its number, and takes the lock on that number.
func (s *session) register(ctx context.Context, config Config, st taskdb.Queries, quiet bool) error {
	queues, types, err := working(config, quiet)
	if err != nil {
		return err
	}
	s.quiet = quiet
	host, _ := os.Hostname() // a node can work without a host name
	var locked bool
	err = s.conn.QueryRow(ctx, st.Schema.SQL(registerSQL), config.Service, config.Version,
		fmt.Sprintf("%s/%d", host, os.Getpid()), queues, types, config.ShareSlots, declarationHash(config.Recurring),
		config.OnDead != nil || config.OnLost != nil, config.transactional(), config.places(),
		taskdb.LockClass(s.schema, "node")).Scan(&s.number, &locked)
	if err != nil {
		return fmt.Errorf("register node: %w", err)
	}
	if !locked {
		return fmt.Errorf("lock node %d: another session has the lock", s.number)
	}
	s.answered(time.Now())
	return nil
}

// answered notes that Postgres has answered a question that was sent at this time.
func (s *session) answered(sent time.Time) { s.answeredAt.Store(int64(sent.Sub(s.start))) }

// heard notes that Postgres has answered a statement that was sent at this time. An error of Postgres is an answer
// too, because a slow or failing statement does not mean a dead session.
func (s *session) heard(sent time.Time, err error) {
	var said *pgconn.PgError
	if err == nil || errors.As(err, &said) {
		s.answered(sent)
	}
}

// alive reports whether the node may still work. If it returns false, others could have declared the node dead.
func (s *session) alive() bool {
	return s.unanswered() < sessionTimeout
}

// unanswered is how long ago the last answered question was sent.
func (s *session) unanswered() time.Duration {
	return time.Since(s.start) - time.Duration(s.answeredAt.Load())
}

const followSQL = `SELECT clock_timestamp(), pg_try_advisory_lock($1, 0),
	current_setting('transaction_read_only') = 'on'`

// follow is the tick of a node that does not lead. Its one statement is a ping and a try for the leader's lock. It
// does not wait for the lock, because a statement that waits keeps a snapshot open, and that stops vacuum.
func (s *session) follow(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, sessionTimeout)
	defer cancel()
	sent := time.Now()
	var now time.Time
	var readOnly bool
	row := s.conn.QueryRow(ctx, followSQL, taskdb.LockClass(s.schema, "leader"))
	if err := row.Scan(&now, &s.leads, &readOnly); err != nil {
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

// ping keeps the session alive while the node does not lead and must not begin to: while it stops, is quiet, or lets
// another node lead.
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

// resign lets another node lead at once. If Postgres does not free the lock, this node goes on as the leader, so that
// there is one.
func (s *session) resign(ctx context.Context) error {
	if !s.leads {
		return nil
	}
	if _, err := s.conn.Exec(
		ctx, "SELECT pg_advisory_unlock($1, 0)", taskdb.LockClass(s.schema, "leader"),
	); err != nil {
		return fmt.Errorf("resign: %w", err)
	}
	s.leads = false
	s.leading.Store(false)
	return nil
}

const farewellSQL = `UPDATE tasktable.nodes SET dead_at = clock_timestamp() WHERE number = $1`

// closeWithin limits how long closing a connection may take, because the server may be gone.
const closeWithin = time.Second

// close ends the session, and with it its locks.
func (s *session) close(ctx context.Context) { closeConn(ctx, s.conn) }

// closeConn closes a connection even if ctx is done. It does not wait long for the server.
func closeConn(ctx context.Context, conn *pgx.Conn) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeWithin)
	defer cancel()
	_ = conn.Close(ctx)
}

// demoted ends a session whose server has become read-only.
func (s *session) demoted(ctx context.Context) error {
	s.leads = false
	s.leading.Store(false)
	closeConn(ctx, s.conn)
	return taskdb.ErrReadOnly
}
