// Package localpg runs a private Postgres on this machine: the database one gets without having one.
//
// [Start] starts the server, or joins the one that already runs on the same folder, and hands back its URL.
// The data outlives the process: the next Start on the folder finds what the last one left. It is meant for
// trying things out, for development and for tests; production wants a server somebody operates.
//
// # Binaries
//
// The server is an ordinary Postgres, 14 or newer, looked for in this order: PATH; the folders Linux packages
// use (/usr/lib/postgresql/*/bin, /usr/pgsql-*/bin); Homebrew and Postgres.app; and last a download from Maven
// Central by github.com/fergusstrange/embedded-postgres, kept in Config.Dir. Within a pattern the highest
// version comes first. When none of these is possible the error is [ErrNoPostgres], and says what to do.
//
// # Folder
//
// Config.Dir holds everything: data-15 (one data folder for each major version), password, port, postgres.log
// and the lock files. A data folder can be read by its own major version only, so an upgrade of the machine's
// Postgres could otherwise break the start: instead the newest data folder for which binaries can be found or
// downloaded is used, and only a folder without data follows the search order above. Nothing is migrated from
// one major version to another, and nothing in Dir is ever deleted but unfinished work of this package.
//
// # Sharing
//
// Processes (and Servers within a process) that use the same folder share one server. It is stopped by the
// last [Server.Stop]. A process that is killed counts as gone but stops nothing: the server runs on until
// some later process joins it and stops it. The server has its own session, so that a Ctrl-C at the terminal
// reaches the program and not the database under it. Nobody restarts a server that dies while it is in use.
//
// # Access
//
// It listens on 127.0.0.1 only, on a free port (the one it had last time, if that is still free), without a
// Unix socket. The password is random, made once, and readable by the owner of the folder only.
//
// # Root
//
// Postgres refuses to run as root. When the caller is root, it runs as the user postgres if there is one, else
// as nobody, and the data folder belongs to that user. All parents of Dir must then let that user through.
//
// Linux and macOS only: elsewhere Start returns an error that says so.
package localpg

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
)

// The errors Start can return, for errors.Is. The message of each names the way out.
var (
	// ErrNoPostgres: there are no usable binaries on this machine, and downloading them failed.
	ErrNoPostgres = errors.New("no Postgres to run")
	// ErrUnsupported: this operating system is neither Linux nor macOS.
	ErrUnsupported = errors.New("the built-in Postgres runs on Linux and macOS only")
)

// Config says where the server lives and how it is set. The zero value is a good one.
type Config struct {
	// Dir is the folder that keeps the data, created if missing. Default: tasktable/postgres in
	// os.UserCacheDir; for root /var/lib/tasktable/postgres, since the user that runs Postgres cannot
	// enter root's home. It must belong to the caller.
	Dir string

	// Parameters are further Postgres settings, such as fsync=off for tests, given at start with -c.
	// Default: max_connections=200. Where the server is already running they have no effect: it keeps
	// those it was started with.
	Parameters map[string]string

	// Database is the database URL names, created if missing. 1 to 63 bytes. Default: tasktable.
	Database string

	// Logger gets a line for each slow or surprising step. Default: none. The server's own log is
	// postgres.log in Dir.
	Logger *slog.Logger
}

// Server is one holder's share in the running server. Its methods may be called concurrently.
type Server struct {
	url     string
	leave   func() error
	once    sync.Once
	stopErr error
}

// Start starts the server on cfg.Dir, or joins the one already running there, and creates cfg.Database.
//
// It returns when the server answers, which takes a fraction of a second, a few seconds the first time, longer
// when binaries are downloaded or a crash must be recovered from. It gives up when ctx ends, and where ctx has
// no deadline after 3 minutes. The server itself does not depend on ctx once Start has returned. Errors: a bad
// field of cfg, [ErrNoPostgres], [ErrUnsupported], or what went wrong with the end of the server's log.
func Start(ctx context.Context, cfg Config) (*Server, error) {
	if err := cfg.validate(); err != nil {
		return nil, fmt.Errorf("localpg: %w", err)
	}
	server, err := start(ctx, cfg.withDefaults())
	if err != nil {
		return nil, fmt.Errorf("localpg: %w", err)
	}
	return server, nil
}

// URL is a postgres:// URL of the database, with the password of a superuser. It stays valid while the server
// runs; the port may be another one after a restart.
func (s *Server) URL() string { return s.url }

// Stop gives up this share. If no other process or Server uses the folder the server is shut down in fast
// mode, which ends open connections; one that has not stopped after a minute is stopped at once and recovers
// at the next start, which loses nothing. Otherwise the server is left running. Calling it again does nothing
// and returns what the first call returned.
func (s *Server) Stop() error {
	s.once.Do(func() {
		if err := s.leave(); err != nil {
			s.stopErr = fmt.Errorf("localpg: stopping: %w", err)
		}
	})
	return s.stopErr
}

// Each of these would break a promise of this package (private, found again, one log) or is set by it.
var reserved = map[string]bool{
	"config_file": true, "data_directory": true, "external_pid_file": true, "hba_file": true, "ident_file": true,
	"listen_addresses": true, "logging_collector": true, "port": true, "unix_socket_directories": true,
}

var parameterName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_.]*$`)

func (c Config) validate() error {
	for name, value := range c.Parameters {
		switch {
		case !parameterName.MatchString(name):
			return fmt.Errorf("Config.Parameters: %q: a setting's name has only letters, digits, _ and .", name)
		case reserved[strings.ToLower(name)]:
			return fmt.Errorf("Config.Parameters: %q: is set by localpg and cannot be changed", name)
		case strings.ContainsRune(value, 0):
			return fmt.Errorf("Config.Parameters: %q: the value must not hold a NUL", name)
		}
	}
	if len(c.Database) > 63 || strings.ContainsRune(c.Database, 0) {
		return fmt.Errorf("Config.Database: %q: must have 1 to 63 bytes and no NUL", c.Database)
	}
	if strings.ContainsRune(c.Dir, 0) {
		return fmt.Errorf("Config.Dir: %q: must not hold a NUL", c.Dir)
	}
	return nil
}

func (c Config) withDefaults() Config {
	parameters := map[string]string{"max_connections": "200"}
	for name, value := range maps.All(c.Parameters) {
		parameters[strings.ToLower(name)] = value
	}
	c.Parameters = parameters
	if c.Database == "" {
		c.Database = "tasktable"
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	return c
}

func defaultDir() (string, error) {
	if os.Geteuid() == 0 {
		return "/var/lib/tasktable/postgres", nil
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("Config.Dir: must be given where the user has no cache folder: %w", err)
	}
	return filepath.Join(cache, "tasktable", "postgres"), nil
}
