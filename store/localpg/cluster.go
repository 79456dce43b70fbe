//go:build linux || darwin

package localpg

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// superuser is the role in the URL. It is not the user of the operating system, because the URL must be the same for
// all users.
const superuser = "tasktable"

// cluster is a data folder and the account that runs it.
type cluster struct {
	bin  binaries
	data string
	as   *account
}

// openCluster returns the data folder for these binaries. If there is none, initdb makes it. initdb inherits the
// lock, so that other processes wait for an initdb that outlives its killed parent.
func (f *folder) openCluster(
	ctx context.Context, bin binaries, cfg Config, password string, alive *lock,
) (cluster, error) {
	data := f.path(dataName(bin.major))
	_, err := os.Stat(data)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		if err := f.initdb(ctx, bin, cfg, password, alive, data); err != nil {
			return cluster{}, err
		}
	case err != nil:
		return cluster{}, fmt.Errorf("looking for the data folder: %w", err)
	}
	text, err := os.ReadFile(filepath.Join(data, "PG_VERSION"))
	if err != nil {
		return cluster{}, fmt.Errorf("%s is not a data folder of Postgres: move it away: %w", data, err)
	}
	if version := strings.TrimSpace(string(text)); version != strconv.Itoa(bin.major) {
		return cluster{}, fmt.Errorf("%s holds data of Postgres %s, but its name and the binaries in %s say %d: "+
			"rename it", data, version, bin.dir, bin.major)
	}
	as, err := f.account.ownerOf(data)
	if err != nil {
		return cluster{}, err
	}
	return cluster{bin, data, as}, nil
}

// initdb makes the data folder under another name and renames it, so that a kill halfway leaves no folder that looks
// usable.
func (f *folder) initdb(
	ctx context.Context, bin binaries, cfg Config, password string, alive *lock, data string,
) error {
	cfg.Logger.Info("making a new Postgres data folder", "dir", data, "version", bin.major, "binaries", bin.dir)
	fresh, err := os.MkdirTemp(f.dir, filepath.Base(data)+".unfinished-*")
	if err != nil {
		return fmt.Errorf("making the data folder: %w", err)
	}
	defer func() { _ = os.RemoveAll(fresh) }() // after a success it no longer exists
	secret, err := f.passwordFile(password)
	if err != nil {
		return err
	}
	defer func() { _ = os.Remove(secret) }()
	if err := f.account.own(fresh); err != nil {
		return err
	}
	// Encoding and sort order must be the same on every machine, whatever its locale. C sorts by bytes.
	args := []string{
		"-D", fresh, "-U", superuser, "--pwfile=" + secret, "-A", "scram-sha-256", "-E", "UTF8", "--locale=C",
	}
	if cfg.Parameters["fsync"] == "off" {
		args = append(args, "--no-sync")
	}
	cmd := f.account.command(ctx, filepath.Join(bin.dir, "initdb"), args...)
	var said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &said, &said
	cmd.ExtraFiles = []*os.File{alive.file}
	if err := cmd.Run(); err != nil {
		if ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		return fmt.Errorf("making the data folder with %s: %w; it said:\n%s", cmd.Path, err, lastLines(said.String()))
	}
	if err := os.Rename(fresh, data); err != nil {
		return fmt.Errorf("putting the data folder in place: %w", err)
	}
	return nil
}

// passwordFile writes the password to a temporary file that initdb can read, even if it runs as another user.
func (f *folder) passwordFile(password string) (string, error) {
	file, err := os.CreateTemp(f.dir, "initdb.unfinished-*")
	if err != nil {
		return "", fmt.Errorf("handing the password to initdb: %w", err)
	}
	_, err = file.WriteString(password + "\n")
	if err = errors.Join(err, file.Close(), f.account.own(file.Name())); err != nil {
		_ = os.Remove(file.Name())
		return "", fmt.Errorf("handing the password to initdb: %w", err)
	}
	return file.Name(), nil
}

// dropStalePidFile removes the pid file of a server that no longer runs, which the free server.lock proves. With the
// pid file Postgres would refuse to start if another process has that process id now. After the restart of a
// container that is usual. Only a server that somebody started by hand on the folder does not hold the lock. For such
// a server dropStalePidFile returns an error.
func (f *folder) dropStalePidFile(ctx context.Context, password string, log *slog.Logger) error {
	if found, err := f.probe(ctx, password); err == nil {
		return fmt.Errorf("a Postgres not started by localpg (process %d) runs on %s: stop it first", found.pid,
			found.data)
	}
	for _, major := range f.majors() {
		path := filepath.Join(f.path(dataName(major)), "postmaster.pid")
		err := os.Remove(path)
		if err == nil {
			log.Info("the last server did not shut down: recovering", "dir", filepath.Dir(path))
		} else if !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("removing a stale pid file: %w", err)
		}
	}
	return nil
}
