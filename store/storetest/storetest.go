// Package storetest gives each test its own Postgres database, with all migrations applied.
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
// Each test process chooses its server once, when a test asks for the first database:
//
//  1. The server of TASKTABLE_TEST_DATABASE_URL. This is a postgres:// URL of a database whose user may create
//     databases. The tests' databases are created beside that database. The package connects to it, but changes
//     nothing in it.
//  2. A server of package localpg in its own folder, by a Postgres that is installed. The folder is in memory
//     (/dev/shm) if Linux has 4 GB free there, otherwise under os.TempDir. All test processes of the user share the
//     server. It runs with fsync=off. A crash of Postgres cannot break its data, but a power cut can. In that case
//     delete the folder.
//  3. A container of postgres:17-alpine, if the test package imports store/storetest/container and a Docker daemon
//     answers within a second. Each process has its own container, which is removed when the process ends. If the
//     container cannot be started, a line on stderr tells why, and the next way is taken.
//  4. As 2, by a Postgres that localpg downloads.
//
// TASKTABLE_TEST_DATABASE_URL=container takes the third way, also where a Postgres is installed. If that fails, the
// tests fail.
//
// # Databases
//
// The migrations run once, in a template database whose name contains their fingerprint. Each test gets a clone of
// the template. The next test process drops templates of other migrations, and databases of test processes that were
// killed, unless a process still uses them.
//
// Tests may run in parallel, in one process and in several. Databases are isolated from each other, but tests share
// everything that belongs to the whole server: roles, pg_stat_activity, the 800 connections, and the speed of the
// disk.
package storetest

import (
	"context"
	"net/url"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
)

const (
	prepareLimit = 3 * time.Minute // for the first database: to pull an image, start and migrate
	stepLimit    = time.Minute     // for each later statement, which is slow if two cores test many packages
	closeLimit   = 10 * time.Second
	poolConns    = 30
)

// URL returns the URL of a new database with all migrations applied in the default schema. When t ends, the database
// is dropped, even if the test has left connections open. If no database can be made, URL ends the test by t.Fatal.
func URL(t testing.TB) string {
	t.Helper()
	return fresh(t, true)
}

// EmptyURL is [URL] without the migrations.
func EmptyURL(t testing.TB) string {
	t.Helper()
	return fresh(t, false)
}

// Pool returns a pool of at most 30 connections on a new database, which is like that of [URL]. The pool is closed
// when t ends. The test fails if it has not released all connections by then.
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

// closePool gives up after a time, unlike Close. A leaked connection must be reported as such, and not as a test
// binary that is killed after ten minutes.
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
		t.Errorf("storetest: the test has not given back %d connections of its pool: unclosed rows, transaction "+
			"or Acquire", pool.Stat().AcquiredConns())
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

// urlOf returns the server's URL with another database.
func (s *server) urlOf(database string) string { return withDatabase(s.base, database) }

func withDatabase(base *url.URL, database string) string {
	u := *base
	u.Path, u.RawPath = "/"+database, ""
	query := u.Query()
	query.Del("dbname") // it would override the path
	query.Del("database")
	u.RawQuery = query.Encode()
	return u.String()
}
