//go:build linux || darwin

package localpg

import (
	"io"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"
	"testing"
)

func TestLastOutStopsTheServer(t *testing.T) {
	t.Parallel()
	dir := openDir(t)
	here := mustStart(t, dir)
	there := startChild(t, dir, nil, self(t))
	if here.URL() != there.url {
		t.Fatalf("two servers on one folder: %s and %s", here.URL(), there.url)
	}
	mustStop(t, here)
	if !isUp(t, there.url) {
		t.Fatal("the server was stopped under its other user")
	}
	there.leave(t)
	if isUp(t, there.url) {
		t.Fatal("the last one out has left the server running")
	}
}

func TestManyStartAtOnce(t *testing.T) {
	t.Parallel()
	dir := openDir(t)
	servers := make([]*Server, 6)
	var starting sync.WaitGroup
	for i := range servers {
		starting.Go(func() {
			server, err := Start(deadline(t), testConfig(dir))
			if err != nil {
				t.Error(err)
				return
			}
			servers[i] = server
		})
	}
	starting.Wait()
	for _, server := range servers {
		if server == nil {
			continue
		}
		if server.URL() != servers[0].URL() || !isUp(t, server.URL()) {
			t.Errorf("%s is not the one server, or is down", server.URL())
		}
		mustStop(t, server)
	}
	if servers[0] != nil && isUp(t, servers[0].URL()) {
		t.Error("all have left, and the server runs")
	}
}

func TestTakeoverFromAKilledParent(t *testing.T) {
	t.Parallel()
	dir := openDir(t)
	parent := startChild(t, dir, nil, self(t))
	mustExec(t, parent.url, keptSQL)
	parent.kill()
	heir := mustStart(t, dir)
	if heir.URL() != parent.url {
		t.Fatalf("started %s instead of taking over %s", heir.URL(), parent.url)
	}
	mustKeep(t, heir.URL())
	mustStop(t, heir)
	if isUp(t, heir.URL()) {
		t.Fatal("the heir was the last one and did not stop the server")
	}
}

func TestRecoveryAfterACrash(t *testing.T) {
	t.Parallel()
	dir := openDir(t)
	first := mustStart(t, dir)
	mustExec(t, first.URL(), keptSQL)
	check(t, syscall.Kill(postmaster(t, dir), syscall.SIGKILL))
	second := mustStart(t, dir) // while the orphans of the first are still ending
	mustKeep(t, second.URL())
	mustStop(t, second)
	if !isUp(t, second.URL()) {
		t.Fatal("the first holder is still there, yet the server was stopped")
	}
	mustStop(t, first)
	if isUp(t, second.URL()) {
		t.Fatal("all have left, and the server runs")
	}
}

// After a restart of a container the old process id belongs to some other process; Postgres by itself would
// then refuse to start.
func TestStalePidFileOfALivingProcess(t *testing.T) {
	t.Parallel()
	dir := openDir(t)
	mustStop(t, mustStart(t, dir))
	other := startChild(t, openDir(t), nil, self(t)) // any living process; its own server is on another folder
	crashed(t, dir, other.cmd.Process.Pid, 1)
	mustStop(t, mustStart(t, dir))
	if err := other.cmd.Process.Signal(syscall.Signal(0)); err != nil {
		t.Fatal("the innocent process was ended:", err)
	}
	other.leave(t)
}

func TestUnprivilegedUser(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Skip("the other tests are it")
	}
	nobody, err := user.Lookup("nobody")
	if err != nil {
		t.Skip(err)
	}
	uid, _ := strconv.ParseUint(nobody.Uid, 10, 32)
	gid, _ := strconv.ParseUint(nobody.Gid, 10, 32)
	dir := filepath.Join(openDir(t), "postgres")
	check(t, os.Mkdir(dir, 0o700))
	check(t, os.Chown(dir, int(uid), int(gid)))
	mustRefuse(t, testConfig(dir), "must belong to the caller")
	there := startChild(t, dir, &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}, copySelf(t))
	if !isUp(t, there.url) {
		t.Fatal("the server does not answer")
	}
	there.leave(t)
}

// copySelf copies the test binary out of the folder of mode 0700 in which go test keeps it.
func copySelf(t *testing.T) string {
	t.Helper()
	from, err := os.Open(self(t))
	check(t, err)
	defer func() { _ = from.Close() }()
	path := filepath.Join(openDir(t), "copy")
	to, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY, 0o755)
	check(t, err)
	if _, err := io.Copy(to, from); err != nil {
		t.Fatal(err)
	}
	check(t, to.Close())
	return path
}
