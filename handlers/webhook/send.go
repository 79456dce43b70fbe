package webhook

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/tasktable/tasktable/handlers"
	"github.com/tasktable/tasktable/handlers/webhook/contract"
)

const maxRedirects = 5

// Sender sends tasks of type HTTP_REQUEST. It keeps idle connections for later requests, and the circuit breakers of
// this node. It is safe for concurrent use.
type Sender struct {
	timeout   time.Duration
	keys      map[string][][]byte
	transport *http.Transport
	breakers  *breakers
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
// status, even if the answer's body breaks off. The documentation of the package says which errors are permanent.
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
	timeout := t.Payload.TimeoutOr(s.timeout)
	ctx, cancel := context.WithTimeoutCause(ctx, timeout, timeoutError{timeout, timeout < s.timeout})
	defer cancel()
	last, answer, err := s.exchange(ctx, first, t.Payload.Expects)
	if err != nil {
		return err
	}
	defer func() { _ = answer.Body.Close() }()
	if err := outcome(t.Payload, last, answer, time.Now()); err != nil {
		return err
	}
	t.Result(result(answer))
	t.Note("%s answered %d", last.host(), answer.StatusCode)
	return nil
}

type timeoutError struct {
	after time.Duration
	short bool // the payload allows less time than the node does
}

func (e timeoutError) Error() string { return fmt.Sprintf("the server took longer than %s", e.after) }
func (e timeoutError) Timeout() bool { return true }

// exchange sends the request and follows redirects, unless their status is expected. It returns the last request with
// its answer, whose body is open.
func (s *Sender) exchange(
	ctx context.Context, r *request, expects func(status int) bool,
) (*request, *http.Response, error) {
	for range maxRedirects + 1 {
		answer, err := s.roundTrip(ctx, r)
		if err != nil || expects(answer.StatusCode) || !r.follows(answer) {
			return r, answer, err
		}
		_ = answer.Body.Close()
		next, err := r.redirected(answer.Header.Get("Location"))
		if err != nil {
			return nil, nil, handlers.Permanent(fmt.Errorf("%s: %w", r, err))
		}
		r = next
	}
	return nil, nil, handlers.Permanent(fmt.Errorf("%s: the server redirects more than %d times", r, maxRedirects))
}

// roundTrip sends one request, unless the circuit of its host is open. It uses the transport without an http.Client,
// because errors of a client contain the URL.
func (s *Sender) roundTrip(ctx context.Context, r *request) (answer *http.Response, err error) {
	sent, err := http.NewRequestWithContext(ctx, r.method, r.url.String(), bytes.NewReader(r.body))
	if err != nil {
		return nil, handlers.Permanent(fmt.Errorf("%s: the request cannot be made", r))
	}
	sent.Header = r.header
	err = s.breakers.call(r.host(), func() (err error) {
		answer, err = s.transport.RoundTrip(sent) //nolint:bodyclose // the caller closes it
		switch {
		case err != nil:
			return failure(ctx, r, err)
		case answer.StatusCode >= http.StatusInternalServerError:
			return errFailing
		}
		return nil
	})
	if errors.Is(err, errFailing) {
		return answer, nil
	}
	return answer, err
}

// errFailing tells the breaker of an answer that says that the server is out of order.
var errFailing = errors.New("5xx")
