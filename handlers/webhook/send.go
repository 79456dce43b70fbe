package webhook

import (
	"bytes"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"time"

	"github.com/tasktable/tasktable/handlers"
	"github.com/tasktable/tasktable/handlers/webhook/contract"
)

const maxRedirects = 5

// Sender sends tasks of type HTTP_REQUEST. It keeps idle connections for later requests, and the circuits of this node.
// It is safe for concurrent use.
type Sender struct {
	timeout   time.Duration
	keepBody  bool
	keys      map[string][][]byte
	transport *http.Transport
	circuits  *circuits
	log       *slog.Logger
}

// String returns no field, because one has the keys. The verbs %v and %+v use it.
func (s *Sender) String() string { return "webhook.Sender" }

// GoString returns the same for %#v.
func (s *Sender) GoString() string { return s.String() }

// Variant makes a Sender and returns its Send as an argument of handlers.NewRegistry. It returns the errors of New.
func Variant(config Config, options ...handlers.Option) (handlers.Part, error) {
	sender, err := New(config)
	if err != nil {
		return nil, err
	}
	return handlers.Handle(sender.Send, options...), nil
}

// newTransport makes the HTTP client. It takes no proxy from the environment, because a proxy would connect to
// addresses that the guard refuses.
func newTransport(guard *guard, config *tls.Config) *http.Transport {
	return &http.Transport{
		DialContext:            guard.dial,
		TLSClientConfig:        config,
		TLSHandshakeTimeout:    connectTimeout,
		MaxIdleConns:           100,
		MaxIdleConnsPerHost:    4,
		IdleConnTimeout:        time.Minute,
		MaxResponseHeaderBytes: 64 << 10,
		DisableCompression:     true, // a small body could become a large one
		ForceAttemptHTTP2:      true,
		// Finds a broken connection. Without it, HTTP/2 would send on it until TCP gives up.
		HTTP2: &http.HTTP2Config{SendPingTimeout: 15 * time.Second, PingTimeout: 10 * time.Second},
	}
}

// CloseIdleConnections closes the connections that are kept for later requests.
func (s *Sender) CloseIdleConnections() { s.transport.CloseIdleConnections() }

// Send sends one request and waits for the answer. It returns nil once the server has answered with an expected
// status. The documentation of the package says which errors are permanent.
func (s *Sender) Send(ctx context.Context, t *handlers.Task[contract.HTTPRequest]) error {
	if err := s.send(ctx, t); err != nil {
		return fmt.Errorf("send HTTP request: %w", err)
	}
	return nil
}

func (s *Sender) send(ctx context.Context, t *handlers.Task[contract.HTTPRequest]) error {
	first, err := s.request(ctx, t, time.Now())
	if err != nil {
		return err
	}
	asked := t.Payload.TimeoutOr(DefaultTimeout)
	late := timeoutError{after: min(asked, s.timeout), most: asked > s.timeout,
		short: asked < s.patience()}
	ctx, cancel := context.WithTimeoutCause(ctx, late.after, late)
	defer cancel()
	call := &call{sender: s, task: t.ID, circuit: t.Payload.Circuit, expects: t.Payload.Expects,
		keepBody: s.keepBody || t.Payload.KeepErrorBody}
	last, answer, err := call.exchange(ctx, first)
	if err != nil {
		return err
	}
	if err := outcome(t.Payload, last, answer, time.Now()); err != nil {
		return err
	}
	t.Result(answer.result())
	t.Note("%s answered %d", last.host(), answer.StatusCode)
	return nil
}

// patience is how long a host may take if the payload does not say it.
func (s *Sender) patience() time.Duration { return min(DefaultTimeout, s.timeout) }

type timeoutError struct {
	after time.Duration
	most  bool // the payload asks for more than the node allows
	short bool // the payload allows less time than the node would
}

func (e timeoutError) Error() string {
	text := fmt.Sprintf("the server took longer than %s", e.after)
	if e.most {
		text += ", the most that this node allows"
	}
	return text
}

func (e timeoutError) Timeout() bool { return true }

// call is the call of one attempt, with its redirects.
type call struct {
	sender   *Sender
	task     string
	circuit  string
	expects  func(status int) bool
	keepBody bool // of an answer with an unexpected status
}

// answer is an answer with the beginning of its body.
type answer struct {
	*http.Response

	start []byte // up to maxResultBody
	cut   bool   // the body goes on, or it broke off
}

// exchange sends the request and follows redirects, unless their status is expected. It returns the last request with
// its answer.
func (c *call) exchange(ctx context.Context, r *request) (*request, *answer, error) {
	for range maxRedirects + 1 {
		got, err := c.roundTrip(ctx, r)
		if err != nil || c.expects(got.StatusCode) || !r.follows(got.Response) {
			return r, got, err
		}
		next, err := r.redirected(got.Header.Get("Location"))
		if err != nil {
			return nil, nil, handlers.Permanent(fmt.Errorf("%s: %w", r, err))
		}
		r = next
	}
	return nil, nil, handlers.Permanent(fmt.Errorf("%s: the server redirects more than %d times", r, maxRedirects))
}

// roundTrip sends one request, unless its circuit is open. It uses the transport without an http.Client, because errors
// of a client contain the URL.
func (c *call) roundTrip(ctx context.Context, r *request) (got *answer, err error) {
	sent, err := http.NewRequestWithContext(ctx, r.method, r.url.String(), bytes.NewReader(r.body))
	if err != nil {
		return nil, handlers.Permanent(fmt.Errorf("%s: the request cannot be made", r))
	}
	sent.Header = r.header
	at := place{host: r.host(), name: c.circuit, path: r.url.EscapedPath()}
	err = c.sender.circuits.call(at, c.task, func() (said verdict, fault string, err error) {
		began := time.Now()
		if got, err = c.receive(ctx, sent); err != nil {
			said, err = c.sender.failure(ctx, c.task, r, time.Since(began), err)
			return said, "does not answer", err
		}
		if got.StatusCode >= http.StatusInternalServerError && !c.expects(got.StatusCode) {
			return fails, fmt.Sprintf("answered %d", got.StatusCode), nil
		}
		return works, "", nil
	})
	return got, err
}

// receive sends a request. It reads the beginning of the answer's body if somebody will see it. A body that breaks off
// is no error, because the server has done its work. A body that did not come in time is one: otherwise a task whose
// result somebody needs would complete without it.
func (c *call) receive(ctx context.Context, sent *http.Request) (*answer, error) {
	response, err := c.sender.transport.RoundTrip(sent)
	if err != nil {
		return nil, err
	}
	defer func() { _ = response.Body.Close() }()
	got := &answer{Response: response}
	expected := c.expects(response.StatusCode)
	if !expected && !c.keepBody {
		return got, nil
	}
	got.start, err = io.ReadAll(io.LimitReader(response.Body, maxResultBody+1))
	if expected && err != nil && ctx.Err() != nil {
		return nil, err
	}
	got.cut = err != nil || len(got.start) > maxResultBody
	got.start = got.start[:min(len(got.start), maxResultBody)]
	return got, nil
}
