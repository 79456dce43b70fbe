package webhook_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/tasktable/tasktable/handlers/webhook"
	"github.com/tasktable/tasktable/handlers/webhook/contract"
)

const secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"

// received is a request as a server got it.
type received struct {
	method, body string
	header       http.Header
}

// recorder is a server's handler that keeps the requests and answers 200.
func recorder(requests chan<- received) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		requests <- received{r.Method, string(body), r.Header}
		w.WriteHeader(http.StatusOK)
	}
}

func TestRedirects(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		method string
		status int
		want   string // the method at the end; or a part of the error
	}{
		{"GET", 301, "GET"},
		{"GET", 302, "GET"},
		{"GET", 303, "GET"},
		{"HEAD", 302, "HEAD"},
		{"GET", 307, "GET"},
		{"POST", 307, "POST"},
		{"PUT", 308, "PUT"},
		{"POST", 301, "answered 301 to POST 127.0.0.1 (Moved Permanently)"},
		{"POST", 302, "answered 302 to POST 127.0.0.1 (Found)"},
		{"DELETE", 303, "answered 303 to DELETE 127.0.0.1 (See Other)"},
		{"GET", 300, "answered 300 to GET 127.0.0.1 (Multiple Choices)"},
		{"GET", 304, "answered 304 to GET 127.0.0.1 (Not Modified)"},
	} {
		t.Run(fmt.Sprint(test.method, " ", test.status), func(t *testing.T) {
			t.Parallel()
			requests := make(chan received, 1)
			mux := http.NewServeMux()
			mux.HandleFunc("/end", recorder(requests))
			mux.HandleFunc("/{$}", answering(test.status, "Location", "/end?a=1"))
			server := serve(t, mux.ServeHTTP)
			payload := contract.HTTPRequest{Method: test.method, URL: server.URL}
			if test.method == "POST" || test.method == "PUT" {
				payload.Body = "hello"
			}
			result, err := send(t, payload)
			if len(test.want) > 4 {
				if port := ":" + portOf(t, server); !permanent(err) ||
					!strings.Contains(strings.ReplaceAll(err.Error(), port, ""), test.want) {
					t.Errorf("got %v, want %s", err, test.want)
				}
				return
			}
			if err != nil || result.Status != http.StatusOK {
				t.Fatalf("result %+v, %v", result, err)
			}
			if got := <-requests; got.method != test.want || (payload.Body == nil) != (got.body == "") ||
				got.header.Get("Idempotency-Key") != "task-7:31" {
				t.Errorf("arrived as %+v", got)
			}
		})
	}
}

func TestAnExpectedRedirectIsNotFollowed(t *testing.T) {
	t.Parallel()
	server := serve(t, answering(http.StatusFound, "Location", "/elsewhere"))
	result, err := send(t, contract.HTTPRequest{
		Method: "GET", URL: server.URL, ExpectedStatus: []contract.StatusRange{"300-399"},
	})
	if err != nil || result.Status != http.StatusFound || result.Headers["Location"] != "/elsewhere" {
		t.Errorf("result %+v, %v", result, err)
	}
}

func TestRedirectsEnd(t *testing.T) {
	t.Parallel()
	calls := make(chan string, 100)
	server := serve(t, func(w http.ResponseWriter, r *http.Request) {
		calls <- r.URL.Path
		http.Redirect(w, r, r.URL.Path+"x", http.StatusTemporaryRedirect)
	})
	_, err := send(t, contract.HTTPRequest{URL: server.URL + "/"})
	if !permanent(err) || !strings.Contains(err.Error(), "redirects more than 5 times") || len(calls) != 6 {
		t.Errorf("%d calls, then %v", len(calls), err)
	}
}

// Another origin gets nothing that authenticates the node to the first one, also if it sends the request back.
func TestAnotherOriginGetsNoSecrets(t *testing.T) {
	t.Parallel()
	requests := make(chan received, 2)
	end := serve(t, recorder(requests))
	var first string
	middle := serve(t, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		requests <- received{r.Method, string(body), r.Header}
		http.Redirect(w, r, first+"/back", http.StatusTemporaryRedirect)
	})
	start := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/back" {
			http.Redirect(w, r, end.URL, http.StatusTemporaryRedirect)
			return
		}
		if r.Header.Get("Webhook-Signature") == "" || r.Header.Get("Authorization") == "" {
			t.Error("the first origin gets no signature")
		}
		http.Redirect(w, r, middle.URL, http.StatusTemporaryRedirect)
	})
	first = start.URL
	sender := newSender(t, webhook.Config{Allow: local, Secrets: map[string][]string{"orders": {secret}}})
	err := run(t.Context(), t, sender, attempt(contract.HTTPRequest{
		URL: start.URL, Body: map[string]int{"order": 42}, SignWith: "orders",
		Headers: map[string]string{"Authorization": "Bearer canary", "X-Api-Key": "canary", "Accept": "text/plain",
			"Cookie": "canary"},
	}))
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		got := <-requests
		for name, values := range got.header {
			if strings.HasPrefix(name, "Webhook-") || strings.Contains(strings.Join(values, " "), "canary") {
				t.Errorf("another origin gets %s: %s", name, values)
			}
		}
		if got.body != `{"order":42}` || got.header.Get("Content-Type") != "application/json" ||
			got.header.Get("Accept") != "text/plain" {
			t.Errorf("another origin gets %+v", got)
		}
	}
}

func TestRedirectsToForbiddenAddresses(t *testing.T) {
	t.Parallel()
	for location, want := range map[string]string{
		"http://169.254.169.254/latest/meta-data/": "the host is refused",
		"http://10.0.0.1/":                         "the host is refused",
		"http://[::ffff:169.254.169.254]/":         "the host is refused",
		"http://2852039166/":                       "the host is refused",
		"//192.168.0.1/":                           "the host is refused",
		"ftp://example.org/":                       "no address for a request",
		"file:///etc/passwd":                       "no address for a request",
		"gopher://127.0.0.1:11211/_stats":          "no address for a request",
		"http://user:pass@example.org/":            "no address for a request",
		"http://":                                  "no address for a request",
		"http://[::1":                              "no address for a request",
		"javascript:alert(1)":                      "no address for a request",
	} {
		t.Run(location, func(t *testing.T) {
			t.Parallel()
			server := serve(t, answering(http.StatusFound, "Location", location))
			_, err := send(t, contract.HTTPRequest{Method: "GET", URL: server.URL})
			if !permanent(err) || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "pass") {
				t.Errorf("got %v, want %q", err, want)
			}
		})
	}
}

func TestARedirectDoesNotGiveUpTLS(t *testing.T) {
	t.Parallel()
	plain := serve(t, func(http.ResponseWriter, *http.Request) { t.Error("the request goes on without TLS") })
	server, roots := serveTLS(t, answering(http.StatusTemporaryRedirect, "Location", plain.URL))
	sender := newSender(t, webhook.Config{Allow: local, TLSConfig: roots})
	err := run(context.Background(), t, sender, attempt(contract.HTTPRequest{URL: server.URL}))
	if !permanent(err) || !strings.Contains(err.Error(), "from https to http") {
		t.Errorf("got %v", err)
	}
}
