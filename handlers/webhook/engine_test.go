package webhook_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"go.opentelemetry.io/otel/trace"

	"github.com/tasktable/tasktable/handlers"
	"github.com/tasktable/tasktable/handlers/webhook"
	"github.com/tasktable/tasktable/handlers/webhook/contract"
	"github.com/tasktable/tasktable/scheduled"
	"github.com/tasktable/tasktable/scheduled/scheduledtest"
	"github.com/tasktable/tasktable/store"
	"github.com/tasktable/tasktable/store/inspect"
	"github.com/tasktable/tasktable/store/storetest"
)

var tasks = store.New(store.Config{Service: "shop"})

func newRegistry(t *testing.T, config webhook.Config) *handlers.Registry {
	t.Helper()
	registry, err := handlers.NewRegistry(handlers.Handle(newSender(t, config).Send))
	if err != nil {
		t.Fatal(err)
	}
	return registry
}

var nine = time.Date(2035, 5, 1, 9, 0, 0, 0, time.UTC)

// inline is a transaction in which tasks run at times of the test, and which is rolled back.
func inline(t *testing.T) (pgx.Tx, *scheduledtest.Harness) {
	t.Helper()
	tx, err := storetest.Pool(t).Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = tx.Rollback(context.Background()) })
	return tx, scheduledtest.New(t, tx, newRegistry(t, webhook.Config{Allow: local}))
}

func mustSchedule(t *testing.T, db store.DB, task store.Task) {
	t.Helper()
	if _, err := tasks.Schedule(t.Context(), db, task); err != nil {
		t.Fatal(err)
	}
}

func TestScheduleRefusesABadRequest(t *testing.T) {
	t.Parallel()
	_, err := tasks.Schedule(t.Context(), storetest.Pool(t), store.Task{
		Payload: contract.HTTPRequest{URL: "https://example.org", Headers: map[string]string{"Host": "other"}},
	})
	if !errors.Is(err, store.ErrInvalid) || !strings.Contains(err.Error(), "payload field headers must not have Host") {
		t.Errorf("got %v", err)
	}
}

// Once 20 calls have failed, further tasks wait, use up no attempt, and say for which host they wait.
func TestTheEngineWaitsForAHostThatFails(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	server := serve(t, answering(http.StatusInternalServerError))
	tx, harness := inline(t)
	for i := range 21 {
		mustSchedule(t, tx, store.Task{
			ID: fmt.Sprintf("request-%02d", i), At: nine.Add(time.Duration(i) * time.Second),
			Payload: contract.HTTPRequest{URL: server.URL + "/hooks"},
		})
	}
	var last scheduledtest.Ran
	outcomes := map[store.AttemptOutcome]int{}
	for _, ran := range harness.RunDueAt(ctx, nine.Add(time.Second*30)) {
		outcomes[ran.Outcome]++
		if ran.Outcome == "SNOOZED" {
			last = ran
		}
	}
	host := "127.0.0.1:" + portOf(t, server)
	if outcomes["RETRIED"] != 20 || outcomes["SNOOZED"] != 1 || !waits(last.Err) {
		t.Fatalf("outcomes %v, then %v", outcomes, last.Err)
	}
	row, err := tasks.Get(ctx, tx, last.ID)
	if err != nil || row.Attempt != 0 || row.Message == nil ||
		*row.Message != "send HTTP request: host "+host+" answered 500, and its circuit is open" ||
		row.Waits == nil || *row.Waits != 1 || row.WaitingSince == nil || !row.WaitingSince.Equal(row.ScheduledAt) {
		t.Errorf("row %+v, %v", row, err)
	}
	why, err := inspect.New(store.Config{}).Why(ctx, tx, last.ID)
	if err != nil {
		t.Fatal(err)
	}
	if story := fmt.Sprint(why.Story); !strings.Contains(story, "host "+host+" answered 500") {
		t.Errorf("the story does not name the host: %s", story)
	}
}

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

// A node works requests that go wrong in each way, at servers that repeat all that they get. No secret of the node is
// in its log, in the history or in results, and nothing of the payload is in the log, in an error or in the history.
func TestNoSecretEscapes(t *testing.T) {
	t.Parallel()
	const canary = "cAnAry7x"
	pool := storetest.Pool(t)
	echo := func(status int) string {
		return serve(t, func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Location", "http://10.0.0.1/"+canary+"?"+canary)
			w.WriteHeader(status)
			_ = r.Header.Write(w)
			_, _ = io.Copy(w, r.Body)
		}).URL
	}
	rude := raw(t, saying("HTTP/1.1 200 "+canary+"\r\n"+canary+"\r\n\r\n"))
	want := map[string]string{}
	for id, target := range map[string]string{
		"completed COMPLETED": echo(200), "refused FAILED": echo(403), "missing FAILED": echo(404), "limited FAILED": echo(429),
		"broken FAILED": echo(500), "moved FAILED": echo(302), "redirected FAILED": echo(307), "malformed FAILED": rude,
		"forbidden FAILED": "http://10.0.0.1:81", "bad FAILED": "ftp://" + canary, "unknown FAILED": "http://" + canary + ":x",
		"nobody FAILED": "http://127.0.0.1:1",
	} {
		id, status, _ := strings.Cut(id, " ")
		want[id] = status
		payload := fmt.Sprintf(`{"type": "HTTP_REQUEST", "url": "%s/%[2]s?key=%[2]s", "sign_with": "orders",
			"headers": {"Authorization": "Bearer %[2]s"}, "body": {"secret": "%[2]s"}}`, target, canary)
		mustSchedule(t, pool, store.Task{ID: id, Payload: store.JSON(payload), MaxAttempts: 1})
	}
	log := &journal{}
	config := webhook.Config{Allow: local, Secrets: map[string][]string{"orders": {secret}}}
	logger := slog.New(slog.NewTextHandler(log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	logger.Info("configured", "config", config, "text", fmt.Sprintf("%v %+v %#v %s", config, config, config, config))
	runNode(t, pool, newRegistry(t, config), logger)
	until(t, pool, `SELECT bool_and(finished_at IS NOT NULL) FROM tasktable.scheduled_tasks`)
	if states := rowsOf(t, pool, `SELECT id, status FROM tasktable.scheduled_tasks`); !maps.Equal(states, want) {
		t.Fatalf("states %v, want %v\n%s", states, want, log)
	}
	errorsSQL := `SELECT task_id || fence, coalesce(error, '') FROM tasktable.scheduled_task_executions`
	rowsSQL := `SELECT id, (to_jsonb(t) - 'payload' - 'result')::text FROM tasktable.scheduled_tasks AS t`
	resultsSQL := `SELECT id, coalesce(result::text, '') FROM tasktable.scheduled_tasks`
	places := map[string]string{
		"the log": log.String(), "executions": fmt.Sprint(rowsOf(t, pool, errorsSQL)),
		"rows": fmt.Sprint(rowsOf(t, pool, rowsSQL)),
	}
	for place, text := range places {
		if strings.Contains(text, canary) {
			t.Errorf("%s have a part of the payload: %s", place, text)
		}
	}
	places["results"] = fmt.Sprint(rowsOf(t, pool, resultsSQL))
	for place, text := range places {
		if strings.Contains(text, secret[6:]) || !strings.Contains(text, "answered 403") && place == "executions" {
			t.Errorf("%s: %s", place, text)
		}
	}
	if !strings.Contains(places["results"], canary) { // what the receiver itself answers is kept
		t.Errorf("results %s", places["results"])
	}
}

// rowsOf are the rows of a query of two texts.
func rowsOf(t *testing.T, pool *pgxpool.Pool, sql string) map[string]string {
	t.Helper()
	rows, err := pool.Query(t.Context(), sql)
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]string{}
	var key, value string
	if _, err := pgx.ForEachRow(rows, []any{&key, &value}, func() error {
		found[key] = value
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	return found
}

// runNode runs a node until the test ends.
func runNode(t *testing.T, pool *pgxpool.Pool, registry *handlers.Registry, logger *slog.Logger) {
	t.Helper()
	node, err := scheduled.New(scheduled.Config{Pool: pool, Handlers: registry, Logger: logger, Version: "test"})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- node.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

// On a node without a tracer the receiver finds the trace of the call that scheduled the task.
func TestTheCallersSpanReachesTheReceiver(t *testing.T) {
	t.Parallel()
	const caller = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	requests := make(chan http.Header, 1)
	server := serve(t, func(_ http.ResponseWriter, r *http.Request) { requests <- r.Header })
	tx, harness := inline(t)
	for _, traced := range []string{caller, ""} {
		ctx := trace.ContextWithSpanContext(t.Context(), store.SpanOf(traced))
		task := store.Task{At: nine, Payload: contract.HTTPRequest{URL: server.URL}}
		if _, err := tasks.Schedule(ctx, tx, task); err != nil {
			t.Fatal(err)
		}
		if ran := harness.RunDueAt(t.Context(), nine); len(ran) != 1 || ran[0].Outcome != "COMPLETED" {
			t.Fatalf("ran %+v", ran)
		}
		if got := (<-requests).Get("Traceparent"); got != traced {
			t.Errorf("traceparent %q, want %q", got, traced)
		}
	}
}
