package api

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/tasktable/tasktable/store/storetest"
)

// readPlan is a part of a plan that was run.
type readPlan struct {
	NodeType string     `json:"Node Type"`
	Relation string     `json:"Relation Name"`
	Rows     float64    `json:"Actual Rows"`
	Loops    float64    `json:"Actual Loops"`
	Removed  float64    `json:"Rows Removed by Filter"`
	Recheck  float64    `json:"Rows Removed by Index Recheck"`
	Plans    []readPlan `json:"Plans"`
}

// read counts the lines that were read of the tables of the history.
func (p readPlan) read() (lines float64) {
	if p.Relation != "" {
		lines = p.Loops * (p.Rows + p.Removed + p.Recheck)
	}
	for _, child := range p.Plans {
		lines += child.read()
	}
	return lines
}

// A page of a large transaction costs as much as its lines. Postgres does not read the whole transaction, whatever its
// statistics say, and with and without a look at the parameters.
func TestPlanOfALargeTransaction(t *testing.T) {
	t.Parallel()
	conn, err := storetest.Pool(t).Acquire(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Release()
	exec := func(sql string) {
		t.Helper()
		if _, err := conn.Exec(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}
	const page, numbers = 100, 400
	exec(`INSERT INTO tasktable.scheduled_task_changes (revision, task_id, verb, outcome, changed_by)
		SELECT n, 'large', 'schedule', 'created', 'svc' FROM generate_series(1, 50000) AS n`)
	var tx int64
	if err := conn.QueryRow(t.Context(), `SELECT max(tx) FROM tasktable.scheduled_task_changes`).Scan(&tx); err != nil {
		t.Fatal(err)
	}
	exec(`PREPARE rest AS ` + restSQL)
	for _, statistics := range []string{`SELECT`, `ANALYZE tasktable.scheduled_task_changes`} {
		exec(statistics)
		for _, mode := range []string{"force_generic_plan", "force_custom_plan"} {
			exec(`SET plan_cache_mode = ` + mode)
			var text []byte
			explain := fmt.Sprintf(`EXPLAIN (ANALYZE, FORMAT JSON) EXECUTE rest (%d, 10000, %d, %d)`, tx, numbers, page)
			if err := conn.QueryRow(t.Context(), explain).Scan(&text); err != nil {
				t.Fatal(err)
			}
			var plans []struct{ Plan readPlan }
			if err := json.Unmarshal(text, &plans); err != nil || len(plans) != 1 {
				t.Fatalf("%d plans, %v", len(plans), err)
			}
			if got := plans[0].Plan; got.Rows != page || got.read() > numbers {
				t.Errorf("after %q, %s: %v lines, %v read, want %d, at most %d\n%s",
					statistics, mode, got.Rows, got.read(), page, numbers, text)
			}
		}
	}
}

// patient is a client that reads at once.
type patient struct{ *httptest.ResponseRecorder }

func (patient) SetWriteDeadline(time.Time) error { return nil }

// A client that comes from another node may have lines of a transaction that had not ended when this node last asked.
// It does not get them again.
func TestStreamFromAnotherNode(t *testing.T) {
	t.Parallel()
	pool := storetest.Pool(t)
	a, err := New(Config{Pool: pool, Authenticate: func(*http.Request) (Caller, error) { return Caller{}, nil }})
	if err != nil {
		t.Fatal(err)
	}
	const insert = `INSERT INTO tasktable.scheduled_task_changes (revision, task_id, verb, outcome, changed_by)
		VALUES ($1, $2, 'schedule', 'created', 'svc') RETURNING tx`
	var late, other int64
	tx, err := pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := tx.QueryRow(t.Context(), insert, 1001, "late").Scan(&late); err != nil {
		t.Fatal(err)
	}
	for number := range 2 {
		if err := pool.QueryRow(t.Context(), insert, 2000+number, "other").Scan(&other); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := a.events.lately(t.Context()); err != nil { // when the transaction was open
		t.Fatal(err)
	}
	if err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	s, err := a.newStream(t.Context(), Caller{Name: "all"}, cursor{{late, 1001}, {other, 0}}.String())
	if err != nil {
		t.Fatal(err)
	}
	page := patient{httptest.NewRecorder()}
	for range 2 {
		if _, err := s.send(t.Context(), eventWriter{page, http.NewResponseController(page)}); err != nil {
			t.Fatal(err)
		}
		a.events = &eventReader{api: a} // the next second
	}
	if sent := page.Body.String(); strings.Contains(sent, `"late"`) || !strings.Contains(sent, `"other"`) {
		t.Errorf("sent %s", sent)
	}
}
