package webhook

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"go.opentelemetry.io/otel/trace"

	"github.com/tasktable/tasktable/handlers"
	"github.com/tasktable/tasktable/handlers/webhook/contract"
)

// The headers that the handler sets.
const (
	headerIdempotencyKey   = "Idempotency-Key"
	headerTaskID           = "Tasktable-Task-Id"
	headerAttempt          = "Tasktable-Attempt"
	headerTraceparent      = "Traceparent"
	headerWebhookID        = "Webhook-Id"
	headerWebhookTimestamp = "Webhook-Timestamp"
	headerWebhookSignature = "Webhook-Signature"

	userAgent = "Tasktable (+https://github.com/tasktable/tasktable)"
)

// request is the request of one attempt, or the one after a redirect.
type request struct {
	method string
	url    *url.URL
	header http.Header
	body   []byte
}

// String names the method and the host. The path and the query are not in it, because services put secrets there.
func (r *request) String() string { return r.method + " " + r.host() }

// host is the host in lower case, with its port if that is not the scheme's.
func (r *request) host() string {
	host := strings.TrimSuffix(strings.ToLower(r.url.Hostname()), ".")
	if strings.Contains(host, ":") {
		host = "[" + host + "]"
	}
	if port := r.url.Port(); port != "" && r.url.Scheme+port != "http80" && r.url.Scheme+port != "https443" {
		host += ":" + port
	}
	return host
}

func (r *request) origin() string { return r.url.Scheme + "://" + r.host() }

// request makes the request of an attempt from its payload. It refuses only payloads that no later attempt would mend,
// and names of secrets that this node does not know.
func (s *Sender) request(
	ctx context.Context, t *handlers.Task[contract.HTTPRequest], now time.Time,
) (*request, error) {
	payload := t.Payload
	if err := payload.Check(); err != nil {
		return nil, handlers.Permanent(err)
	}
	target, _ := contract.ParseURL(payload.URL) // Check has parsed it
	body, _ := payload.EncodedBody()            // and has encoded the body
	r := &request{method: payload.MethodOrDefault(), url: target, header: http.Header{}, body: body}
	r.header.Set("User-Agent", userAgent)
	if body != nil {
		r.header.Set("Content-Type", "application/json")
	}
	for name, value := range payload.Headers {
		r.header.Set(name, value)
	}
	key := visible(t.IdempotencyKey())
	r.header.Set(headerIdempotencyKey, key)
	r.header.Set(headerTaskID, visible(t.ID))
	r.header.Set(headerAttempt, strconv.Itoa(t.Attempt))
	if span := trace.SpanContextFromContext(ctx); span.IsValid() {
		r.header.Set(headerTraceparent, fmt.Sprintf("00-%s-%s-%s", span.TraceID(), span.SpanID(), span.TraceFlags()))
	}
	if payload.SignWith != "" {
		keys := s.keys[payload.SignWith]
		if keys == nil { // not permanent, because the node's configuration can be mended
			return nil, errors.New("payload field sign_with names a secret that this node does not have")
		}
		sign(r.header, keys, key, now, body)
	}
	return r, nil
}

// visible writes each byte that is no visible ASCII character, and %, as in a URL. A task's id may have any character,
// and some servers refuse others in a header.
func visible(text string) string {
	var escaped strings.Builder
	for i := range len(text) {
		if c := text[i]; c <= ' ' || c > '~' || c == '%' {
			fmt.Fprintf(&escaped, "%%%02X", c)
		} else {
			escaped.WriteByte(c)
		}
	}
	return escaped.String()
}

// follows reports whether an answer's redirect is followed. A redirect that turns a POST into a GET would lose the
// body, and would look like a success.
func (r *request) follows(answer *http.Response) bool {
	switch answer.StatusCode {
	case http.StatusMovedPermanently, http.StatusFound, http.StatusSeeOther:
		return (r.method == http.MethodGet || r.method == http.MethodHead) && answer.Header.Get("Location") != ""
	case http.StatusTemporaryRedirect, http.StatusPermanentRedirect:
		return answer.Header.Get("Location") != ""
	}
	return false
}

// foreignHeaders are the headers that another origin gets. It gets neither the signature nor the payload's other
// headers, because they may authenticate this node to the first origin.
var foreignHeaders = map[string]bool{
	"Accept": true, "Content-Type": true, "User-Agent": true,
	headerIdempotencyKey: true, headerTaskID: true, headerAttempt: true, headerTraceparent: true,
}

// redirected returns the request that a redirect asks for. Its errors do not contain the new address.
func (r *request) redirected(location string) (*request, error) {
	target, err := r.url.Parse(location)
	if err == nil {
		target, err = contract.ParseURL(target.String())
	}
	switch {
	case err != nil:
		return nil, errors.New("the server redirects to what is no address for a request")
	case r.url.Scheme == "https" && target.Scheme == "http":
		return nil, errors.New("the server redirects from https to http, where everybody could read the request")
	}
	next := &request{method: r.method, url: target, header: r.header.Clone(), body: r.body}
	if next.origin() != r.origin() {
		maps.DeleteFunc(next.header, func(name string, _ []string) bool { return !foreignHeaders[name] })
	}
	return next, nil
}
