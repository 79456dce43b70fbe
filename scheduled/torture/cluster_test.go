//go:build unix

package torture

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/tasktable/tasktable/store/localpg"
)

// cluster is a Postgres of the test's own, which may be stopped as if the power had failed. Its settings are the
// default ones: it keeps what it has acknowledged.
type cluster struct {
	dir    string
	server *localpg.Server
}

// startCluster makes the cluster in a folder, which is removed with it.
func startCluster(ctx context.Context) (*cluster, error) {
	// Not T.TempDir: the user that Postgres runs as when root tests cannot enter it.
	dir, err := os.MkdirTemp("", "tasktable-torture-*")
	if err != nil {
		return nil, fmt.Errorf("make the cluster's folder: %w", err)
	}
	if err := os.Chmod(dir, 0o711); err != nil {
		return nil, fmt.Errorf("open the cluster's folder: %w", err)
	}
	c := &cluster{dir: dir}
	if err := c.start(ctx); err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	return c, nil
}

func (c *cluster) start(ctx context.Context) (err error) {
	c.server, err = localpg.Start(ctx, localpg.Config{
		Dir: c.dir, Parameters: map[string]string{"max_connections": "300", "log_checkpoints": "off"},
	})
	return err
}

// address is where the server listens.
func (c *cluster) address() string {
	at, err := url.Parse(c.server.URL())
	if err != nil {
		return ""
	}
	return at.Host
}

// urlAt is the server's URL with another address, as that of a proxy.
func (c *cluster) urlAt(address string) (string, error) {
	at, err := url.Parse(c.server.URL())
	if err != nil {
		return "", fmt.Errorf("read the server's URL: %w", err)
	}
	at.Host = address
	return at.String(), nil
}

// stop is `pg_ctl stop -m immediate`: the server writes nothing more, and must recover at its next start. It returns
// when the server is gone.
func (c *cluster) stop() error {
	pid, err := c.postmaster()
	if err != nil {
		return err
	}
	if err := syscall.Kill(pid, syscall.SIGQUIT); err != nil {
		return fmt.Errorf("stop Postgres: %w", err)
	}
	for deadline := time.Now().Add(30 * time.Second); syscall.Kill(pid, 0) == nil; {
		if time.Now().After(deadline) {
			return errors.New("stop Postgres: it does not end")
		}
		<-time.After(5 * time.Millisecond)
	}
	return c.server.Stop() // which gives up the share in it
}

// remove ends the cluster and removes its data.
func (c *cluster) remove() error {
	return errors.Join(c.server.Stop(), os.RemoveAll(c.dir))
}

func (c *cluster) postmaster() (int, error) {
	found, err := filepath.Glob(filepath.Join(c.dir, "data-*", "postmaster.pid"))
	if err != nil || len(found) != 1 {
		return 0, fmt.Errorf("find Postgres's process: %d files, %w", len(found), err)
	}
	text, err := os.ReadFile(found[0])
	if err != nil {
		return 0, fmt.Errorf("find Postgres's process: %w", err)
	}
	line, _, _ := strings.Cut(string(text), "\n")
	pid, err := strconv.Atoi(strings.TrimSpace(line))
	if err != nil {
		return 0, fmt.Errorf("find Postgres's process: %w", err)
	}
	return pid, nil
}
