// Package storetest gives each test a Postgres database of its own, already migrated.
//
//	func TestMain(m *testing.M) { storetest.Main(m) }
//
//	func TestSchedule(t *testing.T) {
//		t.Parallel()
//		if _, err := tasks.Schedule(t.Context(), storetest.Pool(t), task); err != nil {
//			t.Fatal(err)
//		}
//	}
//
// # Server
//
// It is chosen once per test process, at the first database asked for:
//
//  1. TASKTABLE_TEST_DATABASE_URL, a postgres:// URL of a database whose user may create databases. They are
//     created beside it; the database itself is connected to and otherwise left alone.
//  2. A container of postgres:17-alpine, if the test package imports store/storetest/container and a Docker daemon
//     answers within 2 seconds. One per process, removed at its end. If it cannot be started, a line on stderr says
//     why and the next way is taken.
//  3. A server of package localpg in a folder of its own, in memory (/dev/shm) where Linux has 4 GB free of it, else under
//     os.TempDir; shared by all test processes of the user. It runs with fsync=off: a power cut can break its data (delete the folder then), a crash cannot.
//
// # Databases
//
// The migrations run once, into a template database whose name carries their fingerprint, and each test gets a
// clone of it. Templates of other migrations, and databases of test processes that were killed, are dropped by
// the next test process, unless a process still uses them.
//
// Tests may run in parallel, in one process and in several. Databases are isolated; what belongs to the whole
// server is not: roles, pg_stat_activity, the 800 connections, and the speed of the disk.
package storetest

import (
	"context"
	"net/url"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
)

const (
	prepareLimit = 3 * time.Minute // the first database: pulling an image, starting, migrating
	stepLimit    = time.Minute     // each later statement; two cores and many packages can be slow
	closeLimit   = 10 * time.Second
	poolConns    = 30
)

// URL returns the URL of a fresh database with all migrations applied in the default schema. The database is
// dropped when t ends, with whatever connections the test left. It ends the test where none can be had.
func URL(t testing.TB) string {
	t.Helper()
	return fresh(t, true)
}

// EmptyURL is [URL] without the migrations.
func EmptyURL(t testing.TB) string {
	t.Helper()
	return fresh(t, false)
}

// Pool returns a pool of at most 10 connections on a database as of [URL]. It is closed when t ends; a test
// that by then has not given back every connection fails.
func Pool(t testing.TB) *pgxpool.Pool {
	t.Helper()
	config, err := pgxpool.ParseConfig(URL(t))
	if err != nil {
		t.Fatalf("storetest: reading the URL of the test's database: %v", err)
	}
	config.MaxConns = poolConns
	pool, err := pgxpool.NewWithConfig(context.Background(), config)
	if err != nil {
		t.Fatalf("storetest: opening a pool: %v", err)
	}
	t.Cleanup(func() { closePool(t, pool, closeLimit) })
	return pool
}

// closePool does not wait for ever, as Close does: a leaked connection is to be seen as such and not as a
// test binary that is killed after ten minutes.
func closePool(t testing.TB, pool *pgxpool.Pool, wait time.Duration) {
	closed := make(chan struct{})
	go func() {
		pool.Close()
		close(closed)
	}()
	limit := time.NewTimer(wait)
	defer limit.Stop()
	select {
	case <-closed:
	case <-limit.C:
		t.Errorf("storetest: the test has not given back %d connections of its pool: unclosed rows, transaction or Acquire", pool.Stat().AcquiredConns())
	}
}

func fresh(t testing.TB, migrated bool) string {
	t.Helper()
	s, err := shared()
	if err != nil {
		t.Fatalf("storetest: no Postgres for tests: %v", err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), prepareLimit)
	defer cancel()
	template := emptyTemplate
	if migrated {
		if template, err = s.template(); err != nil {
			t.Fatalf("storetest: preparing the template database: %v", err)
		}
	}
	name, err := s.create(ctx, template)
	if err != nil {
		t.Fatalf("storetest: %v", err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), stepLimit)
		defer cancel()
		if err := s.drop(ctx, name); err != nil {
			t.Errorf("storetest: %v", err)
		}
	})
	return s.urlOf(name)
}

// urlOf is the server's URL with another database.
func (s *server) urlOf(database string) string { return withDatabase(s.base, database) }

func withDatabase(base *url.URL, database string) string {
	u := *base
	u.Path, u.RawPath = "/"+database, ""
	query := u.Query()
	query.Del("dbname") // would win over the path
	query.Del("database")
	u.RawQuery = query.Encode()
	return u.String()
}
