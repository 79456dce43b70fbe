//go:build linux || darwin

package localpg

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"

	embeddedpostgres "github.com/fergusstrange/embedded-postgres"
)

// downloadMajor is the version for a folder without data. It is a variable for the tests, which have no network.
var downloadMajor = 17

var downloads = map[int]embeddedpostgres.PostgresVersion{
	14: embeddedpostgres.V14, 15: embeddedpostgres.V15, 16: embeddedpostgres.V16,
	17: embeddedpostgres.V17, 18: embeddedpostgres.V18,
}

// These are variables, so that a test can act as a machine without a network, or use its own Maven Central.
var (
	fetch      = fetchFromMaven
	repository = "https://repo1.maven.org/maven2"
)

// download downloads the binaries of a major version into Dir. They get their final name only when they are complete.
func (f *folder) download(ctx context.Context, major int, log *slog.Logger) (binaries, error) {
	if f.noDownload {
		return binaries{}, errDownloadsOff
	}
	version, known := downloads[major]
	if !known {
		return binaries{}, fmt.Errorf("Postgres %d: %w", major, errNoDownload)
	}
	into, err := os.MkdirTemp(f.dir, fmt.Sprintf("binaries-%d.unfinished-*", major))
	if err != nil {
		return binaries{}, fmt.Errorf("making room for the binaries: %w", err)
	}
	log.Info("downloading Postgres: this happens once", "version", version, "dir", f.dir)
	// The library does not take a context. If ctx ends, the download continues in the background and does no harm.
	done := make(chan error, 1)
	go func() { done <- fetch(version, into, f.path("download")) }()
	select {
	case <-ctx.Done():
		return binaries{}, fmt.Errorf("downloading Postgres %s: %w", version, context.Cause(ctx))
	case err = <-done:
	}
	defer func() { _ = os.RemoveAll(into) }()
	if err != nil {
		return binaries{}, fmt.Errorf("downloading Postgres %s: %w", version, err)
	}
	if err := errors.Join(os.Chmod(into, 0o755), f.account.openTree(into)); err != nil {
		return binaries{}, fmt.Errorf("opening the binaries to the server's user: %w", err)
	}
	got, err := f.inspect(ctx, filepath.Join(into, "bin"))
	if err != nil {
		return binaries{}, fmt.Errorf("the downloaded Postgres does not run: %w", err)
	}
	if got.major != major {
		return binaries{}, fmt.Errorf("the download of Postgres %d is one of %d", major, got.major)
	}
	final := f.path(fmt.Sprintf("binaries-%d", major))
	if err := os.RemoveAll(final); err != nil { // it may exist, but inspect has rejected it
		return binaries{}, fmt.Errorf("removing binaries that do not run: %w", err)
	}
	if err := os.Rename(into, final); err != nil {
		return binaries{}, fmt.Errorf("putting the binaries in place: %w", err)
	}
	return binaries{filepath.Join(final, "bin"), major}, nil
}

// fetchFromMaven makes the library download the binaries. The library has no call that only downloads. Therefore
// fetchFromMaven asks it to start a server with an encoding that does not exist. The library unpacks the binaries,
// and then initdb fails. A process that is killed at the wrong moment can therefore not leave a temporary server
// behind.
func fetchFromMaven(version embeddedpostgres.PostgresVersion, into, cache string) error {
	port, err := freePort(0)
	if err != nil {
		return err
	}
	throwAway := embeddedpostgres.NewDatabase(embeddedpostgres.DefaultConfig().
		Version(version).
		BinaryRepositoryURL(repository).
		Port(uint32(port)).
		Encoding("no such encoding").
		BinariesPath(into).
		CachePath(cache).
		RuntimePath(filepath.Join(into, "runtime")).
		DataPath(filepath.Join(into, "runtime", "data")).
		Logger(io.Discard))
	if err = throwAway.Start(); err == nil {
		err = throwAway.Stop()
	}
	if rest := os.RemoveAll(filepath.Join(into, "runtime")); rest != nil {
		return rest
	}
	if has(filepath.Join(into, "bin"), "postgres", "initdb") {
		return nil
	}
	if err == nil {
		err = errors.New("the archive holds no bin/postgres")
	}
	return err
}
