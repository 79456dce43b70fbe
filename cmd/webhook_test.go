package cmd

import (
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

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

// A node sends to a host that its options allow and signs by a secret from a file; without the options it refuses.
func TestServeSendsHTTPRequests(t *testing.T) {
	t.Parallel()
	requests := make(chan http.Header, 1)
	receiver := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { requests <- r.Header }))
	t.Cleanup(receiver.Close)
	file := filepath.Join(t.TempDir(), "secrets")
	if err := os.WriteFile(file, []byte("orders="+webhookSecret+"\norders="+olderSecret+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
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
		p.signal(syscall.SIGTERM)
		got := p.end()
		got.want(t, exitOK)
		if strings.Contains(got.stderr, webhookSecret[6:]) || strings.Contains(got.stderr, olderSecret[6:]) {
			t.Errorf("shows a secret:\n%s", got.stderr)
		}
	}
	if header := <-requests; len(strings.Fields(header.Get("Webhook-Signature"))) != 2 || len(requests) > 0 {
		t.Errorf("got %v, and %d more", header, len(requests))
	}
}
