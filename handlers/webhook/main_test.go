package webhook_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"net/url"
	"testing"
	"time"

	"github.com/tasktable/tasktable/handlers"
	"github.com/tasktable/tasktable/handlers/webhook"
	"github.com/tasktable/tasktable/handlers/webhook/contract"
	"github.com/tasktable/tasktable/store/storetest"
	"github.com/tasktable/tasktable/store/storetest/leaks"
)

func TestMain(m *testing.M) {
	log.SetOutput(io.Discard) // net/http prints there what a server sends unasked
	storetest.Main(m, leaks.Check)
}

// patience is how long a test waits for an event.
const patience = time.Minute

// local allows the servers of the tests.
var local = []string{"127.0.0.0/8", "::1"}

// serve starts a server, which ends with the test.
func serve(t *testing.T, handle http.HandlerFunc) *httptest.Server {
	t.Helper()
	server := httptest.NewServer(handle)
	t.Cleanup(server.Close)
	return server
}

// answering is a handler that always answers the same.
func answering(status int, headers ...string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		for i := 0; i < len(headers); i += 2 {
			w.Header().Set(headers[i], headers[i+1])
		}
		w.WriteHeader(status)
	}
}

func newSender(t *testing.T, config webhook.Config) *webhook.Sender {
	t.Helper()
	sender, err := webhook.New(config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(sender.CloseIdleConnections)
	return sender
}

// attempt is an attempt as a node makes it, from the payload's JSON.
func attempt(payload any) *handlers.Execution {
	encoded, err := json.Marshal(payload)
	if raw, isRaw := payload.(string); isRaw {
		encoded, err = []byte(raw), nil
	}
	if err != nil {
		panic(err)
	}
	return &handlers.Execution{ID: "task-7", Type: "HTTP_REQUEST", Payload: encoded, AskedRevision: 31, Attempt: 2}
}

func run(ctx context.Context, t *testing.T, sender *webhook.Sender, e *handlers.Execution) error {
	t.Helper()
	registry, err := handlers.NewRegistry(handlers.Handle(sender.Send))
	if err != nil {
		t.Fatal(err)
	}
	return registry.Variant("HTTP_REQUEST").Run(ctx, e)
}

// send sends one request by a sender of its own, which allows local servers.
func send(t *testing.T, payload any) (contract.Result, error) {
	t.Helper()
	e := attempt(payload)
	err := run(t.Context(), t, newSender(t, webhook.Config{Allow: local}), e)
	var result contract.Result
	if err == nil {
		if err := json.Unmarshal(e.Effects().Result, &result); err != nil {
			t.Fatal(err)
		}
	}
	return result, err
}

func permanent(err error) bool {
	var target *handlers.PermanentError
	return errors.As(err, &target)
}

func waits(err error) bool {
	var target *handlers.WaitError
	return errors.As(err, &target)
}

func portOf(t *testing.T, server *httptest.Server) string {
	t.Helper()
	u, err := url.Parse(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	return u.Port()
}

// serveTLS starts a server with TLS and HTTP/2, and returns what a client needs to trust it.
func serveTLS(t *testing.T, handle http.HandlerFunc) (*httptest.Server, *tls.Config) {
	t.Helper()
	server := httptest.NewUnstartedServer(handle)
	server.EnableHTTP2 = true
	server.Config.ErrorLog = log.New(io.Discard, "", 0)
	server.StartTLS()
	t.Cleanup(server.Close)
	roots := x509.NewCertPool()
	roots.AddCert(server.Certificate())
	return server, &tls.Config{RootCAs: roots}
}
