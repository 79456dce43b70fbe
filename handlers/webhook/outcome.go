package webhook

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/textproto"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/tasktable/tasktable/handlers"
	"github.com/tasktable/tasktable/handlers/webhook/contract"
	"github.com/tasktable/tasktable/store"
)

// A Retry-After outside these bounds counts as the nearest bound.
const (
	minRetryAfter = time.Second
	maxRetryAfter = 24 * time.Hour
)

// outcome returns nil for an answer with an expected status. Its errors contain the status. They contain the beginning
// of the body only if somebody has asked for it, because servers repeat what they were sent, and errors go to logs. The
// status comes before the host, because dead letters are grouped by the beginning of the error, and a host may be long.
func outcome(payload contract.HTTPRequest, to *request, answer *answer, now time.Time) error {
	status := answer.StatusCode
	if payload.Expects(status) {
		return nil
	}
	text := fmt.Sprintf("answered %d to %s", status, to)
	if meaning := http.StatusText(status); meaning != "" {
		text += " (" + meaning + ")"
	}
	if status >= 301 && status <= 303 && answer.Header.Get("Location") != "" {
		text += ", a redirect that only GET and HEAD follow"
	}
	if said := to.scrubbed(answer.start); said != "" {
		text += ": " + said
	}
	err := errors.New(text)
	switch {
	case status == http.StatusRequestTimeout, status == http.StatusTooManyRequests,
		status == http.StatusServiceUnavailable:
		if delay, given := retryAfter(answer.Header.Get("Retry-After"), now); given {
			return handlers.RetryAfter(delay, err)
		}
		return err
	case status >= 200 && status <= 299, status >= 500:
		return err
	}
	return handlers.Permanent(err)
}

// retryAfter reads the header Retry-After (RFC 9110, 10.2.3): a number of seconds or a date.
func retryAfter(text string, now time.Time) (delay time.Duration, given bool) {
	if seconds, err := strconv.ParseUint(text, 10, 64); err == nil || errors.Is(err, strconv.ErrRange) {
		delay = time.Duration(min(seconds, uint64(maxRetryAfter/time.Second))) * time.Second
	} else if at, err := http.ParseTime(text); err == nil {
		delay = at.Sub(now)
	} else {
		return 0, false
	}
	return min(max(delay, minRetryAfter), maxRetryAfter), true
}

// failure is the error of a request that got no answer. It is permanent if the guard refused the address. It counts for
// the circuit, unless the guard refused or the attempt was ended from outside. took is how long the host had. The task
// is not told which address was refused by which rule, because a caller who may schedule tasks could then explore the
// network of the node. The log has both.
func (s *Sender) failure(
	ctx context.Context, task string, r *request, took time.Duration, err error,
) (verdict, error) {
	var refused refusedError
	if errors.As(err, &refused) {
		s.log.WarnContext(ctx, "webhook refused", "task", task, "host", r.host(), "rule", refused.text)
		return nothing, handlers.Permanent(fmt.Errorf("%s: %w", r, errRefused))
	}
	if ctx.Err() == nil {
		return fails, fmt.Errorf("%s: %w", r, describedError{err})
	}
	cause := context.Cause(ctx)
	err = fmt.Errorf("%s: %w", r, cause)
	var late timeoutError
	// A payload, or a task's own timeout or deadline, that gives the host very little time says nothing about the host.
	// Otherwise one tenant's tasks could open the circuit for all.
	if errors.As(cause, &late) && !late.short || errors.Is(cause, handlers.ErrDeadline) && took >= s.patience() {
		return fails, err
	}
	return nothing, err
}

var errRefused = errors.New("the host is refused; the node's log has the address and the rule")

// describedError is an error of the HTTP client without the parts that a server chose, and with a bounded length. A
// server could repeat the request's headers there.
type describedError struct{ error }

func (e describedError) Unwrap() error { return e.error }

const maxDescribed = 300

// inQuotes matches a quoted text. The client's errors quote the parts of an answer that they reject.
var inQuotes = regexp.MustCompile(`"(?:[^"\\]|\\.)*"?`)

func (e describedError) Error() string {
	var malformed textproto.ProtocolError // its text has a line of the answer without quotes
	var lookup *net.DNSError              // its text has the address of the resolver
	var op *net.OpError                   // its text has addresses
	switch {
	case errors.As(e.error, &lookup) && lookup.IsNotFound:
		return "the host's name is not known (no such host)"
	case errors.As(e.error, &lookup):
		return "the host's name could not be looked up"
	case errors.As(e.error, &malformed):
		return "the server's answer is malformed"
	case errors.Is(e.error, io.EOF):
		return "the server closed the connection without an answer"
	}
	text := e.error.Error()
	if errors.As(e.error, &op) && op.Err != nil {
		text = op.Op + ": " + op.Err.Error()
	}
	text = inQuotes.ReplaceAllString(text, "…")
	if len(text) > maxDescribed {
		text = strings.ToValidUTF8(text[:maxDescribed], "") + "…"
	}
	return text
}

const (
	maxResultBody   = 16 << 10
	maxResultHeader = 1 << 10
)

// resultHeaders are the headers of an answer that the result keeps.
var resultHeaders = []string{"Content-Type", "Date", "Etag", "Location", "X-Request-Id"}

// result is the task's result, with the beginning of the answer's body.
func (a *answer) result() contract.Result {
	body := a.start
	kept := contract.Result{Status: a.StatusCode, Truncated: a.cut}
	for _, name := range resultHeaders {
		if value := a.Header.Get(name); value != "" {
			if kept.Headers == nil {
				kept.Headers = map[string]string{}
			}
			kept.Headers[name] = value[:min(len(value), maxResultHeader)]
		}
	}
	switch {
	case len(body) == 0:
	case !kept.Truncated && storable(body):
		kept.Body = body
	default:
		text := strings.ReplaceAll(strings.ToValidUTF8(string(body), "\uFFFD"), "\x00", "\uFFFD")
		kept.Body, _ = json.Marshal(text) // a string always encodes
	}
	return kept
}

// storable reports whether Postgres can store the text as jsonb. That has the same rules for results as for payloads.
func storable(body []byte) bool {
	if !json.Valid(body) {
		return false
	}
	wrapped := bytes.Join([][]byte{[]byte(`{"type":"RESULT","body":`), body, []byte("}")}, nil)
	return store.Task{ID: "result", Payload: store.JSON(wrapped)}.Check() == nil
}
