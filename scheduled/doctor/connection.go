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

// connection is about the way to the database: its encryption, how long it is, and whether it ends at a server that takes writes.
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
	case isTLS && server.TLSConfig != nil && server.TLSConfig.InsecureSkipVerify && server.TLSConfig.VerifyPeerCertificate == nil:
		e.info("sslmode=verify-full in the database URL, and sslrootcert with the server's authority",
			"%s, but nobody asks whose certificate it is: who sits in between reads along", tls.VersionName(encrypted.ConnectionState().Version))
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

// roundTrips are measured, of which the middle one counts: the first may wait for what the server has not yet in memory.
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
		e.warn("run nodes near the database: each start waits for a round trip to it, each outcome for some, and a backlog for thousands",
			"a round trip takes %s (the middle one of %d)", short(middle), roundTrips)
	} else {
		e.ok("a round trip takes %s", short(middle))
	}
	return nil
}

const standbySQL = `SELECT pg_is_in_recovery() AS standby`

type standbyRow struct{ Standby bool }

// standby says whether the server is one.
func (e *examination) standby(found standbyRow) bool {
	if found.Standby {
		e.fail("name all hosts in the database URL, as postgres://…@db1,db2/app?target_session_attrs=read-write, or one that moves to the primary",
			"the server is a standby: nothing can be scheduled or run on it")
	}
	return found.Standby
}

func (e *examination) writable(ctx context.Context) error {
	found, err := row[standbyRow](ctx, e, standbySQL)
	if err != nil {
		return err
	}
	if e.standby(found) {
		return nil
	}
	// Not transaction_read_only: this very transaction only reads.
	settings, err := e.sessionSettings(ctx, "default_transaction_read_only")
	if err != nil {
		return err
	}
	for _, setting := range settings {
		if setting.Value == "on" {
			e.fail(e.reset(setting),
				"transactions are read-only by default: nothing can be scheduled or run (default_transaction_read_only, set by: %s)",
				setting.Source)
		}
	}
	return nil
}

// unreached is the finding when nobody can connect. It has no password in it: pgx's errors have none.
func (e *examination) unreached(err error) {
	do := "see whether host and port of DATABASE_URL are right, the server runs, and the network lets this machine through"
	if said := new(pgconn.PgError); errors.As(err, &said) {
		switch said.Code {
		case "28P01", "28000":
			do = "correct user and password in DATABASE_URL; the server's pg_hba.conf must let the role in from here, and the role have LOGIN"
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
	e.check = "connection" // whichever came first
	e.fail(do, "%s", line(err.Error()))
}
