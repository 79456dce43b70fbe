package notice_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tasktable/tasktable/handlers"
	"github.com/tasktable/tasktable/handlers/notice"
	"github.com/tasktable/tasktable/handlers/notice/rules"
	"github.com/tasktable/tasktable/handlers/webhook"
	"github.com/tasktable/tasktable/scheduled/scheduledtest"
	"github.com/tasktable/tasktable/store"
	"github.com/tasktable/tasktable/store/storetest"
	"github.com/tasktable/tasktable/store/storetest/leaks"
)

func TestMain(m *testing.M) {
	log.SetOutput(io.Discard) // net/http prints there what a server sends unasked
	storetest.Main(m, leaks.Check)
}

const (
	// canary is in URLs and tokens, and must never be in a message, a row or a log.
	canary = "cAnAry7x"
	secret = "whsec_cmVwbGFjZS10aGlzLXNlY3JldC1ieS15b3Vycw=="
)

var (
	tasks = store.New(store.Config{Service: "shop"})
	local = webhook.Config{Allow: []string{"127.0.0.0/8", "::1"}, Secrets: map[string][]string{"orders": {secret}}}
	nine  = time.Date(2035, 5, 1, 9, 0, 0, 0, time.UTC)
)

// bench runs tasks and notices in one transaction, at times of the test.
type bench struct {
	*testing.T
	tx      pgx.Tx
	rules   *rules.Rules
	harness *scheduledtest.Harness
	error   error // that of the tasks of type FAILING
}

func newBench(t *testing.T, config notice.Config) *bench {
	t.Helper()
	tx, err := storetest.Pool(t).Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	b := &bench{T: t, tx: tx, rules: rules.New(rules.Config{}), error: errors.New("out of paper")}
	t.Cleanup(func() { _ = tx.Rollback(context.Background()) })
	config.DB = tx
	made, err := notice.New(config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(made.CloseIdleConnections)
	registry, err := handlers.NewRegistry(handlers.Handle(made.Send),
		handlers.Func("FAILING", func(context.Context) error { return b.error }))
	if err != nil {
		t.Fatal(err)
	}
	b.harness = scheduledtest.New(t, tx, registry)
	return b
}

// benchWith is a bench with a target of a kind, whose receiver answers with the statuses, and with a rule.
func benchWith(t *testing.T, kind notice.Kind, rule rules.Rule, statuses ...int) (*bench, *receiver) {
	t.Helper()
	r := newReceiver(t, statuses...)
	b := newBench(t, r.target(kind))
	b.rule(rule, "")
	return b, r
}

// rule sets a rule for a recipient of a target or of an address, both named ops.
func (b *bench) rule(rule rules.Rule, email string) {
	b.Helper()
	recipient := rules.Recipient{Name: "ops", Email: email}
	if email == "" {
		recipient.Target = "ops"
	}
	b.recipient(recipient)
	if rule.Name == "" {
		rule.Name = "dead"
	}
	if rule.Events == nil {
		rule.Events = []rules.Event{rules.Failed, rules.Expired, rules.Lost}
	}
	if rule.Recipients == nil {
		rule.Recipients = []string{"ops"}
	}
	if _, err := b.rules.Set(b.Context(), b.tx, rule); err != nil {
		b.Fatal(err)
	}
}

func (b *bench) recipient(recipient rules.Recipient) {
	b.Helper()
	if _, err := b.rules.SetRecipient(b.Context(), b.tx, recipient); err != nil {
		b.Fatal(err)
	}
}

// failing schedules tasks of type FAILING at a time, each with one attempt.
func (b *bench) failing(at time.Time, ids ...string) {
	b.Helper()
	for _, id := range ids {
		b.schedule(store.Task{ID: id, At: at, MaxAttempts: 1, Payload: store.JSON(`{"type": "FAILING"}`)})
	}
}

// die has tasks fail at nine. It returns the notices that ran at once.
func (b *bench) die(ids ...string) []scheduledtest.Ran {
	b.Helper()
	b.failing(nine, ids...)
	return b.run(nine)
}

func (b *bench) schedule(task store.Task) {
	b.Helper()
	if _, err := tasks.Schedule(b.Context(), b.tx, task); err != nil {
		b.Fatal(err)
	}
}

// run runs what is due, and returns how many notices ended in which way.
func (b *bench) run(at time.Time) (notices []scheduledtest.Ran) {
	b.Helper()
	for _, ran := range b.harness.RunDueAt(b.Context(), at) {
		if ran.Type == "NOTICE" {
			notices = append(notices, ran)
		}
	}
	return notices
}

// rows are the rows of a query of texts, each as fmt prints it.
func (b *bench) rows(sql string, args ...any) []string {
	b.Helper()
	rows, err := b.tx.Query(b.Context(), sql, args...)
	if err != nil {
		b.Fatal(err)
	}
	found, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (string, error) {
		values, err := row.Values()
		return fmt.Sprint(values...), err
	})
	if err != nil {
		b.Fatal(err)
	}
	return found
}

// noticesSQL are the notices that exist.
const noticesSQL = `SELECT t.id || ' ' || t.status || ' ' || to_char(t.scheduled_at AT TIME ZONE 'UTC', 'DD HH24:MI:SS')
	|| ' ' || (SELECT count(*) FROM tasktable.notice_causes AS c WHERE c.notice_id = t.id)
	FROM tasktable.scheduled_tasks AS t WHERE t.type = 'NOTICE' ORDER BY t.id`

func (b *bench) want(what string, got []string, want ...string) {
	b.Helper()
	if fmt.Sprintf("%q", got) != fmt.Sprintf("%q", append([]string{}, want...)) {
		b.Errorf("%s:\n%q, want\n%q", what, got, want)
	}
}

// receiver is an HTTP server that keeps what it gets, and answers what the test says.
type receiver struct {
	*httptest.Server
	mu       sync.Mutex
	requests []request
	statuses []int // of the next answers; then 200
	header   http.Header
	hangs    bool // it answers nothing
}

type request struct {
	path, body string
	header     http.Header
}

func newReceiver(t *testing.T, statuses ...int) *receiver {
	t.Helper()
	r := &receiver{statuses: statuses, header: http.Header{}}
	r.Server = httptest.NewServer(r)
	t.Cleanup(r.Close)
	return r
}

// ServeHTTP repeats in its answer all that it gets, as a careless server does.
func (r *receiver) ServeHTTP(w http.ResponseWriter, got *http.Request) {
	body, _ := io.ReadAll(got.Body)
	if r.hangs {
		<-got.Context().Done()
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.requests = append(r.requests, request{got.URL.Path, string(body), got.Header})
	for name, values := range r.header {
		w.Header()[name] = values
	}
	if len(r.statuses) > 0 {
		w.WriteHeader(r.statuses[0])
		r.statuses = r.statuses[1:]
	}
	_ = got.Header.Write(w)
	_, _ = w.Write(body)
}

func (r *receiver) got() []request {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.requests
}

// target is the target ops of the given kind at the receiver.
func (r *receiver) target(kind notice.Kind) notice.Config {
	return notice.Config{Webhook: local, Targets: map[string]notice.Target{
		"ops": {Kind: kind, URL: r.URL + "/" + canary, Token: canary},
	}}
}
