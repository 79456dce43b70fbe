package webhook_test

import (
	"fmt"
	"log/slog"
	"net/http"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tasktable/tasktable/handlers/webhook"
	"github.com/tasktable/tasktable/handlers/webhook/contract"
	"github.com/tasktable/tasktable/store"
	"github.com/tasktable/tasktable/store/storetest"
)

// Sixty tasks fail at one path of a server. A task for another path of it runs at once, and so does one with a circuit
// of its own for the same path of the failing ones. Those that fail are put off again and again, and write one line of
// the history for each try, and one for the waits between two.
func TestAFailingPathStarvesNoOther(t *testing.T) {
	t.Parallel()
	pool := storetest.Pool(t)
	server := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("X-Works") == "" && r.URL.Path == "/fails" {
			w.WriteHeader(http.StatusInternalServerError)
		}
	})
	registry := newRegistry(t, webhook.Config{Allow: local,
		Circuit: webhook.Circuit{Open: 2 * time.Second, MaxOpen: 2 * time.Second}})
	schedule := func(id string, payload contract.HTTPRequest) {
		t.Helper()
		mustSchedule(t, pool, store.Task{ID: id, Payload: payload})
	}
	for i := range 60 {
		schedule(fmt.Sprint("fails-", i), contract.HTTPRequest{URL: server.URL + "/fails"})
	}
	runNode(t, pool, registry, slog.New(slog.DiscardHandler))
	until(t, pool, `SELECT count(*) > 0 FROM tasktable.waiting_tasks`)
	schedule("another path", contract.HTTPRequest{URL: server.URL + "/works"})
	schedule("a circuit of its own", contract.HTTPRequest{URL: server.URL + "/fails", Circuit: "own",
		Headers: map[string]string{"X-Works": "yes"}})
	until(t, pool, `SELECT count(*) = 2 FROM tasktable.scheduled_tasks WHERE status = 'COMPLETED'
		AND started_at - scheduled_at < interval '5 seconds'`)
	until(t, pool, `SELECT sum(waits) > 120 FROM tasktable.scheduled_tasks`)
	until(t, pool, `SELECT bool_and(waiting_since < next_attempt_at) FROM tasktable.waiting_tasks`)
	lines := rowsOf(t, pool, `SELECT 'lines', (count(*) FILTER (WHERE outcome = 'SNOOZED')
		<= 60 + count(*) FILTER (WHERE outcome = 'RETRIED'))::text FROM tasktable.scheduled_task_executions`)
	if lines["lines"] != "true" {
		t.Error("repeated waits write lines of the history")
	}
}

// until waits until a query says so.
func until(t *testing.T, pool *pgxpool.Pool, sql string) {
	t.Helper()
	ticker := time.NewTicker(20 * time.Millisecond)
	defer ticker.Stop()
	for deadline := time.Now().Add(patience); ; <-ticker.C {
		var is *bool
		if err := pool.QueryRow(t.Context(), sql).Scan(&is); err != nil {
			t.Fatal(err)
		}
		if is != nil && *is {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("never true: %s", sql)
		}
	}
}
