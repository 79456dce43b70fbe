package cmd

import (
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tasktable/tasktable/handlers/webhook"
	"github.com/tasktable/tasktable/store/storetest"
)

const (
	webhookSecret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
	olderSecret   = "whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8="
)

func TestWebhookOptions(t *testing.T) {
	t.Parallel()
	var found map[string][]string
	for given, want := range map[string][]string{
		"orders=" + webhookSecret:                                                         {webhookSecret},
		"orders=" + webhookSecret + ",orders=" + olderSecret:                              {webhookSecret, olderSecret},
		"orders=" + webhookSecret + "\n\r\norders=" + olderSecret + "\n":                  {webhookSecret, olderSecret},
		"orders=" + webhookSecret + ", other=" + olderSecret + " , orders=" + olderSecret: {webhookSecret, olderSecret},
	} {
		if err := secrets(&found)(given); err != nil || !slices.Equal(found["orders"], want) {
			t.Errorf("%q: %v, %v", given, slices.Sorted(maps.Keys(found)), err)
		}
	}
	var hosts []string
	if err := targets(&hosts)("10.1.0.0/16, *.example.org"); err != nil ||
		!slices.Equal(hosts, []string{"10.1.0.0/16", "*.example.org"}) {
		t.Errorf("%q, %v", hosts, err)
	}
}

func TestWebhookCircuitOption(t *testing.T) {
	t.Parallel()
	before := webhook.Circuit{Calls: 7}
	for given, want := range map[string]webhook.Circuit{
		"off":            {Off: true},
		"20,30s,15m":     {Calls: 20, Open: 30 * time.Second, MaxOpen: 15 * time.Minute},
		"1,1s,1s":        {Calls: 1, Open: time.Second, MaxOpen: time.Second},
		"100000,24h,24h": {Calls: 100000, Open: 24 * time.Hour, MaxOpen: 24 * time.Hour},
		"":               before,
		"on":             before,
		"20,30s":         before,
		"20,30s,15m,1h":  before,
		"0,30s,15m":      before,
		"100001,30s,15m": before,
		"20,30,15m":      before,
		"20,0s,15m":      before,
		"20,30s,0s":      before,
		"20,30s,29s":     before,
		"off,30s,15m":    before,
		"-1,30s,15m":     before,
	} {
		found := before
		if err := circuit(&found)(given); found != want || (err != nil) != (want == before) {
			t.Errorf("%q: %+v, %v; want %+v", given, found, err, want)
		}
	}
}

// A node sends to a host that its options allow and signs by a secret from a file; without the options it refuses.
func TestServeSendsHTTPRequests(t *testing.T) {
	t.Parallel()
	requests := make(chan http.Header, 1)
	receiver := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { requests <- r.Header }))
	t.Cleanup(receiver.Close)
	file := written(t, "secrets", "orders="+webhookSecret+"\norders="+olderSecret+"\n")
	for _, test := range []struct {
		variables    []string
		args         []string
		status, says string
	}{
		{
			[]string{"TASKTABLE_WEBHOOK_SECRETS_FILE=" + file},
			[]string{"--webhook-allow=127.0.0.1", "--webhook-timeout=20s"}, "COMPLETED", "answered 200",
		},
		{
			[]string{"TASKTABLE_WEBHOOK_SECRETS_FILE=" + file, "TASKTABLE_WEBHOOK_ALLOW=127.0.0.1"},
			[]string{"--webhook-deny=127.0.0.0/8"}, "FAILED", "the host is refused",
		},
		{
			[]string{"TASKTABLE_WEBHOOK_SECRETS=orders=" + webhookSecret}, nil, "FAILED", "the host is refused",
		},
	} {
		url := storetest.URL(t)
		p := start(t, append(test.variables, "DATABASE_URL="+url, "TASKTABLE_LOG_LEVEL=debug"),
			append([]string{"serve"}, test.args...)...)
		execute(t, url, `SELECT tasktable.schedule('{"type": "HTTP_REQUEST", "url": "`+receiver.URL+
			`/hooks", "sign_with": "orders"}', id => 'order-42')`)
		ask(t, url, `SELECT status FROM tasktable.scheduled_tasks WHERE finished_at IS NOT NULL`, test.status)
		ask(t, url, `SELECT message LIKE '%`+test.says+`%' FROM tasktable.scheduled_tasks`, "true")
		got := p.stop()
		if strings.Contains(got.stderr, webhookSecret[6:]) || strings.Contains(got.stderr, olderSecret[6:]) {
			t.Errorf("shows a secret:\n%s", got.stderr)
		}
	}
	if header := <-requests; len(strings.Fields(header.Get("Webhook-Signature"))) != 2 || len(requests) > 0 {
		t.Errorf("got %v, and %d more", header, len(requests))
	}
}

// --webhook-circuit sets when a circuit opens. --webhook-keep-error-body keeps the body of a failed answer. The metrics
// count the tasks that wait.
func TestServeWaitsForAHostThatFails(t *testing.T) {
	t.Parallel()
	receiver := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		http.Error(w, "out of paper", http.StatusServiceUnavailable)
	}))
	t.Cleanup(receiver.Close)
	url := storetest.URL(t)
	p, address := probed(t, []string{"DATABASE_URL=" + url}, "--webhook-allow=127.0.0.1", "--webhook-circuit=1,1h,1h",
		"--webhook-keep-error-body")
	for i, outcome := range []string{"RETRIED", "SNOOZED"} { // the first one opens the circuit
		execute(t, url, fmt.Sprintf(`SELECT tasktable.schedule('{"type": "HTTP_REQUEST", "url": "%s"}', id => 'task-%d')`,
			receiver.URL, i))
		ask(t, url, fmt.Sprintf(`SELECT outcome FROM tasktable.scheduled_task_executions WHERE task_id = 'task-%d'
			ORDER BY fence LIMIT 1`, i), outcome)
	}
	ask(t, url, `SELECT error LIKE '%answered 503%out of paper%' FROM tasktable.scheduled_task_executions
		WHERE outcome = 'RETRIED'`, "true")
	ask(t, url, `SELECT next_attempt_at > now() + interval '50 minutes' FROM tasktable.waiting_tasks
		WHERE id = 'task-1'`, "true")
	scraped(t, address, `\ntasktable_webhook_open_circuits 1\n`,
		`tasktable_tasks_waited_total\{type="HTTP_REQUEST"\} [1-9]`)
	p.stop()
}
