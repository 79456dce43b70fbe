//go:build unix

package scheduled

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tasktable/tasktable/store/storetest"
)

// Processes are heavy: only so many of their tests run at once, however many cores there are.
var processTests = make(chan struct{}, 3)

// field is the database of a test with processes, and the test's own view of it.
type field struct {
	t    *testing.T
	url  string
	pool *pgxpool.Pool
}

func newField(t *testing.T) *field {
	t.Helper()
	t.Parallel()
	processTests <- struct{}{}
	t.Cleanup(func() { <-processTests })
	f := &field{t: t, url: storetest.URL(t)}
	pool, err := openTestPool(context.Background(), f.url, "view", 5)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	f.pool = pool
	f.exec(recordsSQL)
	return f
}

func (f *field) exec(statement string, args ...any) {
	f.t.Helper()
	if _, err := f.pool.Exec(f.t.Context(), statement, args...); err != nil {
		f.t.Fatal(err)
	}
}

// count is the number, or any one value, that a query returns.
func (f *field) count(query string, args ...any) int {
	f.t.Helper()
	return ask[int](f, query, args...)
}

func ask[T any](f *field, query string, args ...any) (answer T) {
	f.t.Helper()
	if err := f.pool.QueryRow(f.t.Context(), query, args...).Scan(&answer); err != nil {
		f.t.Fatalf("%v: %s", err, query)
	}
	return answer
}

// until waits for a query to return true, and returns how long that took.
func (f *field) until(within time.Duration, what, query string, args ...any) time.Duration {
	f.t.Helper()
	begin := time.Now()
	eventually(f.t, within, what, func() bool { return ask[bool](f, query, args...) })
	return time.Since(begin)
}

// never fails the test when the query counts anything.
func (f *field) never(what, query string, args ...any) {
	f.t.Helper()
	if n := f.count(query, args...); n != 0 {
		f.t.Errorf("%d times: %s", n, what)
	}
}

// shut closes a gate, and returns what opens it.
func (f *field) shut(gate int64) (open func()) {
	f.t.Helper()
	conn, err := pgx.Connect(f.t.Context(), f.url)
	if err != nil {
		f.t.Fatal(err)
	}
	if _, err := conn.Exec(f.t.Context(), "SELECT pg_advisory_lock($1)", gate); err != nil {
		f.t.Fatal(err)
	}
	open = sync.OnceFunc(func() { _ = conn.Close(context.Background()) })
	f.t.Cleanup(open)
	return open
}

// leadingSQL names the node whose session has the leader's lock; $1 and $2 are the classes of the leader's and the nodes' locks.
const leadingSQL = `
SELECT n.number, substring(n.host FROM '[0-9]+$')::int
FROM pg_locks AS leader JOIN pg_locks AS own ON own.pid = leader.pid AND own.database = leader.database AND own.granted
JOIN tasktable.nodes AS n ON n.number = own.objid::bigint
WHERE leader.locktype = 'advisory' AND leader.granted AND leader.objsubid = 2 AND leader.classid::bigint = $1 AND leader.objid::bigint = 0
    AND leader.database = (SELECT oid FROM pg_database WHERE datname = current_database())
    AND own.locktype = 'advisory' AND own.objsubid = 2 AND own.classid::bigint = $2`

// leading is the node that leads, and its process; 0 when none does.
func (f *field) leading() (number int64, pid int) {
	f.t.Helper()
	row := f.pool.QueryRow(f.t.Context(), leadingSQL, uint32(lockClass("tasktable", "leader")), uint32(lockClass("tasktable", "node")))
	if err := row.Scan(&number, &pid); err != nil {
		return 0, 0
	}
	return number, pid
}

// process is a node in a process of its own: this binary.
type process struct {
	*field
	cmd  *exec.Cmd
	pid  int
	log  bytes.Buffer
	done chan struct{} // closed when it has ended
}

// start begins a node's process, and waits until it is registered.
func (f *field) start(change func(*childConfig)) *process {
	f.t.Helper()
	config := childConfig{URL: f.url, Slots: 20, ShutdownTimeout: 20 * time.Second}
	if change != nil {
		change(&config)
	}
	text, err := json.Marshal(config)
	if err != nil {
		f.t.Fatal(err)
	}
	// Not a context's: the test says by which signal it ends.
	p := &process{field: f, cmd: exec.Command(os.Args[0]), done: make(chan struct{})}
	p.cmd.Env = append(os.Environ(), childVariable+"="+string(text))
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // a signal for the tests is not for it
	p.cmd.Stdout, p.cmd.Stderr = &p.log, &p.log
	lifeline, err := p.cmd.StdinPipe()
	if err != nil {
		f.t.Fatal(err)
	}
	if err := p.cmd.Start(); err != nil {
		f.t.Fatal(err)
	}
	p.pid = p.cmd.Process.Pid
	go func() {
		_ = p.cmd.Wait() // how it ended is in ProcessState
		close(p.done)
	}()
	f.t.Cleanup(func() { p.clean(lifeline) })
	p.node(0)
	return p
}

func (p *process) clean(lifeline io.Closer) {
	_ = syscall.Kill(-p.pid, syscall.SIGKILL) // one that has ended is no error; a stopped one ends, too
	<-p.done
	_ = lifeline.Close()
	if path := os.Getenv("XLOG"); path != "" {
		_ = os.WriteFile(fmt.Sprintf("%s.%d", path, p.pid), p.log.Bytes(), 0o644)
	}
	if p.t.Failed() {
		p.t.Logf("process %d:\n%s", p.pid, lastLines(p.log.String(), 40))
	}
}

func lastLines(text string, n int) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	return strings.Join(lines[max(0, len(lines)-n):], "\n")
}

// node waits until the process has a node of a higher number than that, and returns its number.
func (p *process) node(after int64) (number int64) {
	p.t.Helper()
	eventually(p.t, 20*time.Second, fmt.Sprintf("process %d has a node after %d", p.pid, after), func() bool {
		select {
		case <-p.done:
			p.t.Fatalf("process %d ended: %s", p.pid, p.cmd.ProcessState)
		default:
		}
		number = ask[int64](p.field, `SELECT coalesce(max(number), 0) FROM tasktable.nodes WHERE dead_at IS NULL AND host LIKE '%/' || $1::int::text`, p.pid)
		return number > after
	})
	return number
}

func (p *process) signal(signal syscall.Signal) {
	p.t.Helper()
	if err := syscall.Kill(-p.pid, signal); err != nil {
		p.t.Fatalf("signal %v to process %d: %v", signal, p.pid, err)
	}
}

// kill ends the process at once, and returns when it is gone.
func (p *process) kill() {
	p.t.Helper()
	p.signal(syscall.SIGKILL)
	<-p.done
}

// ends waits for the process to exit by itself, and returns its exit code.
func (p *process) ends(within time.Duration) int {
	p.t.Helper()
	receive(p.t, p.done, within, fmt.Sprintf("process %d has ended", p.pid))
	return p.cmd.ProcessState.ExitCode()
}

// leads waits until a node of the process leads, and returns how long that took and the node's number.
func (p *process) leads(within time.Duration) (took time.Duration, number int64) {
	p.t.Helper()
	begin := time.Now()
	eventually(p.t, within, fmt.Sprintf("process %d leads", p.pid), func() bool {
		var pid int
		number, pid = p.leading()
		return pid == p.pid
	})
	return time.Since(begin), number
}

// runs waits until the process has begun the task.
func (p *process) runs(id string, within time.Duration) time.Duration {
	p.t.Helper()
	return p.until(within, fmt.Sprintf("process %d runs %s", p.pid, id), `SELECT EXISTS (SELECT 1 FROM runs WHERE task_id = $1 AND pid = $2)`, id, p.pid)
}
