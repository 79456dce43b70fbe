package doctor

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tasktable/tasktable/store/storetest"
)

// bouncer starts PgBouncer in transaction mode before the patient's database, and returns a pool that goes through it.
func (p *patient) bouncer() *pgxpool.Pool {
	p.t.Helper()
	program, err := exec.LookPath("pgbouncer")
	if err != nil {
		p.t.Skip("needs pgbouncer in PATH: ", err)
	}
	listener, err := net.Listen("tcp4", "127.0.0.1:0")
	ok(p.t, err)
	port := listener.Addr().(*net.TCPAddr).Port
	_ = listener.Close()
	dir, err := os.MkdirTemp("", "tasktable-pgbouncer-") // not t.TempDir: nobody may enter that as another user
	ok(p.t, err)
	p.t.Cleanup(func() { _ = os.RemoveAll(dir) })
	ok(p.t, os.Chmod(dir, 0o777))
	server := p.pool.Config().ConnConfig
	behind := fmt.Sprintf("host=%s port=%d dbname=%s user=%s", server.Host, server.Port, server.Database, server.User)
	if server.Password != "" { // PgBouncer refuses an empty one
		behind += " password=" + server.Password
	}
	settings := fmt.Sprintf("[databases]\ntest = %s\n[pgbouncer]\nlisten_addr = 127.0.0.1\nlisten_port = %d\n"+
		"auth_type = any\npool_mode = transaction\nunix_socket_dir =\n", behind, port)
	path := filepath.Join(dir, "pgbouncer.ini")
	ok(p.t, os.WriteFile(path, []byte(settings), 0o644))
	args := []string{path}
	if os.Getuid() == 0 {
		args = []string{"-u", "nobody", path}
	}
	ctx, cancel := context.WithCancel(context.Background())
	cmd := exec.CommandContext(ctx, program, args...)
	ok(p.t, cmd.Start())
	p.t.Cleanup(func() {
		cancel()
		_ = cmd.Wait()
	})
	pool := poolOf(p.t, fmt.Sprintf("postgres://anyone@127.0.0.1:%d/test?sslmode=disable&pool_max_conns=4", port), nil)
	for {
		if err := pool.Ping(p.ctx); err == nil {
			return pool
		}
		select {
		case <-p.ctx.Done():
			p.t.Fatal("pgbouncer does not answer")
		case <-time.After(20 * time.Millisecond):
		}
	}
}

func TestPgBouncer(t *testing.T) {
	p := newPatient(t)
	p.node()
	p.finding("pooler", OK, "no pooler")
	pool := p.bouncer()
	report := p.examineBy(func(c *Config) { c.Pool = pool })
	p.finds(report, "pooler", Error, "a node's session goes through a pooler")
	direct := func(ctx context.Context) (*pgx.Conn, error) {
		return pgx.ConnectConfig(ctx, p.pool.Config().ConnConfig.Copy())
	}
	report = p.examineBy(func(c *Config) { c.Pool, c.Connect = pool, direct })
	p.finds(report, "pooler", OK, "the pool goes through a pooler, and the session does not")
	for _, one := range report.Findings {
		if one.Level != OK && one.Check != "settings" {
			t.Errorf("behind a pooler: %+v", one)
		}
	}
	// What the doctor sets for itself does not stay on connections that others get.
	var timeout, path string
	if err := pool.QueryRow(p.ctx, "SELECT current_setting('statement_timeout'), current_setting('search_path')",
		pgx.QueryExecModeExec).Scan(&timeout, &path); err != nil {
		t.Fatal(err)
	}
	if timeout == "5s" || path == "pg_catalog, pg_temp" {
		t.Errorf("statement_timeout is %s, search_path %s", timeout, path)
	}
}

func TestTheSessionsURL(t *testing.T) {
	p := newPatient(t)
	other := storetest.URL(t)
	report := p.examineBy(func(c *Config) {
		c.Only = []string{"pooler"}
		c.Connect = func(ctx context.Context) (*pgx.Conn, error) { return pgx.Connect(ctx, other) }
	})
	p.finds(report, "pooler", Error, "leads to another server or database than DATABASE_URL")
	report = p.examineBy(func(c *Config) {
		c.Only = []string{"pooler"}
		c.Connect = func(ctx context.Context) (*pgx.Conn, error) {
			return pgx.Connect(ctx, "postgres://u:hunter2@127.0.0.1:1/x")
		}
	})
	found := p.finds(report, "pooler", Error, "a node's session cannot connect", "connection refused")
	if containsAll(found.Found, []string{"hunter2"}) {
		t.Errorf("it tells the password: %s", found.Found)
	}
}
