package storetest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"sync/atomic"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tasktable/tasktable/store/localpg"
)

// URLVariable is the environment variable that names the server to use, or says that it is to be a container.
const (
	URLVariable = "TASKTABLE_TEST_DATABASE_URL"
	inContainer = "container"
)

// server is the Postgres that the tests of this process use.
type server struct {
	base     *url.URL
	stop     func() error
	admin    *pgxpool.Pool // creates and drops databases
	holder   *pgx.Conn     // its session holds the advisory locks, which show that this process is alive
	holderMu sync.Mutex
	names    names
	strategy string       // of CREATE DATABASE, after its template
	made     atomic.Int64 // numbers the databases
	template func() (string, error)
}

var (
	running atomic.Pointer[server]
	shared  = sync.OnceValues(open)
)

type starter = func(context.Context) (base *url.URL, stop func() error, err error)

var registered atomic.Pointer[starter]

// Register makes the tests of this process run on a server that start starts, unless TASKTABLE_TEST_DATABASE_URL
// names one or a Postgres is installed. If start returns a nil base or an error, the next way to get a server is taken.
// Package container calls Register when it is imported.
func Register(start func(context.Context) (base *url.URL, stop func() error, err error)) {
	registered.Store(&start)
}

// open chooses a server and prepares it for handing out databases.
func open() (*server, error) {
	ctx, cancel := context.WithTimeout(context.Background(), prepareLimit)
	defer cancel()
	base, stop, err := choose(ctx)
	if err != nil {
		return nil, err
	}
	s := &server{base: base, stop: stop}
	s.template = sync.OnceValues(s.prepareTemplate)
	running.Store(s) // from here on Main stops the server, even after an error
	if err := s.connect(ctx); err != nil {
		return nil, err
	}
	return s, nil
}

func choose(ctx context.Context) (*url.URL, func() error, error) {
	given := os.Getenv(URLVariable)
	start := registered.Load()
	switch {
	case given == inContainer:
		return containerAlone(ctx, start)
	case given != "":
		base, err := parseURL(given)
		if err != nil {
			return nil, nil, fmt.Errorf("%s: %w", URLVariable, err)
		}
		return base, func() error { return nil }, nil
	case start == nil:
		return startLocal(ctx, localpg.Config{})
	}
	base, stop, err := startLocal(ctx, localpg.Config{NoDownload: true})
	if !errors.Is(err, localpg.ErrNoPostgres) && !errors.Is(err, localpg.ErrUnsupported) {
		return base, stop, err
	}
	base, stop, err = (*start)(ctx)
	if base != nil && err == nil {
		return base, stop, nil
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "storetest: the registered server did not start; downloading a Postgres:", err)
	}
	return startLocal(ctx, localpg.Config{})
}

func containerAlone(ctx context.Context, start *starter) (*url.URL, func() error, error) {
	if start == nil {
		return nil, nil, fmt.Errorf("%s is %q, and the tests do not import store/storetest/container", URLVariable,
			inContainer)
	}
	base, stop, err := (*start)(ctx)
	if err == nil && base == nil {
		err = errors.New("no Docker daemon answers")
	}
	if err != nil {
		return nil, nil, fmt.Errorf("%s is %q: %w", URLVariable, inContainer, err)
	}
	return base, stop, nil
}

// parseURL does not put the text into its errors, because it may contain a password.
func parseURL(text string) (*url.URL, error) {
	base, err := url.Parse(text)
	if err != nil || (base.Scheme != "postgres" && base.Scheme != "postgresql") {
		return nil, errors.New("must be a URL of the form postgres://user:password@host:port/database")
	}
	return base, nil
}

// startLocal fills in the folder and the settings.
func startLocal(ctx context.Context, config localpg.Config) (*url.URL, func() error, error) {
	config.Dir = filepath.Join(cmp.Or(memoryDir(), os.TempDir()), "tasktable-test-"+strconv.Itoa(os.Getuid()))
	// Tests are several times faster if Postgres does not wait for the disk. synchronous_commit stays on, because off
	// would change when other sessions and NOTIFY see a commit.
	config.Parameters = map[string]string{
		"fsync": "off", "full_page_writes": "off", "max_connections": "800", "log_checkpoints": "off",
		"max_prepared_transactions": "10",
	}
	local, err := localpg.Start(ctx, config)
	if err != nil {
		return nil, nil, err
	}
	base, err := url.Parse(local.URL())
	if err != nil {
		return nil, nil, errors.Join(fmt.Errorf("reading the server's URL: %w", err), local.Stop())
	}
	return base, local.Stop, nil
}

// connect opens the administrative connections, marks this process as alive, and drops the leftovers of dead
// processes.
func (s *server) connect(ctx context.Context) error {
	config, err := pgxpool.ParseConfig(s.base.String())
	if err != nil {
		return fmt.Errorf("reading the server's URL: %w", err)
	}
	config.MaxConns = 4
	if s.admin, err = pgxpool.NewWithConfig(ctx, config); err != nil {
		return fmt.Errorf("opening a pool: %w", err)
	}
	if s.holder, err = pgx.ConnectConfig(ctx, config.ConnConfig); err != nil {
		return fmt.Errorf("connecting: %w", err)
	}
	var beside uint32
	// To copy files takes less than half of the time of the default, which writes them to the log. But it makes a
	// checkpoint, which would flush everything on a server that does not have fsync off.
	const thisDatabase = `
SELECT oid, CASE WHEN current_setting('fsync') = 'off' AND current_setting('server_version_num')::int >= 150000
    THEN ' STRATEGY file_copy' ELSE '' END
FROM pg_database WHERE datname = current_database()`
	if err := s.holder.QueryRow(ctx, thisDatabase).Scan(&beside, &s.strategy); err != nil {
		return fmt.Errorf("reading the database's number: %w", err)
	}
	s.names = newNames(beside)
	if _, err := s.holder.Exec(ctx, "SELECT pg_advisory_lock($1, $2)", lockProcess, s.names.process); err != nil {
		return fmt.Errorf("marking this process as alive: %w", err)
	}
	return s.dropLeftovers(ctx)
}

func (s *server) close() error {
	ctx, cancel := context.WithTimeout(context.Background(), stepLimit)
	defer cancel()
	if s.holder != nil {
		_ = s.holder.Close(ctx)
	}
	if s.admin != nil {
		s.admin.Close()
	}
	return s.stop()
}

func stopShared() error {
	if s := running.Load(); s != nil {
		return s.close()
	}
	return nil
}
