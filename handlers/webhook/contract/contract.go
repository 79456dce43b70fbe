// Package contract is the payload of package webhook, and the result that its tasks leave. It is for services that
// schedule HTTP requests and do not send them. It imports no HTTP client.
package contract

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"strings"

	"github.com/tasktable/tasktable/handlers/internal/payload"
)

// HTTPRequest is one HTTP request. It has no key, so each Schedule makes a task of its own with a new id. A caller
// that edits or cancels the request later gives the task an ID.
//
// A request that breaks a rule cannot be encoded as JSON, so Schedule refuses it. SQL functions do not know the rules.
// The handler checks them again, and a task that breaks one fails for good.
type HTTPRequest struct {
	// Method is GET, HEAD, POST, PUT, PATCH or DELETE. Default (""): POST.
	Method string `json:"method,omitempty"`
	// URL begins with http:// or https:// and has a host, but no user and no password. It has at most 8 KiB. It is
	// required.
	URL string `json:"url"`
	// Headers are sent with the request: at most 50, with at most 16 KiB together. The handler sets some headers
	// itself. These must not be here: Host, Content-Length, Idempotency-Key, Traceparent, Tracestate, Expect, all that
	// begin with Webhook-, Tasktable- or Proxy-, and the hop-by-hop headers (Connection, Keep-Alive, Te, Trailer,
	// Transfer-Encoding, Upgrade).
	//
	// The payload is stored, so a header here is no place for a secret.
	Headers map[string]string `json:"headers,omitempty"`
	// Body is any value that encodes as JSON. It has at most 256 KiB. GET and HEAD have none. A decoded HTTPRequest has
	// a json.RawMessage here. The body is sent as JSON, with the Content-Type application/json unless Headers has
	// another JSON type. But if Body is a string and Headers has a Content-Type, the text of the string is sent as it
	// is.
	Body any `json:"body,omitempty"`
	// Timeout bounds the request, redirects and the answer's body included. It is a text such as "1500ms", "30s" or
	// "2m", from 100 ms to 10 minutes. In JSON it may also be a number of seconds. The node's timeout, which is 30 s by
	// default, and the task's ExpectedExecutionTime bound the request too. Default (""): 30 s.
	Timeout string `json:"timeout,omitempty"`
	// ExpectedStatus are the statuses of an answer that complete the task. Default (none): 200-299.
	ExpectedStatus []StatusRange `json:"expected_status,omitempty"`
	// SignWith names a secret of the node's configuration. The request is signed with it, by Standard Webhooks. Default
	// (""): no signature.
	SignWith string `json:"sign_with,omitempty"`
	// Circuit is the name of the circuit at the URL's host. Tasks with the same name wait together while the host fails
	// for them, whatever their paths are. It has at most 64 visible ASCII characters. Default (""): the circuit of the
	// URL's path.
	Circuit string `json:"circuit,omitempty"`
	// KeepErrorBody keeps the beginning of the body of an answer that fails an attempt, in the attempt's error: up to 1
	// KiB, as one line, without the values of the request's headers and query. Errors go to logs and notices.
	KeepErrorBody bool `json:"keep_error_body,omitempty"`
}

// TaskType is HTTP_REQUEST.
func (HTTPRequest) TaskType() string { return "HTTP_REQUEST" }

// StatusRange is a status such as "204", or a range such as "200-299". In JSON, a single status may be a number.
type StatusRange string

// UnmarshalJSON takes a text or a number.
func (s *StatusRange) UnmarshalJSON(text []byte) error {
	if bytes.HasPrefix(text, []byte(`"`)) {
		return json.Unmarshal(text, (*string)(s))
	}
	var number int
	err := json.Unmarshal(text, &number)
	*s = StatusRange(fmt.Sprint(number))
	return err
}

// httpRequest is an HTTPRequest without methods. Errors of encoding/json contain its name.
type httpRequest HTTPRequest

// MarshalJSON returns the error of Check for a request that breaks a rule.
func (r HTTPRequest) MarshalJSON() ([]byte, error) {
	if err := r.Check(); err != nil {
		return nil, err
	}
	return json.Marshal(httpRequest(r))
}

// UnmarshalJSON keeps the body as it is written, because a float64 would round large numbers. It refuses a method, a
// timeout, statuses, a secret's name or a circuit that is there and empty.
func (r *HTTPRequest) UnmarshalJSON(text []byte) error {
	var body json.RawMessage
	var read struct {
		httpRequest

		Timeout payload.Timeout `json:"timeout"` // instead of the request's
	}
	read.Body = &body // encoding/json writes to what a pointer in an interface points to
	if err := json.Unmarshal(text, &read); err != nil {
		return payload.DecodeError(err)
	}
	if err := checkGiven(text); err != nil {
		return err
	}
	*r = HTTPRequest(read.httpRequest)
	r.Timeout, r.Body = string(read.Timeout), nil
	if len(body) > 0 {
		r.Body = body
	}
	return nil
}

// CheckJSON returns the error with which the handler would refuse the payload of a task. It also refuses a field that a
// request does not have, because such a field is usually a typing mistake.
func CheckJSON(text []byte) error { return payload.CheckJSON[HTTPRequest](text, fieldNames) }

// fieldNames are the names of the fields in JSON.
var fieldNames = func() (names []string) {
	for _, field := range reflect.VisibleFields(reflect.TypeFor[httpRequest]()) {
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		names = append(names, name)
	}
	return names
}()

// Result is the result of a completed task.
type Result struct {
	Status int `json:"status"`
	// Headers are those of Content-Type, Date, Etag, Location and X-Request-Id that the answer has. Each has at most 1
	// KiB.
	Headers map[string]string `json:"headers,omitempty"`
	// Body is the answer's body. It is a JSON value if the body is JSON that Postgres can store as jsonb. Otherwise it
	// is a JSON string with the text, in which U+FFFD replaces NUL and all that is not UTF-8.
	Body json.RawMessage `json:"body,omitempty"`
	// Truncated says that Body is only the beginning, because the body was longer than 16 KiB or broke off.
	Truncated bool `json:"truncated,omitempty"`
}
