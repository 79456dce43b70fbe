package doctor

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"slices"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
)

// connection checks the encryption of the connection, its round trip time, and whether the server takes writes.
func (e *examination) connection(ctx context.Context) error {
	e.encryption(e.tx.Conn().PgConn().Conn())
	if err := e.roundTrip(ctx); err != nil {
		return err
	}
	return e.writable(ctx)
}

func (e *examination) encryption(conn net.Conn) {
	server := e.config.Pool.Config().ConnConfig
	encrypted, isTLS := conn.(*tls.Conn)
	switch {
	case isTLS && server.TLSConfig != nil && server.TLSConfig.InsecureSkipVerify &&
		server.TLSConfig.VerifyPeerCertificate == nil:
		e.info("sslmode=verify-full in the database URL, and sslrootcert with the server's authority",
			"%s, but the certificate is not verified: an attacker in between can read everything",
			tls.VersionName(encrypted.ConnectionState().Version))
	case isTLS:
		e.ok("%s", tls.VersionName(encrypted.ConnectionState().Version))
	case conn.RemoteAddr().Network() == "unix" || isLoopback(conn.RemoteAddr()):
		e.ok("no TLS, on this machine")
	default:
		e.info("sslmode=verify-full in the database URL", "no TLS: payloads can be read on the way to %s", server.Host)
	}
}

func isLoopback(addr net.Addr) bool {
	tcp, ok := addr.(*net.TCPAddr)
	return ok && tcp.IP.IsLoopback()
}

// roundTrips is how many round trips are measured. Their median counts, because the first may wait for pages that the
// server does not have in memory yet.
const roundTrips = 5

func (e *examination) roundTrip(ctx context.Context) error {
	var times []time.Duration
	for range roundTrips {
		began := time.Now()
		if _, err := e.tx.Exec(ctx, "SELECT 1"); err != nil {
			return err
		}
		times = append(times, time.Since(began))
	}
	slices.Sort(times)
	if middle := times[roundTrips/2]; middle > e.config.limits.roundTrip {
		e.warn("run nodes near the database: each start waits for one round trip, each outcome for some, and a "+
			"backlog for thousands", "a round trip takes %s (the median of %d)", short(middle), roundTrips)
	} else {
		e.ok("a round trip takes %s", short(middle))
	}
	return nil
}

const standbySQL = `SELECT pg_is_in_recovery()`

// standby reports whether the server is a standby.
func (e *examination) standby(is bool) bool {
	if is {
		e.fail("name all hosts in the database URL, such as postgres://…@db1,db2/app?target_session_attrs=read-write, "+
			"or a host name that moves to the primary",
			"the server is a standby: nothing can be scheduled or run on it")
	}
	return is
}

func (e *examination) writable(ctx context.Context) error {
	found, err := value[bool](ctx, e, standbySQL)
	if err != nil {
		return err
	}
	if e.standby(found) {
		return nil
	}
	// It does not ask for transaction_read_only, because this transaction itself is READ ONLY.
	settings, err := e.sessionSettings(ctx, "default_transaction_read_only")
	if err != nil {
		return err
	}
	for _, setting := range settings {
		if setting.Value == "on" {
			e.fail(e.reset(setting),
				"transactions are read-only by default: nothing can be scheduled or run "+
					"(default_transaction_read_only, set by: %s)",
				setting.Source)
		}
	}
	return nil
}

// unreached adds the finding that no connection is possible. It contains no password, because pgx's errors contain
// none.
func (e *examination) unreached(err error) {
	do := "check that host and port of DATABASE_URL are right, that the server runs, and that the network lets this " +
		"machine connect"
	if said := new(pgconn.PgError); errors.As(err, &said) {
		switch said.Code {
		case "28P01", "28000":
			do = "correct user and password in DATABASE_URL; pg_hba.conf of the server must let the role in from " +
				"here, and the role must have LOGIN"
		case "3D000":
			do = "create the database, or correct its name in DATABASE_URL"
		case "53300":
			do = "close connections, raise max_connections, or give the nodes smaller pools (--max-conns)"
		case "57P03":
			do = "wait: the server starts, stops or recovers"
		case "42501":
			do = "GRANT CONNECT ON DATABASE … TO the role"
		}
	}
	e.check = "connection" // even if another check noticed it
	e.fail(do, "%s", line(err.Error()))
}
