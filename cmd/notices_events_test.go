//go:build unix

package cmd

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tasktable/tasktable/store/storetest"
)

// newsroom is a database with a rule for all events, and nodes that send their notices to a mailbox.
type newsroom struct {
	*mailbox

	url, folder string
	variables   []string
	commands    string // the file of --commands
}

func newNewsroom(t *testing.T) *newsroom {
	t.Helper()
	n := &newsroom{mailbox: newMailbox(t), url: storetest.URL(t), folder: t.TempDir()}
	n.variables = []string{"DATABASE_URL=" + n.url}
	n.commands = written(t, "commands.yaml", `
commands:
  long: {path: /bin/sh, args: [-c, 'echo $$ >>pids; [ -e done ] || exec sleep 1000'], directory: `+n.folder+`}
  mended: {path: /bin/sh, args: [-c, 'test -e mended'], directory: `+n.folder+`}
`)
	run(t, n.variables, "notices", "recipients", "set", "ops", "--target=ops").want(t, exitOK)
	run(t, n.variables, "notices", "set", "all", "--event=failed,expired,lost,late,missed,unsuccessful,recovered",
		"--to=ops", "--digest=off", "--after=2s").want(t, exitOK)
	return n
}

func (n *newsroom) node() *process {
	n.t.Helper()
	return start(n.t, append(n.variables, "TASKTABLE_WEBHOOK_ALLOW=127.0.0.1",
		"TASKTABLE_NOTICE_TARGETS=ops=ntfy:"+n.URL+"/topic"), "serve", "--commands="+n.commands)
}

// tells waits until a notice tells the event of the task. The watch runs each second, and not each minute.
func (n *newsroom) tells(event, id string) {
	n.t.Helper()
	n.gets(func(one letter) bool {
		return strings.Contains(one.body, " "+id+" (") && strings.Contains(one.body, " "+event+": ") &&
			strings.Contains(one.body, "\ntasktable why "+id+"\n")
	}, func() { execute(n.t, n.url, `SELECT tasktable.run_now('notice-watch')`) })
}

// lock locks a task, as an application that forgot to end its transaction does. So the leader leaves it out.
func (n *newsroom) lock(id string) (unlock func()) {
	n.t.Helper()
	conn, err := pgx.Connect(n.t.Context(), n.url)
	if err != nil {
		n.t.Fatal(err)
	}
	n.t.Cleanup(func() { _ = conn.Close(context.Background()) })
	for _, sql := range []string{`BEGIN`, `SELECT FROM tasktable.scheduled_tasks WHERE id = '` + id + `' FOR UPDATE`} {
		if _, err := conn.Exec(n.t.Context(), sql); err != nil {
			n.t.Fatal(err)
		}
	}
	return func() {
		if err := conn.Close(n.t.Context()); err != nil {
			n.t.Fatal(err)
		}
	}
}

func (n *newsroom) touch(name string) {
	n.t.Helper()
	if err := os.WriteFile(filepath.Join(n.folder, name), nil, 0o600); err != nil {
		n.t.Fatal(err)
	}
}

// A node tells each event, from its cause to the message.
func TestANodeTellsEachEvent(t *testing.T) {
	t.Parallel()
	n := newNewsroom(t)
	p := n.node()
	ask(t, n.url, `SELECT count(*) FROM tasktable.scheduled_tasks WHERE id = 'notice-watch'`, "1")
	execute(t, n.url, `
		SELECT tasktable.schedule('{"type": "EXEC", "command": "mended"}', id => 'mends', max_attempts => 1);
		SELECT tasktable.schedule('{"type": "LOG"}', now() - interval '1 hour', expiration => '1 minute', id => 'expires');
		SELECT tasktable.schedule('{"type": "NOBODYS"}', now() - interval '1 hour', id => 'waits');
		SELECT tasktable.schedule_recurring('{"type": "LOG"}', '* * * * * *', 'misses');
		SELECT tasktable.schedule_recurring('{"type": "EXEC", "command": "mended"}', '* * * * * *', 'nightly',
			max_attempts => 1);
		UPDATE tasktable.scheduled_tasks SET created_at = now() - interval '1 hour' WHERE id = 'nightly'`)
	ask(t, n.url, `SELECT count(*) > 0 FROM tasktable.scheduled_tasks WHERE parent_id = 'misses'`, "true")
	unlock := n.lock("misses")
	for event, id := range map[string]string{
		"(EXEC) failed": "mends", "(LOG) expired": "expires", "(NOBODYS) late": "waits",
		"(LOG) missed fires": "misses", "(EXEC) without success": "nightly",
	} {
		n.tells(event, id)
	}
	n.touch("mended")
	unlock()
	execute(t, n.url, `SELECT tasktable.retry('mends'), tasktable.cancel('waits')`)
	for _, id := range []string{"mends", "waits", "misses", "nightly"} {
		n.tells("recovered", id)
	}
	p.stop()
}

// A node gets SIGKILL while its command runs. The kernel ends the program, another node runs the task again, and tells
// the lost attempt.
func TestANodeIsKilledWhileItsCommandRuns(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("only Linux ends the program")
	}
	t.Parallel()
	n := newNewsroom(t)
	first := n.node()
	execute(t, n.url, `SELECT tasktable.schedule('{"type": "EXEC", "command": "long"}', id => 'long')`)
	program := n.program()
	second := n.node()
	second.waitFor("serving")
	if err := syscall.Kill(program, 0); err != nil {
		t.Fatalf("the program does not run: %v", err)
	}
	n.touch("done") // so that the second run ends at once
	first.signal(syscall.SIGKILL)
	first.end()
	ask(t, n.url, `SELECT string_agg(e.outcome, ' ' ORDER BY e.fence) || ' ' || count(DISTINCT e.node)
		FROM tasktable.scheduled_task_executions AS e WHERE e.task_id = 'long'`, "LOST COMPLETED 2")
	if state := stateOf(program); state != "" && !strings.HasPrefix(state, "Z") {
		t.Errorf("the program of the killed node goes on: %s", state)
	}
	n.tells("(EXEC) lost an attempt", "long")
	second.stop()
}

// program waits for the first program of the command long, and returns its number.
func (n *newsroom) program() int {
	n.t.Helper()
	limit, look := time.NewTimer(waitLimit), time.NewTicker(5*time.Millisecond)
	defer limit.Stop()
	defer look.Stop()
	for {
		content, err := os.ReadFile(filepath.Join(n.folder, "pids"))
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			n.t.Fatal(err)
		}
		if line, _, whole := strings.Cut(string(content), "\n"); whole {
			number, err := strconv.Atoi(line)
			if err != nil {
				n.t.Fatal(err)
			}
			return number
		}
		select {
		case <-look.C:
		case <-limit.C:
			n.t.Fatal("the program never runs")
		}
	}
}

// stateOf is how ps shows a process, or "" if it is gone.
func stateOf(number int) string {
	output, _ := exec.Command("ps", "-o", "stat=", "-p", strconv.Itoa(number)).Output()
	return strings.TrimSpace(string(output))
}

// No node runs for two hours. The next leader forks the fires before the watch looks, and people are told all the same,
// but not of fires that a pause has held back, nor of those that somebody has made by hand.
func TestANodeTellsTheFiresThatWereMissedWithoutNodes(t *testing.T) {
	t.Parallel()
	n := newNewsroom(t)
	execute(t, n.url, `UPDATE tasktable.notice_rules SET after = '5 minutes'`)
	first := n.node()
	execute(t, n.url, `SELECT tasktable.schedule_recurring(payload::jsonb, '0 0 29 2 *', id, catch_up => policy,
			catch_up_paused => 'latest')
		FROM (VALUES ('nightly', '{"type": "LOG"}', 'latest'), ('edited', '{"type": "LOG"}', 'latest'),
			('left-out', '{"type": "LOG"}', 'none'), ('by-hand', '{"type": "LOG"}', 'latest'),
			('held', '{"type": "EXEC", "command": "mended"}', 'latest')) AS one (id, payload, policy)`)
	ask(t, n.url, `SELECT count(*) FROM tasktable.recurring_tasks WHERE next_fire IS NOT NULL AND id <> 'notice-watch'`,
		"5")
	first.stop()
	execute(t, n.url, `
		SELECT tasktable.cancel(id) FROM tasktable.scheduled_tasks WHERE parent_id = 'notice-watch';
		SELECT tasktable.delete(id) FROM tasktable.scheduled_tasks WHERE parent_id = 'notice-watch';
		UPDATE tasktable.scheduled_tasks SET next_attempt_at = now() - interval '2 hours'
		WHERE cron IS NOT NULL AND id <> 'by-hand';
		UPDATE tasktable.nodes SET marks = NULL; -- the leader has marked these lanes after that time
		SELECT tasktable.schedule_recurring('{"type": "LOG", "message": "new"}', '0 0 29 2 *', 'edited');
		SELECT tasktable.schedule_recurring('{"type": "LOG"}', '* * * * *', 'new',
			starts_at => now() - interval '1 day');
		SELECT tasktable.pause_scope('type', 'EXEC');
		UPDATE tasktable.pauses SET paused_at = now() - interval '3 hours', ends_at = now() - interval '1 hour';
		SELECT tasktable.fork_occurrence('by-hand', now() - interval '2 hours', NULL, 'ann', false, true)`)
	second := n.node()
	for _, id := range []string{"nightly", "edited", "left-out"} {
		n.gets(func(one letter) bool {
			return strings.Contains(one.body, " "+id+" (LOG) missed fires: ") &&
				strings.Contains(one.body, "\ntasktable why "+id+"\n")
		}, func() { execute(n.t, n.url, `SELECT tasktable.run_now('notice-watch')`) })
	}
	ask(t, n.url, `SELECT count(*) FROM tasktable.scheduled_tasks WHERE parent_id IN ('held', 'by-hand')`, "2")
	ask(t, n.url, `SELECT string_agg(c.task_id || ': ' || regexp_replace(c.detail, ' 2\S+ \S+ UTC', '', 'g'), ', '
			ORDER BY c.task_id)
		FROM tasktable.notice_causes AS c WHERE c.event = 'missed'`,
		"edited: its fire of happened at, left-out: its fire of was skipped at, nightly: its fire of happened at")
	for _, id := range []string{"nightly", "edited", "left-out"} {
		n.tells("recovered", id)
	}
	second.stop()
}
