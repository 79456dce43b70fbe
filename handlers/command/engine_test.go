//go:build unix

package command_test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/tasktable/tasktable/handlers/command"
	"github.com/tasktable/tasktable/handlers/command/contract"
	"github.com/tasktable/tasktable/scheduled"
	"github.com/tasktable/tasktable/store"
	"github.com/tasktable/tasktable/store/inspect"
	"github.com/tasktable/tasktable/store/storetest"
)

var tasks = store.New(store.Config{Service: "shop"})

// journal is a log that a test reads while a node writes it.
type journal struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (j *journal) Write(line []byte) (int, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.text.Write(line)
}

func (j *journal) String() string {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.text.String()
}

// runNode runs a node with the commands. It returns a function that stops it, which the test's end calls, too.
func runNode(t *testing.T, pool *pgxpool.Pool, config scheduled.Config, commands map[string]command.Command) (stop func()) {
	t.Helper()
	var err error
	if config.Handlers, err = newRegistry(commands); err != nil {
		t.Fatal(err)
	}
	config.Pool, config.Version = pool, "test"
	if config.Logger == nil {
		config.Logger = slog.New(slog.DiscardHandler)
	}
	node, err := scheduled.New(config)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- node.Run(ctx) }()
	stop = sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(stop)
	return stop
}

func schedule(t *testing.T, pool *pgxpool.Pool, task store.Task) {
	t.Helper()
	if _, err := tasks.Schedule(t.Context(), pool, task); err != nil {
		t.Fatal(err)
	}
}

// become waits until the task has the status.
func become(t *testing.T, pool *pgxpool.Pool, id string, status store.Status) (row store.Row) {
	t.Helper()
	waitFor(t, id+" is "+string(status), func() bool {
		var err error
		if row, err = tasks.Get(t.Context(), pool, id); err != nil {
			t.Fatal(err)
		}
		if row.FinishedAt != nil && row.Status != status {
			t.Fatalf("%s is %s: %s", id, row.Status, *row.Message)
		}
		return row.Status == status
	})
	return row
}

// A command may take longer than the task expects, because the handler extends the lease.
func TestTheEngineWaitsForACommand(t *testing.T) {
	t.Parallel()
	pool := storetest.Pool(t)
	runNode(t, pool, scheduled.Config{}, map[string]command.Command{"slow": shell("sleep 3; echo done")})
	schedule(t, pool, store.Task{ID: "slow", Payload: contract.Exec{Command: "slow"}, ExpectedExecutionTime: time.Second,
		MaxAttempts: 1})
	row := become(t, pool, "slow", store.StatusCompleted)
	if !strings.Contains(string(row.Result), `"stdout": "done\n"`) || row.Message == nil ||
		!strings.HasPrefix(*row.Message, "slow ended with exit code 0 after 3.") {
		t.Errorf("row %+v, result %s", row, row.Result)
	}
}

// A cancelled task ends its program. A stopped node ends it too, and the task waits for another node.
func TestTheEngineEndsACommand(t *testing.T) {
	t.Parallel()
	pool := storetest.Pool(t)
	folder := t.TempDir()
	c := shell("echo $$ >$1; exec sleep 1000")
	c.ExtraArgs = command.ExtraArgs{Max: 1, Pattern: ".+"}
	stop := runNode(t, pool, scheduled.Config{ShutdownTimeout: -1}, map[string]command.Command{"long": c})
	begin := func(id string) (file string) {
		file = filepath.Join(folder, id)
		schedule(t, pool, store.Task{ID: id, Payload: contract.Exec{Command: "long", Args: []string{file}}})
		waitFor(t, id+" runs", func() bool { return read(file) != "" })
		return file
	}
	cancelled := begin("cancelled")
	if _, err := tasks.Cancel(t.Context(), pool, "cancelled"); err != nil {
		t.Fatal(err)
	}
	waitFor(t, "the program has ended", func() bool { return ended(t, cancelled) })
	interrupted := begin("interrupted")
	stop()
	waitFor(t, "the program has ended", func() bool { return ended(t, interrupted) })
	if row := become(t, pool, "interrupted", store.StatusQueued); row.Attempt != 0 {
		t.Errorf("row %+v", row)
	}
	become(t, pool, "cancelled", store.StatusCancelled)
}

// A name that the node does not have fails its task, and why names the node that has it. By its type, the task finds
// that node.
func TestWhichNodeCould(t *testing.T) {
	t.Parallel()
	pool := storetest.Pool(t)
	stop := runNode(t, pool, scheduled.Config{Service: "one"}, map[string]command.Command{"report": shell("")})
	schedule(t, pool, store.Task{ID: "lost", Payload: contract.Exec{Command: "backup"}})
	row := become(t, pool, "lost", store.StatusFailed)
	if row.Attempt != 1 || *row.Message != "this node has no command backup; it has report" {
		t.Errorf("row %+v, %s", row, *row.Message)
	}
	why := func() string {
		t.Helper()
		e, err := inspect.New(store.Config{}).Why(t.Context(), pool, "lost")
		if err != nil {
			t.Fatal(err)
		}
		return e.Sentence
	}
	if got := why(); !strings.Contains(got, "it has report; no running node has command backup") {
		t.Errorf("why: %s", got)
	}
	runNode(t, pool, scheduled.Config{Service: "two"}, map[string]command.Command{"backup": shell("")})
	schedule(t, pool, store.Task{ID: "found", Payload: store.JSON(`{"type": "EXEC:backup"}`)})
	become(t, pool, "found", store.StatusCompleted)
	got := why()
	if !strings.Contains(got, "; node 2 (") || !strings.Contains(got, ", two test) has command backup, "+
		"and runs tasks of type EXEC:backup") {
		t.Errorf("why: %s", got)
	}
	stop()
}

// A node works commands that print their secrets, in each way that a task can end. No secret is in the log, the history,
// the rows or the metrics.
func TestNoSecretEscapes(t *testing.T) {
	t.Parallel()
	const canary = "cAnAry7x"
	pool := storetest.Pool(t)
	secret := func(script string) command.Command {
		c := shell(`echo "out $TOKEN" "$1"; echo "err $TOKEN" >&2; ` + script)
		c.Secrets, c.ExtraArgs = map[string]string{"TOKEN": written(t, canary)}, command.ExtraArgs{Max: 1, Pattern: "[a-z]+"}
		return c
	}
	late := secret("sleep 1000")
	late.Timeout = 500 * time.Millisecond
	want := map[string]store.Status{
		"completed": store.StatusCompleted, "failed": store.StatusFailed, "killed": store.StatusFailed,
		"late": store.StatusFailed, "refused": store.StatusFailed,
	}
	log, registry := &journal{}, prometheus.NewRegistry()
	logger := slog.New(slog.NewTextHandler(log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	runNode(t, pool, scheduled.Config{Logger: logger, Metrics: registry}, map[string]command.Command{
		"completed": secret("exit 0"), "failed": secret("exit 1"), "killed": secret("kill -9 $$"), "late": late,
		"refused": secret("exit 0"),
	})
	for id := range want {
		payload := contract.Exec{Command: id}
		if id == "refused" {
			payload.Args = []string{canary} // of a payload, and broken
		}
		schedule(t, pool, store.Task{ID: id, Payload: payload, MaxAttempts: 1})
	}
	for id, status := range want {
		become(t, pool, id, status)
	}
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	places := map[string]string{"the log": log.String(), "the metrics": fmt.Sprint(families)}
	for place, sql := range map[string]string{
		"the history": `SELECT string_agg(e::text, ' ') FROM tasktable.scheduled_task_executions AS e`,
		"the rows":    `SELECT string_agg((to_jsonb(t) - 'payload')::text, ' ') FROM tasktable.scheduled_tasks AS t`,
	} {
		var text string
		if err := pool.QueryRow(t.Context(), sql).Scan(&text); err != nil {
			t.Fatal(err)
		}
		places[place] = text
	}
	for place, text := range places {
		if strings.Contains(text, canary) {
			t.Errorf("%s has the secret: %s", place, text)
		}
	}
	for place, shows := range map[string]string{
		"the log": "err [TOKEN]", "the history": "exit code 1: err [TOKEN]", "the rows": `out [TOKEN]`,
		"the metrics": "EXEC",
	} {
		if !strings.Contains(places[place], shows) {
			t.Errorf("%s shows no %s: %s", place, shows, places[place])
		}
	}
}
