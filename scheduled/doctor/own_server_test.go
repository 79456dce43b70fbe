package doctor

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/tasktable/tasktable/migrations"
	"github.com/tasktable/tasktable/store/localpg"
)

// A server of the test's own, set as servers are that keep what they have said they keep.
func TestAServerOfItsOwn(t *testing.T) {
	if testing.Short() {
		t.Skip("makes a cluster")
	}
	t.Parallel()
	dir, err := os.MkdirTemp("", "tasktable-doctor-") // not t.TempDir: nobody may enter that as another user
	ok(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	ok(t, os.Chmod(dir, 0o755))
	server, err := localpg.Start(t.Context(), localpg.Config{Dir: filepath.Join(dir, "postgres")})
	if errors.Is(err, localpg.ErrNoPostgres) || errors.Is(err, localpg.ErrUnsupported) {
		t.Skip(err)
	}
	ok(t, err)
	t.Cleanup(func() {
		if err := server.Stop(); err != nil {
			t.Error(err)
		}
	})
	p := at(t, server.URL())
	ok(t, migrations.Up(p.ctx, p.pool, ""))
	p.node()
	if report := p.examine(nil); report.Worst() != OK {
		t.Errorf("a new server is not well:\n%s", list(report))
	}

	for setting, test := range map[string]struct {
		check, want string
		level       Level
	}{
		"autovacuum":       {"autovacuum", "autovacuum is off on the whole server", Warning},
		"track_counts":     {"autovacuum", "autovacuum is off on the whole server", Warning},
		"full_page_writes": {"settings", "full_page_writes is off (set by: server): a crash", Error},
	} {
		p.exec(`ALTER SYSTEM SET ` + setting + ` = off`)
		p.reload(setting, "off")
		p.finds(p.examine(nil, test.check), test.check, test.level, test.want)
		p.exec(`ALTER SYSTEM RESET ` + setting)
		p.reload(setting, "on")
		p.well(p.examine(nil, test.check))
	}
	p.encrypted(t, dir)
}

// reload waits until new sessions have a setting.
func (p *patient) reload(setting, value string) {
	p.t.Helper()
	p.exec(`SELECT pg_reload_conf()`)
	p.until(setting+" is "+value, `SELECT current_setting($1) = $2`, setting, value)
	p.pool.Reset()
}

// encrypted has the server speak TLS, and looks at it with and without asking whose certificate it is.
func (p *patient) encrypted(t *testing.T, dir string) {
	certificate, key := selfSigned(t)
	authority := filepath.Join(dir, "ca.pem")
	ok(t, os.WriteFile(authority, []byte(certificate), 0o644))
	data := ask[string](p, `SELECT current_setting('data_directory')`)
	for name, content := range map[string]string{"server.crt": certificate, "server.key": key} {
		// The server writes them, so they are its own.
		p.exec(fmt.Sprintf(`COPY (SELECT line FROM unnest(string_to_array(%s, E'\n')) AS line) TO %s`,
			quoted(strings.TrimSpace(content)), quoted(filepath.Join(data, name))))
	}
	ok(t, os.Chmod(filepath.Join(data, "server.key"), 0o600))
	p.exec(`ALTER SYSTEM SET ssl = on`)
	p.reload("ssl", "on")
	look := func(mode string) Report {
		pool := poolOf(t, strings.Replace(p.url, "sslmode=disable", "sslmode="+mode, 1), nil)
		return p.examineBy(func(c *Config) { c.Pool, c.Only = pool, []string{"connection"} })
	}
	p.finds(look("require"), "connection", Info, "TLS 1.3, but the certificate is not verified")
	p.finds(look("verify-full&sslrootcert="+authority), "connection", OK, "TLS 1.3")
	p.finds(look("verify-ca&sslrootcert="+authority), "connection", OK, "TLS 1.3")
	p.finds(look("disable"), "connection", OK, "no TLS, on this machine")
}

// selfSigned is a certificate of 127.0.0.1 and its key.
func selfSigned(t *testing.T) (certificate, key string) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	ok(t, err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "test"},
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, NotBefore: time.Now().Add(-time.Hour),
		NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true,
	}
	signed, err := x509.CreateCertificate(rand.Reader, template, template, &private.PublicKey, private)
	ok(t, err)
	encoded, err := x509.MarshalPKCS8PrivateKey(private)
	ok(t, err)
	block := func(kind string, content []byte) string {
		return string(pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: content}))
	}
	return block("CERTIFICATE", signed), block("PRIVATE KEY", encoded)
}

// A link that leaves this machine, and has no TLS.
func TestNoTLSOnTheNetwork(t *testing.T) {
	t.Parallel()
	pool := poolOf(t, "postgres://u@db.example.org/x?sslmode=disable", nil)
	for address, level := range map[string]Level{"10.0.0.1": Info, "127.0.0.1": OK, "::1": OK} {
		e := &examination{config: Config{Pool: pool}}
		e.encryption(distant{net.ParseIP(address)})
		if got := e.report.Findings; len(got) != 1 || got[0].Level != level {
			t.Errorf("%s: %+v", address, got)
		}
	}
}

// distant is a connection as far as its other end's address goes.
type distant struct{ at net.IP }

func (d distant) RemoteAddr() net.Addr           { return &net.TCPAddr{IP: d.at, Port: 5432} }
func (distant) LocalAddr() net.Addr              { return &net.TCPAddr{} }
func (distant) Read([]byte) (int, error)         { return 0, net.ErrClosed }
func (distant) Write([]byte) (int, error)        { return 0, net.ErrClosed }
func (distant) Close() error                     { return nil }
func (distant) SetDeadline(time.Time) error      { return nil }
func (distant) SetReadDeadline(time.Time) error  { return nil }
func (distant) SetWriteDeadline(time.Time) error { return nil }
