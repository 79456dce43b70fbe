// Package doctor examines a deployment, and gives a remedy for each finding. It asks whether the database is fit,
// whether its tables are whole, whether a node leads, and what inspect.Attention finds, such as late tasks and dead
// letters.
//
// It only reads, in transactions of a few seconds at most. It sees the rows that its database role may see. If a
// check fails, this is a finding, and the other checks go on.
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

// Config says what to examine. Pool is required. Every other field has a default.
type Config struct {
	// Pool is the pool of the nodes and applications. Examine reads only its settings, and opens a connection of its
	// own.
	Pool *pgxpool.Pool
	// Connect opens a connection like that of a node's session, as scheduled.Config.Connect does. Default (nil): the
	// settings of the Pool.
	Connect func(ctx context.Context) (*pgx.Conn, error)
	// Schema is the Postgres schema of the tables. Default (""): tasktable.
	Schema string
	// EngineConns is the EngineConns of the nodes' scheduled.Config. The doctor needs it to say whether the server
	// has connections for one more node. A node takes EngineConns, up to three more, and the MaxConns of the Pool.
	// Default (0): 6.
	EngineConns int
	// Only names the checks to make, and Skip names the checks to leave out. Checks returns the names. Default (nil):
	// all checks for Only, and none for Skip.
	Only, Skip []string

	limits limits // for tests
}

// limits are the values from which on the doctor reports something.
type limits struct {
	check         time.Duration // the most that a whole check may take
	roundTrip     time.Duration // between here and the database
	offset        time.Duration // of its clock
	idle          time.Duration // a session in a transaction that does nothing
	transaction   time.Duration // one that does something, or is prepared
	horizon       int64         // transactions that a snapshot keeps from being vacuumed
	dead          int64         // dead rows of a table
	bloat         int64         // bytes of a table or an index
	shortLife     time.Duration // of a node
	shortLives    int           // of a service's nodes within an hour
	river         time.Duration // how old a job without a claim may be
	conflict      time.Duration // two versions of a service side by side
	noLeader      time.Duration // how long a leader must be missing
	notifications float64       // the share of the queue of notifications that is in use
}

var defaultLimits = limits{
	check:         15 * time.Second,
	roundTrip:     50 * time.Millisecond,
	offset:        time.Second,
	idle:          time.Minute,
	transaction:   5 * time.Minute,
	horizon:       1_000_000,
	dead:          10_000,
	bloat:         64 << 20,
	shortLife:     2 * time.Minute,
	shortLives:    5,
	river:         10 * time.Minute,
	conflict:      time.Hour,
	noLeader:      3 * time.Second,
	notifications: 0.25,
}

// nodeConns is how many connections a node takes: its session, its listener, one to lead, the engine's pool, and the
// handlers' pool.
func (c Config) nodeConns() int { return 3 + c.EngineConns + int(c.Pool.Config().MaxConns) }

func (c Config) withDefaults() Config {
	if c.Schema == "" {
		c.Schema = store.DefaultSchema
	}
	if c.EngineConns == 0 {
		c.EngineConns = scheduled.DefaultEngineConns
	}
	if c.limits == (limits{}) {
		c.limits = defaultLimits
	}
	if c.Connect == nil && c.Pool != nil {
		settings := c.Pool.Config()
		c.Connect = func(ctx context.Context) (*pgx.Conn, error) {
			config := settings.ConnConfig.Copy()
			if settings.BeforeConnect != nil { // it may provide passwords of a short life
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

// Examine makes the checks, one after the other. It returns an error that wraps store.ErrInvalid for a wrong Config,
// and an error when ctx ends. It returns no error if the database cannot be reached, because that is a finding.
func Examine(ctx context.Context, config Config) (Report, error) {
	config = config.withDefaults()
	if err := config.validate(); err != nil {
		return Report{}, err
	}
	schema, _ := store.NewSchema(config.Schema) // it is valid
	pool, err := ownPool(ctx, config.Pool)
	if err != nil {
		return Report{}, err
	}
	defer pool.Close()
	server := config.Pool.Config().ConnConfig
	e := &examination{config: config, schema: schema,
		inspector: inspect.New(store.Config{Schema: schema.String()}), pool: pool}
	e.report = Report{
		Database: fmt.Sprintf("%s:%d/%s", server.Host, server.Port, server.Database),
		Schema:   schema.String(),
		Role:     server.User,
		At:       time.Now(),
		Reached:  true,
		Findings: []Finding{},
	}
	for _, check := range checks {
		wanted := len(config.Only) == 0 || slices.Contains(config.Only, check.name)
		asked := wanted && !slices.Contains(config.Skip, check.name)
		before := len(e.report.Findings)
		if asked || check.name == versionsCheck { // other checks need its result
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

// ownPool makes a pool of one connection. It uses no prepared statements, because some poolers do not support them.
func ownPool(ctx context.Context, from *pgxpool.Pool) (*pgxpool.Pool, error) {
	settings := from.Config()
	settings.MaxConns, settings.MinConns, settings.MinIdleConns = 1, 0, 0
	settings.PrepareConn, settings.AfterRelease, settings.BeforeClose = nil, nil, nil // hooks for the service's pool
	settings.ConnConfig.DefaultQueryExecMode = pgx.QueryExecModeExec
	settings.ConnConfig.OnNotification = nil
	settings.ConnConfig.RuntimeParams["application_name"] = "tasktable doctor"
	pool, err := pgxpool.NewWithConfig(ctx, settings)
	if err != nil {
		return nil, fmt.Errorf("make a pool: %w", err)
	}
	return pool, nil
}

// examination is the state of one Examine.
type examination struct {
	config    Config
	schema    store.Schema
	inspector *inspect.Inspector
	pool      *pgxpool.Pool
	report    Report

	check        string // the name of the running check
	tx           pgx.Tx // the transaction of that check
	unreachable  bool   // no connection is possible, so that no other check needs to try
	unmigrated   bool   // the tables are missing, or the role may not use them
	otherVersion bool   // the schema has another version than this program
}

// beginSQL begins each transaction. Its settings are LOCAL, because a pooler gives the connection to other clients
// afterwards. The last ones decide how Postgres writes times and definitions. A database may have other defaults, and
// then no index would be as the migrations make it.
const beginSQL = `BEGIN READ ONLY;
SET LOCAL statement_timeout = '5s';
SET LOCAL lock_timeout = '1s';
SET LOCAL idle_in_transaction_session_timeout = '20s';
SET LOCAL search_path = pg_catalog, pg_temp;
SET LOCAL client_min_messages = warning;
SET LOCAL standard_conforming_strings = on;
SET LOCAL quote_all_identifiers = off;
SET LOCAL timezone = 'UTC';
SET LOCAL datestyle = 'ISO';
SET LOCAL intervalstyle = 'postgres'`

// run makes one check. An error in it becomes a finding.
func (e *examination) run(ctx context.Context, check check) {
	e.check = check.name
	if e.unreachable || check.tables && e.unmigrated {
		return // an earlier finding has told the reason
	}
	limit := e.config.limits.check
	ctx, cancel := context.WithTimeoutCause(ctx, limit, fmt.Errorf("no answer within %s", limit))
	defer cancel()
	conn, err := e.pool.Acquire(ctx)
	if err != nil { // this may be a server that was lost midway: each further check would wait for it again
		e.unreachable, e.report.Reached = true, false
		e.unreached(fmt.Errorf("%s: %w", e.report.Database, because(ctx, err)))
		return
	}
	defer conn.Release()
	if err := e.inTransaction(ctx, conn, check); err != nil {
		e.failed(because(ctx, err))
	}
}

// because returns the cause of the end of ctx if ctx has ended, and err otherwise.
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
	defer func() { _ = e.tx.Rollback(ctx) }() // if it fails, the pool closes the connection
	return check.run(e, ctx)
}

// failed adds the finding of a check that could not be made.
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

// rows runs a query that returns any number of rows.
func rows[T any](ctx context.Context, e *examination, statement string, args ...any) ([]T, error) {
	found, _ := e.tx.Query(ctx, e.schema.SQL(statement), args...) // its error is that of the rows, too
	return pgx.CollectRows(found, pgx.RowToStructByName[T])
}

// row runs a query that returns exactly one row.
func row[T any](ctx context.Context, e *examination, statement string, args ...any) (T, error) {
	found, _ := e.tx.Query(ctx, e.schema.SQL(statement), args...)
	return pgx.CollectExactlyOneRow(found, pgx.RowToStructByName[T])
}

// value runs a query that returns exactly one value.
func value[T any](ctx context.Context, e *examination, statement string) (T, error) {
	found, _ := e.tx.Query(ctx, e.schema.SQL(statement))
	return pgx.CollectExactlyOneRow(found, pgx.RowTo[T])
}
