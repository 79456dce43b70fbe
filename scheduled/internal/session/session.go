// Package session has a node's own connection, the database's clock, the listener, the engine's pool, and its share for
// housekeeping.
package session

import (
	"context"
	"errors"
	"fmt"
	"os"
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
const heartbeatSQL = `; SET idle_session_timeout = '3s'`

// stayIdleSQL keeps a limit of the role from ending connections that are idle for long, such as those that wait for
// notifications.
const stayIdleSQL = `SET idle_session_timeout = 0; `

// settingsSQL is for the session and for the leader's connection. If the process is stopped in a transaction, Postgres
// ends the connection after 2 s, and with it the locks of rows.
const settingsSQL = `
SET idle_in_transaction_session_timeout = '2s';
SET statement_timeout = '2s';
SET lock_timeout = '200ms';
SET tcp_user_timeout = '3s';
SET client_min_messages = 'warning';
` + engineSQL

// engineSQL is for each connection of the engine. Its statements read rows that others change meanwhile. Under a
// default of repeatable read, they would fail, or see an old snapshot. Keepalives make Postgres notice within seconds
// that the client's machine is gone, and free its locks.
const engineSQL = stayIdleSQL + `
SET default_transaction_isolation = 'read committed';
SET tcp_keepalives_idle = 1; SET tcp_keepalives_interval = 1; SET tcp_keepalives_count = 3;
` + pg.PlanSettingsSQL

// Session is a node's own connection. Its lock on the node's number says that the node lives, and the leader's lock
// says that the node leads. It has nothing else to do, so no slow statement keeps it from an answer. The leader works
// on another connection, see ConnectLeader. Its methods are safe for concurrent use.
type Session struct {
	Conn      *pgx.Conn
	Schema    string
	Number    int64
	Backend   uint32
	Clock     *Clock    // the loop of the node sets it
	RefusedAt time.Time // when this node last asked for the leader's lock while another node had it; for the loop
	Quiet     bool      // the node's row says that it works no queue; for the loop

	answeredAt atomic.Pointer[time.Time] // when the last answered question was sent
	leading    atomic.Bool
	config     Config
	mu         sync.Mutex // for Conn, which is not safe for concurrent use
}

// Config says how to connect, and as which node.
type Config struct {
	Connect func(ctx context.Context) (*pgx.Conn, error)
	Schema  store.Schema
	Node    Registration
}

// Registration is what the node's row says of it.
type Registration struct {
	Service          string
	Version          string
	Queues           string // as JSON: the slots of each queue
	Types            []string
	Quiet            bool // the row says that the node works no queue and no type, and may not lead
	MayLead          bool
	ShareSlots       bool
	StrictQueues     []string
	TypeSlots        string // as JSON: how many handlers of a type run at once, of the types that have a limit
	Defaults         string // as JSON: store.Defaults of all types
	DeclarationHash  string // of the recurring tasks that the code declares; "": none
	ReceivesFailures bool
	Transactional    []string // those of its types whose handlers run in a transaction
	Places           int      // how many transactional handlers it runs at once
}

// Open connects, and registers the node.
func Open(ctx context.Context, config Config) (*Session, error) {
	conn, err := config.Connect(ctx)
	if err != nil {
		return nil, fmt.Errorf("connect session: %w", err)
	}
	s := &Session{
		Conn: conn, Schema: config.Schema.String(), Backend: conn.PgConn().PID(), Clock: NewClock(),
		Quiet: config.Node.Quiet, config: config,
	}
	if err = CheckDirect(ctx, conn); err == nil {
		err = set(ctx, conn, settingsSQL+heartbeatSQL, "tasktable session")
	}
	if err == nil {
		err = s.refuseHidden(ctx) // before there is a row of a node that never begins
	}
	if err = pg.Annotate(err, "prepare session"); err == nil {
		err = s.register(ctx)
	}
	if err == nil {
		err = s.Ask(ctx, false) // gets the database's clock before anything is timed by it
	}
	if err != nil {
		Close(ctx, conn)
		return nil, err
	}
	return s, nil
}

// refuseHidden returns pg.ErrHidden if row level security hides tasks from the role. Ask goes on to look at that.
func (s *Session) refuseHidden(ctx context.Context) error {
	var hidden bool
	err := s.Conn.QueryRow(ctx, s.config.Schema.SQL("SELECT "+pg.HiddenSQL)).Scan(&hidden)
	if err == nil && hidden {
		err = pg.ErrHidden
	}
	return err
}

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

// set gives a connection its settings and its name, and refuses a connection to a standby.
func set(ctx context.Context, conn *pgx.Conn, settings, name string) error {
	if _, err := conn.Exec(ctx, settings+"; SET application_name = '"+name+"'"); err != nil {
		return err
	}
	return pg.RefuseReadOnly(conn.QueryRow(ctx, pg.ReadOnlySQL))
}

// ConnectLeader opens the connection on which the leader works. The caller closes it.
func (s *Session) ConnectLeader(ctx context.Context) (*pgx.Conn, error) {
	conn, err := s.config.Connect(ctx)
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
        receives_failures, transactional, places, type_slots, strict_queues, may_lead, defaults)
    VALUES ($1, $2, $3, $4::text::jsonb, $5, $6, nullif($7::text, ''), $8, $9, $10, $11::text::jsonb, $13, $14,
        nullif(nullif($15::text, '')::jsonb - '{type,changed_at,changed_by}'::text[], '{}'))
    RETURNING number)
SELECT number, pg_try_advisory_lock($12, number::int) FROM node`

// register inserts the node's row, which gives the node its number, and takes the lock on that number.
func (s *Session) register(ctx context.Context) error {
	node := s.config.Node
	queues, types, mayLead := s.Does(s.Quiet)
	host, _ := os.Hostname() // a node can work without a host name
	var locked bool
	err := s.Conn.QueryRow(ctx, s.config.Schema.SQL(registerSQL), node.Service, node.Version,
		fmt.Sprintf("%s/%d", host, os.Getpid()), queues, types, node.ShareSlots, node.DeclarationHash,
		node.ReceivesFailures, node.Transactional, node.Places, node.TypeSlots,
		pg.LockClass(s.Schema, "node"), pg.OrEmpty(node.StrictQueues), mayLead, node.Defaults).Scan(&s.Number, &locked)
	if err != nil {
		return fmt.Errorf("register node: %w", err)
	}
	if !locked {
		return fmt.Errorf("lock node %d: another session has the lock", s.Number)
	}
	return nil
}

// Does returns the columns of the node's row that say what it does. These are its queues as JSON, its types, and
// whether it may lead. A quiet node does nothing.
func (s *Session) Does(quiet bool) (queues string, types []string, mayLead bool) {
	if quiet {
		return "{}", []string{}, false
	}
	return s.config.Node.Queues, s.config.Node.Types, s.config.Node.MayLead
}

// CloseLimit limits how long closing a connection may take, because the server may be gone.
const CloseLimit = time.Second

// Close ends the session, and with it its locks.
func (s *Session) Close(ctx context.Context) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.leading.Store(false)
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
