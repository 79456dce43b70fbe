package webhook_test

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tasktable/tasktable/handlers/webhook"
	"github.com/tasktable/tasktable/handlers/webhook/contract"
)

// raw starts a server that reads a request's head and then does as it likes with the connection, which is closed when
// behave returns or when the test ends.
func raw(t *testing.T, behave func(conn net.Conn, end <-chan struct{})) (address string) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	end := make(chan struct{})
	var done sync.WaitGroup
	done.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			done.Go(func() {
				defer func() { _ = conn.Close() }()
				head := make([]byte, 64<<10)
				if _, err := conn.Read(head); err == nil {
					behave(conn, end)
				}
			})
		}
	})
	t.Cleanup(func() {
		close(end)
		_ = listener.Close()
		done.Wait()
	})
	return "http://" + listener.Addr().String()
}

// endless writes a text again and again, until the other side has had enough.
func endless(head, text string) func(net.Conn, <-chan struct{}) {
	return func(conn net.Conn, end <-chan struct{}) {
		_, err := fmt.Fprint(conn, head)
		for err == nil {
			select {
			case <-end:
				return
			default:
				_, err = fmt.Fprint(conn, text)
			}
		}
	}
}

// saying writes a text and closes the connection.
func saying(text string) func(net.Conn, <-chan struct{}) {
	return func(conn net.Conn, _ <-chan struct{}) { _, _ = fmt.Fprint(conn, text) }
}

// hanging writes a text, and then nothing.
func hanging(text string) func(net.Conn, <-chan struct{}) {
	return func(conn net.Conn, end <-chan struct{}) {
		_, _ = fmt.Fprint(conn, text)
		<-end
	}
}

func TestServersThatMisbehave(t *testing.T) {
	t.Parallel()
	const ok = "HTTP/1.1 200 OK\r\n"
	for name, test := range map[string]struct {
		behave func(net.Conn, <-chan struct{})
		want   string // a part of the error; "": it completes
		body   string // of the result
	}{
		"hangs":             {hanging(""), "the server took longer than 100ms", ""},
		"hangs in the head": {hanging(ok + "X-A: b"), "the server took longer than 100ms", ""},
		"slow headers": {func(conn net.Conn, end <-chan struct{}) {
			_, err := fmt.Fprint(conn, ok)
			for ticker := time.NewTicker(20 * time.Millisecond); err == nil; {
				select {
				case <-end:
					return
				case <-ticker.C:
					_, err = fmt.Fprint(conn, "X-A: b\r\n")
				}
			}
		}, "the server took longer than 100ms", ""},
		"closes": {saying(""), "the server closed the connection without an answer", ""},
		"resets": {func(conn net.Conn, _ <-chan struct{}) {
			_ = conn.(*net.TCPConn).SetLinger(0)
		}, "connection reset", ""},
		"speaks no HTTP":        {saying("canary canary\r\n\r\n"), "malformed HTTP status code …", ""},
		"speaks TLS":            {saying("\x15\x03\x01\x00\x02\x02\x16"), "malformed HTTP response", ""},
		"a malformed header":    {saying(ok + "canary\r\n\r\n"), "the server's answer is malformed", ""},
		"a header without end":  {endless(ok+"X-A: ", strings.Repeat("x", 1000)), "server response headers exceeded", ""},
		"too large headers":     {saying(ok + "X-A: " + strings.Repeat("x", 100<<10) + "\r\n\r\n"), "server response headers exceeded 65536 bytes", ""},
		"headers without end":   {endless(ok, "X-A: canary\r\n"), "server response headers exceeded", ""},
		"interim without end":   {endless("", "HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n"), "exceeded", ""},
		"two lengths":           {saying(ok + "Content-Length: 1\r\nContent-Length: 2\r\n\r\nab"), "Content-Length", ""},
		"a bad length":          {saying(ok + "Content-Length: canary\r\n\r\n"), "bad Content-Length …", ""},
		"more than it promised": {saying(ok + "Content-Length: 2\r\n\r\nabcdef"), "", `"ab"`},
		"less than it promised": {saying(ok + "Content-Length: 9\r\n\r\nab"), "", `"ab" truncated`},
		"broken chunks":         {saying(ok + "Transfer-Encoding: chunked\r\n\r\n2\r\nab\r\nzz\r\n"), "", `"ab" truncated`},
		"a body without end": {endless(ok+"Connection: close\r\n\r\n", strings.Repeat("x", 1000)), "",
			`"` + strings.Repeat("x", 16<<10) + `" truncated`},
		// Somebody may need the result, so the task must not complete without it.
		"a body that hangs":     {hanging(ok + "Content-Length: 9\r\n\r\nab"), "the server took longer than 100ms", ""},
		"an error without end":  {endless("HTTP/1.1 500 canary\r\n\r\n", "canary"), "(Internal Server Error)", ""},
		"an unknown status":     {saying("HTTP/1.1 599 canary\r\n\r\n"), "answered 599", ""},
		"a switch of protocols": {saying("HTTP/1.1 101 canary\r\nConnection: Upgrade\r\nUpgrade: canary\r\n\r\n"), "answered 101", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			timeout := "1m" // only what hangs takes so long as it may
			if strings.Contains(test.want, "took longer") {
				timeout = "100ms"
			}
			result, err := send(t, contract.HTTPRequest{URL: raw(t, test.behave) + "/canary?canary", Timeout: timeout})
			got := string(result.Body)
			if result.Truncated {
				got += " truncated"
			}
			switch {
			case test.want == "" && (err != nil || got != test.body):
				t.Errorf("got %.100s, %v; want %.100s", got, err, test.body)
			case test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want)):
				t.Errorf("got %v, want %q", err, test.want)
			case err != nil && (strings.Contains(err.Error(), "canary") || len(err.Error()) > 500):
				t.Errorf("tells what the server said, or the URL: %v", err)
			case err != nil && permanent(err) != (name == "a switch of protocols"):
				t.Errorf("permanent: %v", err)
			}
		})
	}
}

func TestNobodyAnswers(t *testing.T) {
	t.Parallel()
	_, err := send(t, contract.HTTPRequest{URL: "http://127.0.0.1:1"})
	if err == nil || permanent(err) || !strings.Contains(err.Error(), "connection refused") {
		t.Errorf("got %v", err)
	}
	sender := newSender(t, webhook.Config{Resolver: resolver(t, always())})
	err = run(t.Context(), t, sender, attempt(contract.HTTPRequest{URL: "http://nobody.example/canary"}))
	if err == nil || permanent(err) || !strings.Contains(err.Error(), "nobody.example: no such host") &&
		!strings.Contains(err.Error(), "no such host") || strings.Contains(err.Error(), "canary") {
		t.Errorf("got %v", err)
	}
}

func TestTLS(t *testing.T) {
	t.Parallel()
	server, roots := serveTLS(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("X-Request-Id", r.Proto)
	})
	payload := contract.HTTPRequest{URL: server.URL}
	e := attempt(payload)
	if err := run(t.Context(), t, newSender(t, webhook.Config{Allow: local, TLSConfig: roots}), e); err != nil {
		t.Error(err)
	}
	if !strings.Contains(string(e.Effects().Result), "HTTP/2.0") {
		t.Errorf("result %s", e.Effects().Result)
	}
	_, err := send(t, payload) // does not know the authority
	if err == nil || permanent(err) || !strings.Contains(err.Error(), "certificate") {
		t.Errorf("got %v", err)
	}
	old, roots := serveTLS(t, answering(http.StatusOK))
	old.TLS.MaxVersion = tls.VersionTLS11
	old.TLS.MinVersion = tls.VersionTLS10
	err = run(t.Context(), t, newSender(t, webhook.Config{Allow: local, TLSConfig: roots}),
		attempt(contract.HTTPRequest{URL: old.URL}))
	if err == nil || permanent(err) || !strings.Contains(err.Error(), "protocol version") {
		t.Errorf("TLS 1.1: %v", err)
	}
}

// A proxy would connect to what the guard refuses.
func TestTheEnvironmentsProxyIsNotUsed(t *testing.T) {
	proxy := serve(t, func(http.ResponseWriter, *http.Request) { t.Error("the proxy is asked") })
	for _, name := range []string{"HTTP_PROXY", "http_proxy", "HTTPS_PROXY", "ALL_PROXY"} {
		t.Setenv(name, proxy.URL)
	}
	server := serve(t, answering(http.StatusOK))
	sender := newSender(t, webhook.Config{Allow: []string{"server.example"}, Resolver: resolver(t, always("127.0.0.1"))})
	payload := contract.HTTPRequest{URL: "http://server.example:" + portOf(t, server)}
	if err := run(t.Context(), t, sender, attempt(payload)); err != nil {
		t.Error(err)
	}
}

func TestConnectionsAreUsedAgain(t *testing.T) {
	t.Parallel()
	from := make(chan string, 20)
	server := serve(t, func(w http.ResponseWriter, r *http.Request) {
		from <- r.RemoteAddr
		_, _ = fmt.Fprint(w, "fine")
	})
	sender := newSender(t, webhook.Config{Allow: local})
	seen := map[string]bool{}
	for range 20 {
		if err := run(context.Background(), t, sender, attempt(contract.HTTPRequest{URL: server.URL})); err != nil {
			t.Fatal(err)
		}
		seen[<-from] = true
	}
	if len(seen) > 5 { // a busy machine may need more than one
		t.Errorf("%d connections", len(seen))
	}
}
