// Package doctor examines a deployment, and says what to do about each thing it finds: is the database fit, are its tables whole,
// does a node lead, is anything late, stuck or dead?
//
// It only reads, in transactions of a few seconds at most, and sees what the role it connects as may see. A check that fails is a
// finding, and the others go on.
package doctor

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tasktable/tasktable/scheduled"
	"github.com/tasktable/tasktable/store"
	"github.com/tasktable/tasktable/store/inspect"
)

// Config says what to examine. Pool is required.
type Config struct {
	// Pool is where nodes and applications connect. It is only asked for its settings: the examination has a connection of its own.
	Pool *pgxpool.Pool
	// Connect opens a connection as that of a node's session, as scheduled.Config.Connect. Nil: with the Pool's settings.
	Connect func(ctx context.Context) (*pgx.Conn, error)
	// Schema is the Postgres schema of the tables. "": tasktable.
	Schema string
	// EngineConns is that of scheduled.Config: with it the doctor says whether there is room for one more node, which takes these, two
	// more, and as many as the Pool has at most. 0: 6.
	EngineConns int
	// Retention is how long the nodes keep dead letters, to say when the oldest goes; -1: for ever. 0: 90 days, the default of nodes.
	Retention time.Duration
	// Only are the names of the checks to make, and Skip of those to leave out; see Checks. Nil: all, and none.
	Only, Skip []string

	limits limits // for tests
}

// limits are from where on something is worth a word.
type limits struct {
	check         time.Duration // for a whole check, whatever the server and the network do
	roundTrip     time.Duration // between here and the database
	offset        time.Duration // of its clock
	idle          time.Duration // a session in a transaction that does nothing
	transaction   time.Duration // one that does something, or is prepared
	horizon       int64         // transactions that a snapshot keeps from being vacuumed
	dead          int64         // dead rows of a table
	bloat         int64         // bytes of a table or an index
	late          time.Duration // tasks that are due
	paused        time.Duration // what is paused until somebody resumes it
	lapsed        time.Duration // leases
	shortLife     time.Duration // of a node
	shortLives    int           // of a service's nodes within an hour
	river         time.Duration // jobs in River's hands
	conflict      time.Duration // two versions of a service side by side
	noLeader      time.Duration // until a missing leader is believed
	notifications float64       // the share of the queue of notifications that is in use
}

var defaultLimits = limits{
	check:     15 * time.Second,
	roundTrip: 50 * time.Millisecond, offset: time.Second, idle: time.Minute, transaction: 5 * time.Minute, horizon: 1_000_000,
	dead: 10_000, bloat: 64 << 20, late: time.Minute, paused: time.Hour, lapsed: 15 * time.Second,
	shortLife: 2 * time.Minute, shortLives: 5, river: 10 * time.Minute, conflict: time.Hour, noLeader: 3 * time.Second,
	notifications: 0.25,
}

// nodeConns is how many connections a node takes: its session and its listener, the engine's pool and the handlers'.
func (c Config) nodeConns() int { return 2 + c.EngineConns + int(c.Pool.Config().MaxConns) }

func (c Config) withDefaults() Config {
	if c.Schema == "" {
		c.Schema = store.DefaultSchema
	}
	if c.EngineConns == 0 {
		c.EngineConns = scheduled.DefaultEngineConns
	}
	if c.Retention == 0 {
		c.Retention = scheduled.DefaultRetention
	}
	if c.limits == (limits{}) {
		c.limits = defaultLimits
	}
	if c.Connect == nil && c.Pool != nil {
		settings := c.Pool.Config()
		c.Connect = func(ctx context.Context) (*pgx.Conn, error) {
			config := settings.ConnConfig.Copy()
			if settings.BeforeConnect != nil { // where passwords of a short life come from
				if err := settings.BeforeConnect(ctx, config); err != nil {
					return nil, err
				}
			}
			return pgx.ConnectConfig(ctx, config)
		}
	}
	return c
}

// validate names every field that is wrong, not just the first.
func (c Config) validate() error {
	var errs []error
	if c.Pool == nil {
		errs = append(errs, errors.New("Pool is required"))
	}
	if _, err := store.NewSchema(c.Schema); err != nil {
		errs = append(errs, fmt.Errorf("Schema: %w", err))
	}
	if c.EngineConns < 3 || c.EngineConns > 100 {
		errs = append(errs, fmt.Errorf("EngineConns must be between 3 and 100, got %d", c.EngineConns))
	}
	if c.Retention < 0 && c.Retention != -1 {
		errs = append(errs, fmt.Errorf("Retention must be over 0, or -1, got %s", c.Retention))
	}
	for _, name := range slices.Concat(c.Only, c.Skip) {
		if !slices.Contains(Checks(), name) {
			errs = append(errs, fmt.Errorf("Only and Skip must be of %s, got %q", strings.Join(Checks(), ", "), name))
		}
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("doctor.Config: %w: %w", store.ErrInvalid, err)
	}
	return nil
}

// statementLimit is what the server allows each statement.
const statementLimit = 5 * time.Second

// Examine makes the checks, one after the other. It returns an error only for a malformed configuration, or when ctx ends: that the
// database cannot be reached is a finding.
func Examine(ctx context.Context, config Config) (Report, error) {
	config = config.withDefaults()
	if err := config.validate(); err != nil {
		return Report{}, err
	}
	schema, err := store.NewSchema(config.Schema)
	if err != nil {
		return Report{}, err
	}
	pool, err := ownPool(ctx, config.Pool)
	if err != nil {
		return Report{}, err
	}
	defer pool.Close()
	server := config.Pool.Config().ConnConfig
	e := &examination{config: config, schema: schema, tasks: store.New(store.Config{Schema: schema.String()}),
		inspector: inspect.New(store.Config{Schema: schema.String()}), pool: pool,
		explained: map[[2]string]bool{}}
	e.report = Report{
		Database: fmt.Sprintf("%s:%d/%s", server.Host, server.Port, server.Database), Schema: schema.String(), Role: server.User,
		At: time.Now(), Reached: true, Findings: []Finding{},
	}
	for _, check := range checks {
		asked := (len(config.Only) == 0 || slices.Contains(config.Only, check.name)) && !slices.Contains(config.Skip, check.name)
		before := len(e.report.Findings)
		if asked || check.name == versionsCheck { // on which others build
			e.run(ctx, check)
		}
		if !asked && e.report.Reached && !e.unmigrated {
			e.report.Findings = e.report.Findings[:before]
		}
		if ctx.Err() != nil {
			return Report{}, fmt.Errorf("examine: %w", context.Cause(ctx))
		}
	}
	return e.report, nil
}

// ownPool is of one connection, which needs no prepared statements: they do not go through each pooler.
func ownPool(ctx context.Context, from *pgxpool.Pool) (*pgxpool.Pool, error) {
	settings := from.Config()
	settings.MaxConns, settings.MinConns, settings.MinIdleConns = 1, 0, 0
	settings.PrepareConn, settings.AfterRelease, settings.BeforeClose = nil, nil, nil // the service's bookkeeping of its own pool
	settings.ConnConfig.DefaultQueryExecMode = pgx.QueryExecModeExec
	settings.ConnConfig.OnNotification = nil
	settings.ConnConfig.RuntimeParams["application_name"] = "tasktable doctor"
	pool, err := pgxpool.NewWithConfig(ctx, settings)
	if err != nil {
		return nil, fmt.Errorf("make a pool: %w", err)
	}
	return pool, nil
}

// examination is one under way.
type examination struct {
	config    Config
	schema    store.Schema
	tasks     *store.Store
	inspector *inspect.Inspector
	pool      *pgxpool.Pool
	report    Report

	check        string             // the name of the one under way
	tx           pgx.Tx             // its transaction
	unreachable  bool               // the database did not let us in: no check needs to try again
	unmigrated   bool               // the tables are not there, or not for this role
	otherVersion bool               // the schema is not of this program's version
	work         *work              // once it was listed
	explained    map[[2]string]bool // queues and types of tasks that no live node takes, once told
}

// begin is what each transaction begins with. Local, since a pooler gives the connection to others afterwards.
const beginSQL = `BEGIN READ ONLY;
SET LOCAL statement_timeout = '5s';
SET LOCAL lock_timeout = '1s';
SET LOCAL idle_in_transaction_session_timeout = '20s';
SET LOCAL search_path = pg_catalog, pg_temp;
SET LOCAL client_min_messages = warning`

// run makes one check. What goes wrong in it becomes a finding.
func (e *examination) run(ctx context.Context, check check) {
	e.check = check.name
	if e.unreachable || check.tables && e.unmigrated {
		return // the finding that says why is there
	}
	ctx, cancel := context.WithTimeoutCause(ctx, e.config.limits.check, fmt.Errorf("no answer within %s", e.config.limits.check))
	defer cancel()
	conn, err := e.pool.Acquire(ctx)
	if err != nil { // also of a server that is lost midway: to wait for it once for each check would take too long
		e.unreachable, e.report.Reached = true, false
		e.unreached(fmt.Errorf("%s: %w", e.report.Database, because(ctx, err)))
		return
	}
	defer conn.Release()
	if err := e.inTransaction(ctx, conn, check); err != nil {
		e.failed(because(ctx, err))
	}
}

// because is why the time was over, if that is what went wrong.
func because(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}

func (e *examination) inTransaction(ctx context.Context, conn *pgxpool.Conn, check check) (err error) {
	e.tx, err = conn.BeginTx(ctx, pgx.TxOptions{BeginQuery: beginSQL})
	if err != nil {
		return fmt.Errorf("begin: %w", err)
	}
	defer func() { _ = e.tx.Rollback(ctx) }() // without an answer the connection is given up
	return check.run(e, ctx)
}

// failed is the finding of a check that could not be made.
func (e *examination) failed(err error) {
	var said *pgconn.PgError
	switch {
	case errors.As(err, &said) && said.Code == "42501":
		e.info("connect as the schema's owner, or as the engine's or the auditor's role (tasktable migrate roles)",
			"not checked, since role %s may not: %s", e.report.Role, said.Message)
	case errors.As(err, &said) && (said.Code == "42P01" || said.Code == "42703" || said.Code == "42883"):
		e.warn(e.command("migrate"), "not checked, since the schema is not of this program's version: %s", said.Message)
	case errors.As(err, &said) && (said.Code == "57014" || said.Code == "55P03"):
		e.warn("try again when the database has less to do, or when no migration runs", "not checked within %s: %s",
			statementLimit, said.Message)
	default:
		e.warn("try again", "not checked: %v", err)
	}
}

// rows asks for any number of rows.
func rows[T any](ctx context.Context, e *examination, statement string, args ...any) ([]T, error) {
	found, err := e.tx.Query(ctx, e.schema.SQL(statement), args...)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(found, pgx.RowToStructByName[T])
}

// row asks for the one row that there is.
func row[T any](ctx context.Context, e *examination, statement string, args ...any) (T, error) {
	found, err := e.tx.Query(ctx, e.schema.SQL(statement), args...)
	if err != nil {
		var none T
		return none, err
	}
	return pgx.CollectExactlyOneRow(found, pgx.RowToStructByName[T])
}
