package storetest

import (
	"context"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

func deadline(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), stepLimit)
	t.Cleanup(cancel)
	return ctx
}

// ok ends the test if a call has failed.
func ok(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func mustShare(t *testing.T) *server {
	t.Helper()
	s, err := shared()
	ok(t, err)
	return s
}

func exists(t *testing.T, s *server, database string) (there bool) {
	t.Helper()
	if err := s.admin.QueryRow(
		deadline(t), "SELECT EXISTS (SELECT FROM pg_database WHERE datname = $1)", database,
	).Scan(&there); err != nil {
		t.Fatal(err)
	}
	return there
}

func mustCreate(t *testing.T, s *server, name string) {
	t.Helper()
	if _, err := s.admin.Exec(deadline(t), "CREATE DATABASE "+quote(name)+" TEMPLATE "+emptyTemplate); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.drop(context.Background(), name); err != nil {
			t.Error(err)
		}
	})
}

func TestDatabaseIsDroppedAtTheEnd(t *testing.T) {
	t.Parallel()
	s := mustShare(t)
	var name string
	t.Run("test", func(t *testing.T) {
		ctx := deadline(t)
		conn, err := pgx.Connect(ctx, URL(t)) // and left open: its end must not need the test's cooperation
		ok(t, err)
		t.Cleanup(func() { _ = conn.Close(context.Background()) })
		name = conn.Config().Database
		if !exists(t, s, name) {
			t.Fatal("the database is not there during the test")
		}
	})
	if exists(t, s, name) {
		t.Fatal("the database is still there")
	}
}

func TestLeftoversAreDroppedAndLivingOnesKept(t *testing.T) {
	t.Parallel()
	s, ctx := mustShare(t), deadline(t)
	living := newNames(s.names.beside)
	holder, err := pgx.Connect(ctx, s.base.String())
	ok(t, err)
	defer func() { _ = holder.Close(context.Background()) }()
	template := living.template(living.test(0)) // other runs of this test are on the same server
	if _, err := holder.Exec(ctx, "SELECT pg_advisory_lock($1, $2), pg_advisory_lock_shared($3, $4)",
		lockProcess, living.process, lockTemplate, hash(template)); err != nil {
		t.Fatal(err)
	}
	keep := []string{living.test(1), template, newNames(s.names.beside).test(1) + "_of_somebody"}
	gone := []string{
		newNames(s.names.beside).test(7),
		living.template(living.test(1)),
		newNames(4_000_000_000).test(1), // beside a database that is no more
	}
	for _, name := range append(gone, keep...) {
		mustCreate(t, s, name)
	}
	for _, name := range gone {
		for exists(t, s, name) { // another process may be at it, and then this call leaves it to that one
			ok(t, s.dropLeftovers(ctx))
		}
	}
	for _, name := range keep {
		if !exists(t, s, name) {
			t.Error("dropped, though in use:", name)
		}
	}
}

func TestTemplateIsMadeOnceAndNamedAfterTheMigrations(t *testing.T) {
	t.Parallel()
	s := mustShare(t)
	first, err := s.prepareTemplate()
	ok(t, err)
	var before, after uint32
	oid := "SELECT oid FROM pg_database WHERE datname = $1"
	ok(t, s.admin.QueryRow(deadline(t), oid, first).Scan(&before))
	second, err := s.prepareTemplate()
	ok(t, err)
	ok(t, s.admin.QueryRow(deadline(t), oid, second).Scan(&after))
	if first != second || before != after {
		t.Errorf("the template was made again: %s (%d) and %s (%d)", first, before, second, after)
	}
	if s.names.template("one") == s.names.template("two") {
		t.Error("other migrations have the same template")
	}
	if len(newNames(4_294_967_295).template("x")) > 63 || len(newNames(4_294_967_295).test(1<<40)) > 63 {
		t.Error("the names are longer than Postgres keeps")
	}
}

// The server given by the environment is one of this run's databases: the test binary runs itself.
func TestGivenServer(t *testing.T) {
	t.Parallel()
	binary, err := os.Executable()
	ok(t, err)
	cmd := exec.CommandContext(deadline(t), binary, "-test.run=^TestPoolIsUsable$", "-test.v")
	cmd.Env = append(os.Environ(), URLVariable+"="+EmptyURL(t))
	out, err := cmd.CombinedOutput()
	if err != nil || !strings.Contains(string(out), "--- PASS: TestPoolIsUsable") {
		t.Fatalf("%v\n%s", err, out)
	}
}

func TestBadGivenURL(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"host=localhost dbname=x", "mysql://x", "postgres://us er:secret@%zz/"} {
		_, err := parseURL(text)
		if err == nil || !strings.Contains(err.Error(), "must be a URL of the form postgres://") {
			t.Errorf("%s: got %v", text, err)
		}
		if err != nil && strings.Contains(err.Error(), "secret") {
			t.Errorf("the error shows the password: %v", err)
		}
	}
}

func TestWithDatabase(t *testing.T) {
	t.Parallel()
	for from, want := range map[string]string{
		"postgres://u:p@h:5/a":                               "postgres://u:p@h:5/mine",
		"postgresql://h?sslmode=disable":                     "postgresql://h/mine?sslmode=disable",
		"postgres://h/a?dbname=b&sslmode=require":            "postgres://h/mine?sslmode=require",
		"postgres:///a?host=%2Fvar%2Frun%2Fpostgresql":       "postgres:///mine?host=%2Fvar%2Frun%2Fpostgresql",
		"postgres://u:p%40ss@[::1]:5433/a?application_name=": "postgres://u:p%40ss@[::1]:5433/mine?application_name=",
	} {
		base, err := parseURL(from)
		ok(t, err)
		if got := withDatabase(base, "mine"); got != want {
			t.Errorf("%s: got %s, want %s", from, got, want)
		}
	}
}

// failing records instead of failing, to test what a bad test gets to see.
type failing struct {
	testing.TB
	failed bool
}

func (f *failing) Errorf(string, ...any) { f.failed = true }

func TestLeakedConnectionFailsTheTest(t *testing.T) {
	t.Parallel()
	pool := Pool(t)
	conn, err := pool.Acquire(deadline(t))
	ok(t, err)
	bad := &failing{TB: t}
	closePool(bad, pool, 10*time.Millisecond)
	conn.Release()
	if !bad.failed {
		t.Fatal("a connection not given back goes unseen")
	}
}
