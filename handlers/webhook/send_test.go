package webhook_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"
	"go.opentelemetry.io/otel/trace"

	"github.com/tasktable/tasktable/handlers"
	"github.com/tasktable/tasktable/handlers/webhook"
	"github.com/tasktable/tasktable/handlers/webhook/contract"
)

func TestWhatIsSent(t *testing.T) {
	t.Parallel()
	requests := make(chan received, 1)
	server := serve(t, recorder(requests))
	e := attempt(`{"type": "HTTP_REQUEST", "method": "PUT", "url": "` + server.URL + `/a?b=c",
		"body": {"order": 42, "text": "<ü>"}, "headers": {"x-shop": "events", "Accept": "text/plain"}}`)
	e.ID = "order 7/ü%"
	span := trace.NewSpanContext(trace.SpanContextConfig{
		TraceID: trace.TraceID{1}, SpanID: trace.SpanID{2}, TraceFlags: trace.FlagsSampled,
	})
	ctx := trace.ContextWithSpanContext(t.Context(), span)
	if err := run(ctx, t, newSender(t, webhook.Config{Allow: local}), e); err != nil {
		t.Fatal(err)
	}
	got := <-requests
	if got.method != "PUT" || got.body != `{"order":42,"text":"<ü>"}` {
		t.Errorf("sent %+v", got)
	}
	for name, want := range map[string]string{
		"Idempotency-Key": "order%207/%C3%BC%25:31", "Tasktable-Task-Id": "order%207/%C3%BC%25", "Tasktable-Attempt": "2",
		"Traceparent":  "00-01000000000000000000000000000000-0200000000000000-01",
		"Content-Type": "application/json", "X-Shop": "events", "Accept": "text/plain",
		"User-Agent": "Tasktable (+https://github.com/tasktable/tasktable)", "Webhook-Id": "", "Webhook-Signature": "",
		"Accept-Encoding": "", "Content-Length": "26",
	} {
		if value := got.header.Get(name); value != want {
			t.Errorf("%s is %q, want %q", name, value, want)
		}
	}
	if want := "127.0.0.1:" + portOf(t, server) + " answered 200"; e.Effects().Note != want {
		t.Errorf("note %q, want %q", e.Effects().Note, want)
	}
}

func TestBodies(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct{ payload, body, contentType string }{
		"none":              {`{}`, ``, ``},
		"null":              {`{"body": null}`, ``, ``},
		"an object":         {`{"body": { "b" : 1, "a": [1e3, 12345678901234567890] }}`, `{"b":1,"a":[1e3,12345678901234567890]}`, `application/json`},
		"a text":            {`{"body": "hi"}`, `"hi"`, `application/json`},
		"a number":          {`{"body": 7}`, `7`, `application/json`},
		"another JSON type": {`{"body": {}, "headers": {"content-type": "application/cloudevents+json; charset=utf-8"}}`, `{}`, `application/cloudevents+json; charset=utf-8`},
		"a text as it is":   {`{"body": "a=1&b=2", "headers": {"Content-Type": "application/x-www-form-urlencoded"}}`, `a=1&b=2`, `application/x-www-form-urlencoded`},
		"JSON as it is":     {`{"body": "{ \"a\": 1 }", "headers": {"Content-Type": "application/json"}}`, `{ "a": 1 }`, `application/json`},
		"an empty text":     {`{"body": "", "headers": {"Content-Type": "text/plain"}}`, ``, `text/plain`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			requests := make(chan received, 1)
			server := serve(t, recorder(requests))
			payload := `{"type": "HTTP_REQUEST", "url": "` + server.URL + `", ` + test.payload[1:]
			if _, err := send(t, strings.Replace(payload, ", }", "}", 1)); err != nil {
				t.Fatal(err)
			}
			if got := <-requests; got.method != "POST" || got.body != test.body || got.header.Get("Content-Type") != test.contentType {
				t.Errorf("sent %+v", got)
			}
		})
	}
}

// The library of Standard Webhooks accepts the signatures, with each of two secrets.
func TestReceiversVerifySignatures(t *testing.T) {
	t.Parallel()
	const older = "whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8="
	requests := make(chan received, 1)
	server := serve(t, recorder(requests))
	sender := newSender(t, webhook.Config{
		Allow: local, Secrets: map[string][]string{"orders": {secret, older}, "other": {secret}},
	})
	e := attempt(contract.HTTPRequest{URL: server.URL, Body: map[string]string{"order": "42"}, SignWith: "orders"})
	e.ID = "order.7"
	if err := run(t.Context(), t, sender, e); err != nil {
		t.Fatal(err)
	}
	got := <-requests
	if id := got.header.Get("Webhook-Id"); id != "order%2E7:31" {
		t.Errorf("id %q", id)
	}
	for _, known := range []string{secret, older} {
		verifier, err := standardwebhooks.NewWebhook(known)
		if err != nil {
			t.Fatal(err)
		}
		if err := verifier.Verify([]byte(got.body), got.header); err != nil {
			t.Error(err)
		}
		if verifier.Verify([]byte(got.body+" "), got.header) == nil {
			t.Error("accepts another body")
		}
	}
	stranger, err := standardwebhooks.NewWebhook("whsec_" + strings.Repeat("B", 32))
	if err != nil {
		t.Fatal(err)
	}
	if stranger.Verify([]byte(got.body), got.header) == nil {
		t.Error("a signature by another secret is accepted")
	}
}

func TestAnUnknownSecretIsRetried(t *testing.T) {
	t.Parallel()
	_, err := send(t, contract.HTTPRequest{URL: "https://example.org/", SignWith: "orders"})
	if err == nil || permanent(err) || !strings.Contains(err.Error(), "sign_with names a secret that this node") {
		t.Errorf("got %v", err)
	}
}

func TestResults(t *testing.T) {
	t.Parallel()
	const limit = 16 << 10
	long := strings.Repeat("x", limit)
	for name, test := range map[string]struct {
		body      string
		want      string
		truncated bool
	}{
		"nothing":         {"", "", false},
		"JSON":            {`{"id": 12345678901234567890}`, `{"id":12345678901234567890}`, false},
		"a text":          {"fine", `"fine"`, false},
		"bytes":           {"a\x00b\xff", `"a�b�"`, false},
		"NUL in JSON":     {`{"a":"\u0000"}`, `"{\"a\":\"\\u0000\"}"`, false},
		"a huge number":   {`1e999999`, `"1e999999"`, false},
		"deep JSON":       {strings.Repeat("[", 2000) + strings.Repeat("]", 2000), `"` + strings.Repeat("[", 2000) + strings.Repeat("]", 2000) + `"`, false},
		"the most":        {long, `"` + long + `"`, false},
		"too much":        {long + "y", `"` + long + `"`, true},
		"too long a JSON": {`["` + long + `"]`, `"[\"` + long[:limit-2] + `"`, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := serve(t, func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Type", "text/plain; charset=utf-8")
				w.Header().Set("X-Request-Id", strings.Repeat("7", 2000))
				w.Header().Set("Set-Cookie", "session=canary")
				w.WriteHeader(http.StatusCreated)
				_, _ = io.WriteString(w, test.body)
			})
			result, err := send(t, contract.HTTPRequest{URL: server.URL})
			if err != nil {
				t.Fatal(err)
			}
			if result.Status != http.StatusCreated || string(result.Body) != test.want || result.Truncated != test.truncated {
				t.Errorf("result %d %.100s (%d bytes) %t", result.Status, result.Body, len(result.Body), result.Truncated)
			}
			if h := result.Headers; h["Content-Type"] != "text/plain; charset=utf-8" || len(h["X-Request-Id"]) != 1024 ||
				h["Date"] == "" || h["Set-Cookie"] != "" {
				t.Errorf("headers %v", h)
			}
		})
	}
}

func TestRetryAfterIsObeyed(t *testing.T) {
	t.Parallel()
	server := serve(t, answering(http.StatusTooManyRequests, "Retry-After", "90"))
	_, err := send(t, contract.HTTPRequest{URL: server.URL})
	var after *handlers.RetryAfterError
	if !errors.As(err, &after) || after.Delay != 90*time.Second {
		t.Errorf("got %v", err)
	}
}

func TestPayloadsThatBreakARule(t *testing.T) {
	t.Parallel()
	const canary = "canary"
	sender := newSender(t, webhook.Config{Allow: local})
	for _, test := range []struct{ payload, want string }{
		{`{}`, "field url must be an address"},
		{`{"url": ""}`, "field url must be an address"},
		{`{"url": "example.org/canary"}`, "field url must be an address"},
		{`{"url": "ftp://canary.example/"}`, "field url must be an address"},
		{`{"url": "http:canary"}`, "field url must be an address"},
		{`{"url": "http:///canary"}`, "field url must be an address"},
		{`{"url": "http://canary.example:http/"}`, "field url must be an address"},
		{`{"url": "http://canary .example/"}`, "field url must be an address"},
		{`{"url": "http://%31%32%37.0.0.1/canary"}`, "field url must be an address"},
		{`{"url": "http://canary.example\\@127.0.0.1/"}`, "field url must be an address"},
		{`{"url": "http://canary.example/\u0007"}`, "field url must be an address"},
		{`{"url": "http://h/a?b=c HTTP/1.1"}`, "field url must have %20 instead of a space"},
		{`{"url": "https://user:canary@example.org/"}`, "field url must have no user and no password"},
		{`{"url": "https://canary@example.org/"}`, "field url must have no user and no password"},
		{`{"url": "https://example.org/` + strings.Repeat("x", 8192) + `"}`, "field url must have at most 8192 bytes"},
		{`{"url": "https://` + strings.Repeat("x", 254) + `/"}`, "field url must have a host of at most 253 bytes"},
		{`{"url": 7}`, "payload does not decode: payload field url must not be a JSON number"},
		{`{"url": "http://h", "method": "canary"}`, "field method must be one of GET, HEAD"},
		{`{"url": "http://h", "method": "get"}`, "field method must be one of"},
		{`{"url": "http://h", "method": "CONNECT"}`, "field method must be one of"},
		{`{"url": "http://h", "timeout": "canary"}`, "field timeout must be a duration from 100ms to 10m0s"},
		{`{"url": "http://h", "timeout": "99ms"}`, "field timeout must be"},
		{`{"url": "http://h", "timeout": "601s"}`, "field timeout must be"},
		{`{"url": "http://h", "timeout": "-1s"}`, "field timeout must be"},
		{`{"url": "http://h", "timeout": []}`, "field timeout must be a duration"},
		{`{"url": "http://h", "expected_status": [200, "canary"]}`, "field expected_status must have"},
		{`{"url": "http://h", "expected_status": [199]}`, "number 1 is neither"},
		{`{"url": "http://h", "expected_status": [200, 600]}`, "number 2 is neither"},
		{`{"url": "http://h", "expected_status": ["299-200"]}`, "field expected_status"},
		{`{"url": "http://h", "expected_status": ["200-"]}`, "field expected_status"},
		{`{"url": "http://h", "expected_status": [2.5]}`, "must not be a JSON number"},
		{`{"url": "http://h", "sign_with": "two words"}`, "field sign_with must be a name"},
		{`{"url": "http://h", "sign_with": "` + strings.Repeat("x", 65) + `"}`, "field sign_with must be a name"},
		{`{"url": "http://h", "method": "GET", "body": "canary"}`, "field body must be absent for GET"},
		{`{"url": "http://h", "method": "HEAD", "body": {}}`, "field body must be absent for HEAD"},
		{`{"url": "http://h", "body": {"a": "canary"}, "headers": {"Content-Type": "text/plain"}}`, "field body must be a string if"},
		{`{"url": "http://h", "body": "` + strings.Repeat("x", 256<<10) + `"}`, "field body must have at most 262144 bytes"},
		{`{"url": "http://h", "headers": {"": "canary"}}`, "field headers must have names of letters"},
		{`{"url": "http://h", "headers": {"a canary": "x"}}`, "field headers must have names of letters"},
		{`{"url": "http://h", "headers": {"X:canary": "x"}}`, "field headers must have names of letters"},
		{`{"url": "http://h", "headers": {"X-Ü": "canary"}}`, "field headers must have names of letters"},
		{`{"url": "http://h", "headers": {"X-A": "canary\r\nHost: x"}}`, "field headers must have values of visible"},
		{`{"url": "http://h", "headers": {"X-A": "canary\u00fc"}}`, "field headers must have values of visible"},
		{`{"url": "http://h", "headers": {"X-A": "1", "x-a": "2"}}`, "field headers must not have X-A twice"},
		{`{"url": "http://h", "headers": {"X-A": "` + strings.Repeat("x", 16<<10) + `"}}`, "must have at most 16384 bytes together"},
		{`{"url": "http://h", "headers": {` + many(51) + `}}`, "field headers must be at most 50"},
	} {
		err := run(t.Context(), t, sender, attempt(`{"type": "HTTP_REQUEST", `+test.payload[1:]))
		if test.payload == `{}` {
			err = run(t.Context(), t, sender, attempt(`{}`))
		}
		if !permanent(err) || !strings.Contains(err.Error(), test.want) || strings.Contains(err.Error(), canary) {
			t.Errorf("%.100s: %v, want %q", test.payload, err, test.want)
		}
	}
	for _, name := range []string{
		"host", "Content-Length", "idempotency-key", "Webhook-Id", "WEBHOOK-SIGNATURE", "Webhook-Anything", "traceparent",
		"tracestate", "Connection", "Keep-Alive", "Proxy-Authorization", "Proxy-Connection", "TE", "Trailer",
		"Transfer-Encoding", "Upgrade", "Expect", "Tasktable-Attempt",
	} {
		err := run(t.Context(), t, sender, attempt(`{"url": "http://h", "headers": {"`+name+`": "canary"}}`))
		if !permanent(err) || !strings.Contains(err.Error(), "field headers must not have "+http.CanonicalHeaderKey(name)) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// many are n headers as JSON.
func many(n int) string {
	all := make([]string, n)
	for i := range all {
		all[i] = `"X-` + strconv.Itoa(i) + `": ""`
	}
	return strings.Join(all, ", ")
}

// Schedule encodes the payload, so it refuses one that breaks a rule.
func TestAPayloadThatBreaksARuleCannotBeEncoded(t *testing.T) {
	t.Parallel()
	_, err := json.Marshal(contract.HTTPRequest{URL: "example.org"})
	if err == nil || !strings.Contains(err.Error(), "payload field url must be an address") {
		t.Errorf("got %v", err)
	}
	if _, err := json.Marshal(contract.HTTPRequest{URL: "https://example.org", Body: func() {}}); err == nil ||
		!strings.Contains(err.Error(), "payload field body must be a value that can be encoded") {
		t.Errorf("got %v", err)
	}
	encoded, err := json.Marshal(contract.HTTPRequest{URL: "https://example.org", Timeout: "5s", ExpectedStatus: []contract.StatusRange{"204"}})
	if want := `{"url":"https://example.org","timeout":"5s","expected_status":["204"]}`; string(encoded) != want || err != nil {
		t.Errorf("%s, %v", encoded, err)
	}
}

func TestTheEndOfTheLeaseEndsTheRequest(t *testing.T) {
	t.Parallel()
	arrived, release := make(chan struct{}, 1), make(chan struct{})
	server := serve(t, func(http.ResponseWriter, *http.Request) {
		arrived <- struct{}{}
		<-release
	})
	t.Cleanup(func() { close(release) })
	for _, cause := range []error{handlers.ErrDeadline, handlers.ErrCancelled, handlers.ErrInterrupted} {
		ctx, end := context.WithCancelCause(t.Context())
		ended := make(chan error, 1)
		go func() {
			ended <- run(ctx, t, newSender(t, webhook.Config{Allow: local}), attempt(contract.HTTPRequest{URL: server.URL}))
		}()
		<-arrived
		end(cause)
		select {
		case err := <-ended:
			if !errors.Is(err, cause) || permanent(err) {
				t.Errorf("got %v, want %v", err, cause)
			}
		case <-time.After(patience):
			t.Fatal("the request goes on")
		}
	}
}

// The body of an answer that fails an attempt is in the error if the task or the node says so.
func TestTheBodyOfAFailedAnswer(t *testing.T) {
	t.Parallel()
	server := serve(t, func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(http.StatusUnprocessableEntity)
		_, _ = fmt.Fprintf(w, "{\"error\": \"amount is missing\", \"sent\": %q}\n", r.Header.Get("X-Shop")+strings.Repeat("x", 2000))
	})
	payload := contract.HTTPRequest{URL: server.URL, Headers: map[string]string{"X-Shop": "hunter2-"}}
	for name, test := range map[string]struct{ node, task, kept bool }{
		"nobody": {}, "the node": {node: true, kept: true}, "the task": {task: true, kept: true},
	} {
		payload := payload
		payload.KeepErrorBody = test.task
		sender := newSender(t, webhook.Config{Allow: local, KeepErrorBody: test.node})
		err := run(t.Context(), t, sender, attempt(payload))
		if !permanent(err) || strings.Contains(err.Error(), `(Unprocessable Entity): {"error": "amount is missing"`) != test.kept ||
			strings.Contains(err.Error(), "hunter2") || len(err.Error()) > 1200 {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// The node's timeout is the most, and the error says so.
func TestTheNodesTimeoutIsTheMost(t *testing.T) {
	t.Parallel()
	end := make(chan struct{})
	hanging := serve(t, func(http.ResponseWriter, *http.Request) { <-end })
	t.Cleanup(func() { close(end) }) // before the server's end, which waits for its handlers
	sender := newSender(t, webhook.Config{Allow: local, Timeout: 100 * time.Millisecond})
	for timeout, want := range map[string]string{
		"10m": "longer than 100ms, the most that this node allows", "": "longer than 100ms, the most that this node allows",
		"100ms": "longer than 100ms",
	} {
		err := run(t.Context(), t, sender, attempt(contract.HTTPRequest{URL: hanging.URL, Timeout: timeout}))
		if err == nil || permanent(err) || !strings.HasSuffix(err.Error(), want) {
			t.Errorf("timeout %q: %v, want %q", timeout, err, want)
		}
	}
}
