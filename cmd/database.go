package cmd

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tasktable/tasktable/cmd/internal/options"
	"github.com/tasktable/tasktable/migrations"
	"github.com/tasktable/tasktable/store"
	"github.com/tasktable/tasktable/store/localpg"
)

const (
	connectLimit    = 15 * time.Second // for a database that does not answer at all
	closeLimit      = 5 * time.Second
	defaultMaxConns = 10
)

// databaseSettings say where the tables are.
type databaseSettings struct {
	url        string
	sessionURL string
	schema     string
	dataDir    string
	maxConns   int
}

func (s *databaseSettings) options() []options.Option {
	return []options.Option{
		{Flag: "database-url", Variable: "DATABASE_URL", Kind: "url", Secret: true, Set: options.DatabaseURL(&s.url),
			Usage: "the database, as a URL or keyword=value pairs; better in the variable, because flags show in the " +
				"list of processes (default a private Postgres on this machine)"},
		{Flag: "session-database-url", Variable: "TASKTABLE_SESSION_DATABASE_URL", Kind: "url", Secret: true,
			Set: options.DatabaseURL(&s.sessionURL),
			Usage: "the same database without the pooler, if the database URL goes through one: for migrations, " +
				"locks and notifications"},
		s.schemaOption(),
		{Flag: "data-dir", Variable: "TASKTABLE_DATA_DIR", Kind: "folder", Set: options.Text(&s.dataDir, 4096),
			Usage: "the folder of the private Postgres, used without a database URL (default tasktable/postgres in " +
				"the user's cache folder, for root /var/lib/tasktable/postgres)"},
	}
}

func (s *databaseSettings) schemaOption() options.Option {
	return options.Option{Flag: "schema", Variable: "TASKTABLE_SCHEMA", Kind: "name", Default: store.DefaultSchema,
		Set:   schemaName(&s.schema),
		Usage: "the Postgres schema of the tables"}
}

// maxConnsOption is for commands that run handlers.
func (s *databaseSettings) maxConnsOption() options.Option {
	return options.Option{Flag: "max-conns", Variable: "TASKTABLE_MAX_CONNS", Kind: "number",
		Set: options.Int(&s.maxConns, 1, 1000),
		Usage: fmt.Sprintf("the most connections of the handlers' pool (default pool_max_conns of the database URL, "+
			"or %d)", defaultMaxConns)}
}

func schemaName(into *string) func(string) error {
	isSchema := func(given string) error {
		_, err := store.NewSchema(given)
		return err
	}
	return options.Checked(into, isSchema, "must be 1 to 46 of a-z, 0-9 and _, not starting with a digit")
}

// inSchema is the schema. The option has refused a wrong name.
func (s *databaseSettings) inSchema() store.Schema {
	schema, _ := store.NewSchema(s.schema)
	return schema
}

// database is an open database. Its pools may be the same.
type database struct {
	pool   *pgxpool.Pool // as the database URL says
	direct *pgxpool.Pool // to Postgres itself, past any pooler
	stop   func() error  // of the private Postgres
}

// onDatabase opens the database, calls do, and closes the database, also after a signal.
func (p *program) onDatabase(
	ctx context.Context, s *databaseSettings, log *logSettings, do func(*database, *slog.Logger) error,
) (err error) {
	logger := log.logger(p.stderr)
	p.WarnUnknown(logger)
	d, err := s.open(ctx, logger)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, d.close()) }()
	return do(d, logger)
}

// open connects, or starts the private Postgres and connects to that. The caller must close the database, also after a
// signal.
func (s *databaseSettings) open(ctx context.Context, logger *slog.Logger) (*database, error) {
	d, err := s.pools(ctx, logger)
	if err != nil {
		return nil, err
	}
	if err := d.ping(ctx); err != nil {
		return nil, errors.Join(err, d.close())
	}
	return d, nil
}

// pools is like open, but does not connect. It does start the private Postgres.
func (s *databaseSettings) pools(ctx context.Context, logger *slog.Logger) (*database, error) {
	d := &database{stop: func() error { return nil }}
	url := s.url
	if url == "" {
		if s.sessionURL != "" {
			return nil, options.Usage("%s needs %s beside it", sessionURLName, urlName)
		}
		server, err := localpg.Start(ctx, localpg.Config{Dir: s.dataDir, Logger: logger})
		if err != nil {
			return nil, &unreachableError{fmt.Errorf("there is no --database-url (DATABASE_URL), and a private "+
				"Postgres in --data-dir (TASKTABLE_DATA_DIR) does not start: %w", err)}
		}
		url, d.stop = server.URL(), server.Stop
		// The password may be logged, because only this machine reaches the private server.
		logger.Info("no DATABASE_URL: using a private Postgres; to look into it: psql '" + url + "'")
		url += "&" + localpg.Mutual
	}
	if err := d.makePools(ctx, url, s); err != nil {
		return nil, errors.Join(err, d.close())
	}
	return d, nil
}

// migrate brings the schema to this program's version. On the private Postgres it makes the roles, too, because there
// nobody else would, and a key of a tenant needs them.
func (s *databaseSettings) migrate(ctx context.Context, pool *pgxpool.Pool) error {
	due := migrations.Check(ctx, pool, s.schema) != nil
	if err := migrations.Up(ctx, pool, s.schema); err != nil || s.url != "" || !due {
		return err
	}
	var script strings.Builder
	if err := migrations.PrintRoles(&script, s.schema, migrations.Roles{}); errors.Is(err, store.ErrInvalid) {
		return nil // the schema public cannot have them
	} else if err != nil {
		return err
	}
	if _, err := pool.Exec(ctx, script.String(), pgx.QueryExecModeSimpleProtocol); err != nil {
		return fmt.Errorf("make the roles in the private Postgres: %w", err)
	}
	return nil
}

// check refuses a database that is not migrated, and says which command migrates it. Without a URL it may be the
// wrong database.
func (s *databaseSettings) check(ctx context.Context, pool *pgxpool.Pool) error {
	err := migrations.Check(ctx, pool, s.schema)
	if !errors.Is(err, migrations.ErrUnmigrated) {
		return err
	}
	command := "tasktable migrate"
	if s.schema != "" && s.schema != store.DefaultSchema {
		command += " --schema " + s.schema
	}
	if s.url == "" {
		return fmt.Errorf("there is no DATABASE_URL, so this is the private Postgres of this machine: "+
			"%w: set DATABASE_URL, or, if you mean this one, run %q", err, command)
	}
	return fmt.Errorf("%w: run %q", err, command)
}

const (
	urlName        = "--database-url (DATABASE_URL)"
	sessionURLName = "--session-database-url (TASKTABLE_SESSION_DATABASE_URL)"
)

func (d *database) makePools(ctx context.Context, url string, s *databaseSettings) (err error) {
	if d.pool, err = newPool(ctx, url, s.maxConns); err != nil {
		return fmt.Errorf("%s: %w", urlName, err)
	}
	d.direct = d.pool
	if s.sessionURL != "" {
		// One connection is enough, because this pool migrates and says where the session connects.
		if d.direct, err = newPool(ctx, s.sessionURL, 1); err != nil {
			return fmt.Errorf("%s: %w", sessionURLName, err)
		}
	}
	return nil
}

// newPool makes a pool that has not connected yet.
func newPool(ctx context.Context, url string, maxConns int) (*pgxpool.Pool, error) {
	config, err := poolConfig(url, maxConns)
	if err != nil {
		return nil, err
	}
	return pgxpool.NewWithConfig(ctx, config)
}

func (d *database) ping(ctx context.Context) error {
	if err := ping(ctx, d.pool); err != nil {
		return fmt.Errorf("%s: %w", urlName, err)
	}
	if d.direct == d.pool {
		return nil
	}
	if err := ping(ctx, d.direct); err != nil {
		return fmt.Errorf("%s: %w", sessionURLName, err)
	}
	return nil
}

func ping(ctx context.Context, pool *pgxpool.Pool) error {
	ctx, cancel := context.WithTimeout(ctx, connectLimit)
	defer cancel()
	if err := pool.Ping(ctx); err != nil {
		return &unreachableError{fmt.Errorf("the database at %s cannot be reached: %w",
			address(pool.Config().ConnConfig), err)}
	}
	return nil
}

func poolConfig(url string, maxConns int) (*pgxpool.Config, error) {
	config, err := pgxpool.ParseConfig(url)
	if err != nil {
		return nil, options.DatabaseURLError(err)
	}
	if maxConns == 0 && !saysMaxConns(url) {
		maxConns = defaultMaxConns
	}
	if maxConns != 0 {
		config.MaxConns = int32(maxConns)
	}
	if config.PingTimeout == 0 { // without a limit, a pool that closes may wait a minute for a connection that is dead
		config.PingTimeout = closeLimit
	}
	if parameters := config.ConnConfig.RuntimeParams; parameters["application_name"] == "" {
		parameters["application_name"] = "tasktable"
	}
	return config, nil
}

// saysMaxConns asks pgconn, which leaves the pool's settings where pgxpool takes them out.
func saysMaxConns(url string) bool {
	config, err := pgconn.ParseConfig(url)
	return err == nil && config.RuntimeParams["pool_max_conns"] != ""
}

// address names a database without secrets.
func address(config *pgx.ConnConfig) string {
	return fmt.Sprintf("%s:%d/%s", config.Host, config.Port, config.Database)
}

// session opens a connection that is no pool's, for the engine's session.
func (d *database) session(ctx context.Context) (*pgx.Conn, error) {
	return pgx.ConnectConfig(ctx, d.direct.Config().ConnConfig)
}

// ownPool makes a pool with the settings of the handlers' pool, so that requests over HTTP take none of the latter's
// connections. Its statements wait for a lock for at most lockLimit, unless that is 0.
func (d *database) ownPool(ctx context.Context, conns int, lockLimit time.Duration) (*pgxpool.Pool, error) {
	config := d.pool.Config()
	config.MaxConns, config.MinConns, config.MinIdleConns = int32(conns), 0, 0
	if d.direct == d.pool && lockLimit > 0 { // else there is a pooler, which would give the setting to other clients
		config.AfterConnect = func(ctx context.Context, conn *pgx.Conn) error {
			_, err := conn.Exec(ctx, fmt.Sprintf("SET lock_timeout = %d", lockLimit.Milliseconds()))
			return err
		}
	}
	return pgxpool.NewWithConfig(ctx, config)
}

// close returns when all connections are closed and the private Postgres, if it had no other users, has stopped.
func (d *database) close() error { return d.closeWithin(closeLimit) }

// closeWithin stops waiting after the limit. Handlers that ignore their context may still hold a connection, and must
// not hold up the end.
func (d *database) closeWithin(limit time.Duration) error {
	closed := make(chan struct{})
	go func() {
		defer close(closed)
		for _, pool := range []*pgxpool.Pool{d.pool, d.direct} {
			if pool != nil {
				pool.Close()
			}
		}
	}()
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case <-closed:
		return d.stop()
	case <-timer.C:
		return errors.Join(fmt.Errorf("connections are still in use %s after the end", limit), d.stop())
	}
}
