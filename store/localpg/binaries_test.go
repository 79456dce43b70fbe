//go:build linux || darwin

package localpg

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	embeddedpostgres "github.com/fergusstrange/embedded-postgres"
)

// bareMachine hides the installed Postgres and the network. Tests that use it do not run in parallel.
func bareMachine(t *testing.T, download func(into string) error) {
	t.Helper()
	oldPlaces, oldFetch := places, fetch
	t.Cleanup(func() { places, fetch = oldPlaces, oldFetch })
	t.Setenv("PATH", openDir(t))
	places = nil
	fetch = func(_ embeddedpostgres.PostgresVersion, into, _ string) error { return download(into) }
}

func noNetwork(string) error { return errors.New("no route to Maven") }

func TestNoPostgresAnywhere(t *testing.T) {
	bareMachine(t, noNetwork)
	dir := openDir(t)
	_, err := Start(deadline(t), testConfig(dir))
	if !errors.Is(err, ErrNoPostgres) {
		t.Fatal("got", err)
	}
	for _, want := range []string{"none is installed", "no route to Maven", "install", "DATABASE_URL=", "docker run"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("the error does not mention %q:\n%v", want, err)
		}
	}
	nothingIsLeft(t, dir)
}

func TestNoDownload(t *testing.T) {
	bareMachine(t, func(string) error { t.Error("downloaded"); return nil })
	cfg := testConfig(openDir(t))
	cfg.NoDownload = true
	if _, err := Start(deadline(t), cfg); !errors.Is(err, ErrNoPostgres) || !errors.Is(err, errDownloadsOff) {
		t.Fatal("got", err)
	}
}

func TestTooOldIsRejectedByName(t *testing.T) {
	bareMachine(t, noNetwork)
	old := openDir(t)
	script(t, old, "postgres", `echo "postgres (PostgreSQL) 9.6.24"`)
	script(t, old, "initdb", "exit 1")
	places = []string{old}
	_, err := Start(deadline(t), testConfig(openDir(t)))
	if !errors.Is(err, ErrNoPostgres) || !strings.Contains(err.Error(), "version 9 is older than 14") {
		t.Fatal("got", err)
	}
}

func TestDownloadIsKept(t *testing.T) {
	real, oldMajor := installed(t), downloadMajor
	t.Cleanup(func() { downloadMajor = oldMajor })
	downloadMajor = real.major
	downloads := 0
	bareMachine(t, func(into string) error {
		downloads++
		bin := filepath.Join(into, "bin")
		if err := os.Mkdir(bin, 0o700); err != nil { // as under a strict umask
			return err
		}
		for _, name := range []string{"postgres", "initdb"} {
			text := fmt.Sprintf("#!/bin/sh\nexec %s/%s \"$@\"\n", real.dir, name)
			if err := os.WriteFile(filepath.Join(bin, name), []byte(text), 0o700); err != nil {
				return err
			}
		}
		return nil
	})
	dir := openDir(t)
	for range 2 {
		mustStop(t, mustStart(t, dir))
	}
	if downloads != 1 {
		t.Fatalf("downloaded %d times, want once", downloads)
	}
}

func TestHangingServerIsGivenUpAndEnded(t *testing.T) {
	bareMachine(t, noNetwork)
	bin := openDir(t)
	// sh has no PATH here
	script(t, bin, "postgres", `[ "$1" = --version ] && echo "postgres (PostgreSQL) 15.1" && exit
echo still thinking
exec /bin/sleep 600`)
	script(t, bin, "initdb", `echo 15 > "$2/PG_VERSION"`)
	places = []string{bin}
	dir := openDir(t)
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	_, err := Start(ctx, testConfig(dir))
	if !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "still thinking") {
		t.Fatal("got", err)
	}
	alive, err := openLock(filepath.Join(dir, "server.lock"))
	check(t, err)
	defer alive.release()
	if err := alive.wait(deadline(t)); err != nil {
		t.Fatal("the server given up still runs:", err)
	}
}

func TestDataDecidesTheVersion(t *testing.T) {
	bareMachine(t, noNetwork)
	var all []string
	for _, major := range []int{14, 16, 15} {
		bin := filepath.Join(openDir(t), fmt.Sprint(major))
		check(t, os.Mkdir(bin, 0o755))
		script(t, bin, "postgres", fmt.Sprintf(`echo "postgres (PostgreSQL) %d.1"`, major))
		script(t, bin, "initdb", "exit 1")
		all = append(all, filepath.Dir(bin)+"/*")
	}
	places = all
	f := mustOpen(t, openDir(t))
	for _, step := range []struct {
		data string
		want int
	}{{"", 14}, {"data-15", 15}, {"data-16", 16}, {"data-17", 16}, {"data-99", 16}, {"data-150.unfinished-1", 16}} {
		if step.data != "" {
			check(t, os.Mkdir(f.path(step.data), 0o700))
		}
		got, err := f.choose(deadline(t), slog.New(slog.DiscardHandler))
		if err != nil || got.major != step.want {
			t.Errorf("after %q: version %d (%v), want %d", step.data, got.major, err, step.want)
		}
	}
}

func TestWrongVersionInDataFolder(t *testing.T) {
	t.Parallel()
	dir := openDir(t)
	f := mustOpen(t, dir)
	data := f.path(dataName(installed(t).major))
	check(t, os.Mkdir(data, 0o700))
	mustRefuse(t, testConfig(dir), "is not a data folder of Postgres")
	check(t, os.WriteFile(filepath.Join(data, "PG_VERSION"), []byte("13\n"), 0o600))
	mustRefuse(t, testConfig(dir), "holds data of Postgres 13")
}

func TestParseMajor(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]int{
		"postgres (PostgreSQL) 15.14 (Debian 15.14-0+deb12u1)\n": 15,
		"postgres (PostgreSQL) 18beta1":                          18,
		"postgres (PostgreSQL) 19devel":                          19,
		"postgres (PostgreSQL) 13.2":                             0,
		"sh: not found":                                          0,
	} {
		if got, err := parseMajor(text); got != want || (err == nil) != (want > 0) {
			t.Errorf("%q: got %d, %v; want %d", text, got, err, want)
		}
	}
}

func script(t *testing.T, dir, name, text string) {
	t.Helper()
	check(t, os.WriteFile(filepath.Join(dir, name), []byte("#!/bin/sh\n"+text+"\n"), 0o755))
	check(t, os.Chmod(filepath.Join(dir, name), 0o755))
}

func installed(t *testing.T) binaries {
	t.Helper()
	f := mustOpen(t, openDir(t))
	found, err := f.installed(deadline(t))
	if len(found) == 0 {
		t.Skip("there is no Postgres installed:", err)
	}
	return found[0]
}
