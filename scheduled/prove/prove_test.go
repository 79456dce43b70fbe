package prove

import (
	"context"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tasktable/tasktable/scheduled/internal/throwaway"
	"github.com/tasktable/tasktable/store/storetest"
	"github.com/tasktable/tasktable/store/storetest/leaks"
)

func TestMain(m *testing.M) {
	if throwaway.IsProcess() { // a node that a proof kills
		if err := Child(context.Background(), os.Stdout, os.Stderr); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	storetest.Main(m, leaks.Check)
}

// trial is a short proof, and what it says.
type trial struct {
	Config
	t *testing.T

	mu       sync.Mutex
	database string
	said     []string
	standing Standing
}

func newTrial(t *testing.T) *trial {
	t.Helper()
	server, err := pgx.ParseConfig(storetest.EmptyURL(t))
	if err != nil {
		t.Fatal(err)
	}
	r := &trial{t: t}
	r.Config = Config{
		Server: server, Tasks: 300, Over: 3 * time.Second, Program: os.Args[0], Every: 100 * time.Millisecond,
		Say: r.say, Show: r.show,
	}
	return r
}

func (r *trial) say(format string, args ...any) {
	line := fmt.Sprintf(format, args...)
	r.t.Log(line)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.said = append(r.said, line)
	if name, found := strings.CutPrefix(line, "database "); found {
		r.database = name
	}
}

func (r *trial) show(s Standing) {
	r.t.Log(s)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.standing = s
}

func (r *trial) saw(text string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return strings.Contains(strings.Join(r.said, "\n"), text)
}

func (r *trial) run() (Result, error) {
	ctx, cancel := context.WithTimeout(r.t.Context(), 3*time.Minute)
	defer cancel()
	return Run(ctx, r.Config)
}

// connect opens a database of the trial's server; "" is the server's own.
func (r *trial) connect(database string) *pgx.Conn {
	r.t.Helper()
	config := r.Server.Copy()
	if database != "" {
		config.Database = database
	}
	conn, err := pgx.ConnectConfig(context.Background(), config) // also in a cleanup
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() { _ = conn.Close(context.Background()) })
	return conn
}

func (r *trial) wantDropped() {
	r.t.Helper()
	var there bool
	row := r.connect("").QueryRow(
		r.t.Context(), `SELECT EXISTS (SELECT 1 FROM pg_database WHERE datname = $1)`, r.database,
	)
	err := row.Scan(&there)
	if err != nil || there || r.database == "" {
		r.t.Errorf("database %q is still there: %t, %v", r.database, there, err)
	}
}

func found(result Result, promise, name string) int64 {
	for _, v := range result.Verdicts {
		for _, c := range v.Found {
			if v.Promise == promise && c.Name == name {
				return c.Value
			}
		}
	}
	return -1
}

func TestNodesAreKilledAndThePromisesHold(t *testing.T) {
	t.Parallel()
	r := newTrial(t)
	end := make(chan struct{}, 1)
	r.KillEvery, r.End, r.Over, r.Tasks = time.Second, end, time.Minute, 6000
	r.Show = func(s Standing) {
		r.show(s)
		if s.Kills >= 2 && s.TakenBack > 0 {
			press(end)
		}
	}
	result, err := r.run()
	if err != nil {
		t.Fatal(err)
	}
	if n := found(result, "no accepted task is lost", "accepted"); n == 0 || n != int64(r.standing.Scheduled) {
		t.Errorf("%d of %d tasks accepted", n, r.standing.Scheduled)
	}
	if k := result.Kills; k.Nodes < 2 || k.TakenBack == 0 || k.P99 <= 0 || k.Max < k.P99 {
		t.Errorf("kills %+v", k)
	}
	if len(result.Verdicts) != len(promises) || result.Delays.P50 <= 0 || result.Database != r.database || result.Kept {
		t.Errorf("result %+v", result)
	}
	if s := r.standing; s.Waiting != 0 || s.Lost != 0 || s.Kills != result.Kills.Nodes || s.Ran == 0 ||
		!strings.Contains(s.String(), "lost 0  twice 0  early 0") {
		t.Errorf("in the end it stood: %+v", s)
	}
	if !r.saw("comes in its place") {
		t.Errorf("no node was replaced: %q", r.said)
	}
	r.wantDropped()
}

// press presses a key of Config.
func press(key chan struct{}) {
	select {
	case key <- struct{}{}:
	default: // it is pressed
	}
}

func TestKeysKillAndEndEarly(t *testing.T) {
	t.Parallel()
	r := newTrial(t)
	kill, end := make(chan struct{}, 1), make(chan struct{}, 1)
	r.Over, r.Kill, r.End, r.Keep = time.Minute, kill, end, true
	r.Show = func(s Standing) {
		r.show(s)
		if s.Kills > 0 {
			press(end)
		} else if s.Ran > 0 {
			press(kill)
		}
	}
	result, err := r.run()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		drop := "DROP DATABASE " + pgx.Identifier{r.database}.Sanitize() + " WITH (FORCE)"
		if _, err := r.connect("").Exec(context.Background(), drop); err != nil {
			t.Error(err)
		}
	})
	if result.Kills.Nodes == 0 || found(result, "no accepted task is lost", "cancelled") == 0 || !result.Kept {
		t.Errorf("result %+v", result)
	}
	var tasks int // the database is still there
	err = r.connect(r.database).QueryRow(t.Context(), `SELECT count(*) FROM proof.accepted`).Scan(&tasks)
	if err != nil || tasks == 0 {
		t.Errorf("%d tasks, %v", tasks, err)
	}
}

func TestWhatKeepsAProofFromBeingMade(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		change func(r *trial)
		says   string
	}{
		"no program": {func(r *trial) { r.Program = os.DevNull }, "start a node"},
		"ended before a task was accepted": {func(r *trial) {
			end := make(chan struct{}, 1)
			end <- struct{}{}
			r.End, r.Tasks = end, 0
		}, "nothing is proven"},
		"a node ends by itself": {func(r *trial) {
			r.Over = time.Hour
			var once sync.Once
			r.Show = func(Standing) { once.Do(r.killOneBehindItsBack) }
		}, "ended by itself"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newTrial(t)
			c.change(r)
			if _, err := r.run(); err == nil || !strings.Contains(err.Error(), c.says) {
				t.Errorf("error %v", err)
			}
			r.wantDropped()
		})
	}
}

func (r *trial) killOneBehindItsBack() {
	var pid int
	row := r.connect(r.database).QueryRow(r.t.Context(), `SELECT substring(host FROM '[0-9]+$')::int
		FROM tasktable.nodes LIMIT 1`)
	if err := row.Scan(&pid); err != nil {
		r.t.Error(err)
		return
	}
	process, err := os.FindProcess(pid)
	if err == nil {
		err = process.Kill()
	}
	if err != nil {
		r.t.Error(err)
	}
}
