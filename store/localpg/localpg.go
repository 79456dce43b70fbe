// Package localpg runs a private Postgres server on this machine, for people who have no database.
//
// [Start] starts the server, or joins the server that already runs on the same folder. The URL of the server is
// [Server.URL]. The data outlive the process, so that the next Start on the folder finds them. The package is for
// trying things out, for development and for tests. In production use a server that somebody operates.
//
// # Binaries
//
// The server is an ordinary Postgres, version 14 or newer. Start looks for its binaries in this order: in PATH; in
// the folders that Linux packages use (/usr/lib/postgresql/*/bin, /usr/pgsql-*/bin); in Homebrew and Postgres.app. If
// it finds none, it downloads them from Maven Central by github.com/fergusstrange/embedded-postgres and keeps them in
// Config.Dir. Within a pattern the highest version comes first. If all this fails, the error is [ErrNoPostgres] and
// tells what to do.
//
// # Folder
//
// Config.Dir has all files: data-15 (one data folder for each major version), password, port, postgres.log and the
// lock files. Only its own major version can read a data folder. If Start followed the search order above, an upgrade
// of the machine's Postgres could therefore break it. Instead Start uses the newest data folder for which it finds or
// can download binaries. It follows the search order only if there are no data.
//
// The package does not migrate data from one major version to another. It deletes nothing in Dir except its own
// unfinished work.
//
// # Sharing
//
// Processes that use the same folder share one server, and so do several Servers in one process. The last
// [Server.Stop] stops it. A process that is killed no longer counts as a user, but does not stop the server. The
// server then runs until a later process joins and stops it. The server has its own session, so that a Ctrl-C at the
// terminal does not end the database of the program. If the server dies while it is in use, nobody restarts it.
//
// # Access
//
// The server listens on 127.0.0.1 only, without a Unix socket. It takes a free port, and prefers the port that it had
// the last time. The password is random and is made only once. Only the owner of the folder can read it.
//
// # Root
//
// Postgres refuses to run as root. If the caller is root, Postgres runs as the user postgres, or as nobody if there
// is no user postgres. The data folder belongs to that user. All parents of Dir must then let that user through.
//
// The package supports only Linux and macOS. On other systems Start returns [ErrUnsupported].
package localpg

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
)

// The errors that Start can return, for errors.Is. The text of each tells what to do.
var (
	// ErrNoPostgres means that this machine has no usable binaries, and that downloading them failed.
	ErrNoPostgres = errors.New("no Postgres to run")
	// ErrUnsupported means that this operating system is neither Linux nor macOS.
	ErrUnsupported = errors.New("the built-in Postgres runs on Linux and macOS only")
)

// Config tells Start where the server keeps its data, and its settings. The zero value works.
type Config struct {
	// Dir is the folder that keeps the data. Start creates it if it does not exist. It must belong to the caller. ""
	// means tasktable/postgres in os.UserCacheDir. For root it means /var/lib/tasktable/postgres, because the user
	// that runs Postgres cannot enter root's home.
	Dir string

	// Parameters are more Postgres settings, for example fsync=off for tests. Start passes them with -c when it
	// starts the server. They have no effect on a server that already runs. Unless set here, max_connections is 200.
	Parameters map[string]string

	// Database is the name of the database in the URL, with at most 63 bytes. Start creates the database if it does
	// not exist. "" means tasktable.
	Database string

	// NoDownload makes Start return ErrNoPostgres where it would download binaries.
	NoDownload bool

	// Logger gets a line for each slow or surprising step. Nil means that nothing is logged. The server's own log is
	// postgres.log in Dir.
	Logger *slog.Logger
}

// Server is one share in the running server. It is safe for concurrent use.
type Server struct {
	url     string
	leave   func() error
	once    sync.Once
	stopErr error
}

// Start starts the server on cfg.Dir, or joins the server that already runs there, and creates cfg.Database.
//
// Start returns when the server answers. That takes a fraction of a second, a few seconds for the first time, and
// longer if Start has to download binaries or the server has to recover from a crash. Start gives up when ctx ends.
// If ctx has no deadline, it gives up after 3 minutes. After Start has returned, the server does not depend on ctx.
//
// Start returns an error for a bad field of cfg, [ErrNoPostgres], [ErrUnsupported], or an error about the failed step
// with the end of the server's log.
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

// Mutual is a parameter that a program with pgx may add to [Server.URL]. With it the connection fails unless the server
// proves that it knows the password. Without it, a program of another user that has taken the port of a server that
// crashed could ask for the password in clear. The URL itself is without it, because psql before 16 refuses it.
const Mutual = "require_auth=scram-sha-256"

// URL returns a postgres:// URL of the database, with the password of a superuser. The URL is valid while the server
// runs. After a restart the port may be different.
func (s *Server) URL() string { return s.url }

// Stop gives up this share. If no other process or Server uses the folder, Stop shuts the server down in fast mode,
// which ends open connections. A server that has not stopped after a minute is stopped immediately. It then recovers
// at the next start, and loses nothing. If others use the folder, the server stays running. Further calls of Stop do
// nothing, and return the same error as the first.
func (s *Server) Stop() error {
	s.once.Do(func() {
		if err := s.leave(); err != nil {
			s.stopErr = fmt.Errorf("localpg: stopping: %w", err)
		}
	})
	return s.stopErr
}

// Each of these settings is set by this package, or would break one of its promises: that the server is private, that
// it can be found again, and that it has one log.
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
	for name, value := range c.Parameters {
		parameters[strings.ToLower(name)] = value
	}
	c.Parameters = parameters
	c.Database, c.Logger = cmp.Or(c.Database, "tasktable"), cmp.Or(c.Logger, slog.New(slog.DiscardHandler))
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
