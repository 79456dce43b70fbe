// Package session has a node's own connection, the database's clock, the listener, and the engine's pool.
package session

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tasktable/tasktable/scheduled/internal/pg"
	"github.com/tasktable/tasktable/store"
)

// ErrPooler means that the session connection goes through a pooler that shares server connections. Advisory locks
// would then belong to nobody. Open and CheckDirect return it. Let Config.Connect give a direct connection. For the
// command, set TASKTABLE_SESSION_DATABASE_URL.
var ErrPooler = errors.New(
	"the session connection goes through a pooler in transaction mode; it needs a direct connection to Postgres",
)

const (
	// ConnectLimit bounds each try of the listener and of the engine's pool to connect.
	ConnectLimit = 10 * time.Second
	// Timeout is how long a session may be without an answered ping. The time counts from when the last answered
	// ping was sent.
	Timeout = 3 * time.Second
)

// heartbeatSQL makes Postgres end a session whose process is stopped or gone. With it end its locks.
const heartbeatSQL = `SET idle_session_timeout = '3s'; `

// settingsSQL is for the session and for the leader's connection. If the process is stopped in a transaction, Postgres
// ends the connection after 2 s, and with it the locks of rows.
const settingsSQL = `
SET idle_in_transaction_session_timeout = '2s';
SET statement_timeout = '2s';
SET lock_timeout = '200ms';
SET tcp_user_timeout = '3s';
SET client_min_messages = 'warning';
` + isolationSQL + keepaliveSQL + pg.PlanSettingsSQL

// isolationSQL is needed because the engine's statements read rows that others change meanwhile. Under a default of
// repeatable read, the statements would fail, or see an old snapshot.
const isolationSQL = `SET default_transaction_isolation = 'read committed'; `

// keepaliveSQL makes Postgres notice within seconds that the client's machine is gone. Then Postgres frees the locks
// of that client.
const keepaliveSQL = `SET tcp_keepalives_idle = 1; SET tcp_keepalives_interval = 1; SET tcp_keepalives_count = 3;`

// Session is a node's own connection. Its lock on the node's number says that the node lives, and the leader's lock
// says that the node leads. It has nothing else to do, so no slow statement keeps it from an answer. The leader works
// on another connection, see ConnectLeader. Its methods are safe for concurrent use.
type Session struct {
	Conn       *pgx.Conn
	Schema     string
	Number     int64
	Backend    uint32
	Clock      *Clock // the loop of the node sets it
	Leading    atomic.Bool
	RefusedAt  time.Time    // when this node last asked for the leader's lock while another node had it; for the loop
	answeredAt atomic.Int64 // when the last answered question was sent, in monotonic nanoseconds since Start
	Start      time.Time
	Quiet      bool // the node's row says that it works no queue; for the loop

	connect func(ctx context.Context) (*pgx.Conn, error)
	mu      sync.Mutex // for Conn, which is not safe for concurrent use
}

// Config says how to connect, and as which node.
type Config struct {
	Connect  func(ctx context.Context) (*pgx.Conn, error)
	Schema   store.Schema
	Node     Registration
	Previous uint32 // the backend of this process's previous session, or 0
}

// Registration is what the node's row says of it.
type Registration struct {
	Service          string
	Version          string
	Queues           string // as JSON: the slots of each queue; without queues the node is quiet
	Types            []string
	Quiet            bool
	ShareSlots       bool
	TypeSlots        string // as JSON: how many handlers of a type run at once, of the types that have a limit
	DeclarationHash  string // of the recurring tasks that the code declares; "": none
	ReceivesFailures bool
	Transactional    []string // those of its types whose handlers run in a transaction
	Places           int      // how many transactional handlers it runs at once
}

// Open connects, and registers the node. It also ends the backend of this process's previous session, because
// that backend may still hold locks.
func Open(ctx context.Context, config Config) (*Session, error) {
	conn, err := config.Connect(ctx)
	if err != nil {
		return nil, fmt.Errorf("connect session: %w", err)
	}
	s := &Session{
		Conn: conn, Schema: config.Schema.String(), Clock: NewClock(), Quiet: config.Node.Quiet, Start: time.Now(),
		connect: config.Connect,
	}
	err = s.prepare(ctx, config.Previous)
	if err == nil {
		err = s.register(ctx, config.Schema, config.Node)
	}
	if err == nil {
		err = s.Ping(ctx) // gets the database's clock before anything is timed by it
	}
	if err != nil {
		Close(ctx, conn)
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

// CheckDirect returns ErrPooler if the connection goes through a pooler. Open makes the same check for its session.
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

func (s *Session) prepare(ctx context.Context, previous uint32) error {
	if err := CheckDirect(ctx, s.Conn); err != nil {
		return fmt.Errorf("prepare session: %w", err)
	}
	s.Backend = s.Conn.PgConn().PID()
	if err := set(ctx, s.Conn, heartbeatSQL+settingsSQL, sessionName); err != nil {
		return fmt.Errorf("prepare session: %w", err)
	}
	if previous != 0 {
		// If this session may not end the other, Postgres ends it within seconds.
		_, _ = s.Conn.Exec(ctx, terminateSQL, previous, sessionName)
	}
	return nil
}

// set gives a connection its settings and its name, and refuses a connection to a standby.
func set(ctx context.Context, conn *pgx.Conn, settings, name string) error {
	if _, err := conn.Exec(ctx, settings); err != nil {
		return err
	}
	if _, err := conn.Exec(ctx, nameSQL, name); err != nil {
		return err
	}
	return RefuseReadOnly(ctx, conn)
}

// ConnectLeader opens the connection on which the leader works. The caller closes it.
func (s *Session) ConnectLeader(ctx context.Context) (*pgx.Conn, error) {
	conn, err := s.connect(ctx)
	if err != nil {
		return nil, fmt.Errorf("connect leader: %w", err)
	}
	if err := set(ctx, conn, settingsSQL, fmt.Sprintf("tasktable leader of node %d", s.Number)); err != nil {
		Close(ctx, conn)
		return nil, fmt.Errorf("prepare the leader's connection: %w", err)
	}
	return conn, nil
}

// registerSQL inserts the row and takes the lock in one statement, so that nobody sees a living node's row without
// its lock.
const registerSQL = `
WITH node AS (
    INSERT INTO tasktable.nodes (service, version, host, queues, types, shares_slots, declaration_hash,
        receives_failures, transactional, places, type_slots)
    VALUES ($1, $2, $3, $4::text::jsonb, $5, $6, nullif($7::text, ''), $8, $9, $10, $11::text::jsonb)
    RETURNING number)
SELECT number, pg_try_advisory_lock($12, number::int) FROM node`

// register inserts the node's row, which gives the node its number, and takes the lock on that number.
func (s *Session) register(ctx context.Context, schema store.Schema, node Registration) error {
	host, _ := os.Hostname() // a node can work without a host name
	var locked bool
	err := s.Conn.QueryRow(ctx, schema.SQL(registerSQL), node.Service, node.Version,
		fmt.Sprintf("%s/%d", host, os.Getpid()), node.Queues, node.Types, node.ShareSlots, node.DeclarationHash,
		node.ReceivesFailures, node.Transactional, node.Places, node.TypeSlots,
		pg.LockClass(s.Schema, "node")).Scan(&s.Number, &locked)
	if err != nil {
		return fmt.Errorf("register node: %w", err)
	}
	if !locked {
		return fmt.Errorf("lock node %d: another session has the lock", s.Number)
	}
	s.answered(time.Now())
	return nil
}

// CloseLimit limits how long closing a connection may take, because the server may be gone.
const CloseLimit = time.Second

// Close ends the session, and with it its locks.
func (s *Session) Close(ctx context.Context) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.Leading.Store(false)
	Close(ctx, s.Conn)
}

// Closed reports whether the session has ended.
func (s *Session) Closed() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.Conn.IsClosed()
}

// Close closes a connection even if ctx is done. It does not wait long for the server.
func Close(ctx context.Context, conn *pgx.Conn) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), CloseLimit)
	defer cancel()
	_ = conn.Close(ctx)
}
