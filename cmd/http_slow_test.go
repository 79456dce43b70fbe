package cmd

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tasktable/tasktable/store/storetest"
)

// slack is the time that a busy machine may add to a limit.
const slack = 8 * time.Second

// slowClient sends its beginning at once. If it drips, it sends a byte from time to time and reads nothing.
type slowClient struct {
	begins string
	drips  bool
	within time.Duration // the documented time
	conns  int
}

// wantEnd opens the connections and waits until the server has closed each of them.
func (c slowClient) wantEnd(t *testing.T, name, address string) {
	began, end := time.Now(), readOn
	if c.drips {
		end = drip
	}
	var all sync.WaitGroup
	for range max(c.conns, 1) {
		all.Go(func() {
			conn, err := new(net.Dialer).DialContext(t.Context(), "tcp", address)
			if err != nil {
				t.Error(err)
				return
			}
			defer func() { _ = conn.Close() }()
			// Small, so that an answer that is not read fills it soon.
			err = errors.Join(conn.(*net.TCPConn).SetReadBuffer(4096), conn.SetDeadline(began.Add(c.within+slack)))
			if _, unsent := io.WriteString(conn, c.begins); err != nil || unsent != nil {
				t.Error(name, err, unsent)
			}
			if err := end(conn); errors.Is(err, os.ErrDeadlineExceeded) {
				t.Errorf("slow with its %s: is not ended within %s", name, c.within)
			}
		})
	}
	all.Wait()
}

// drip sends bytes until the server does not take them.
func drip(conn net.Conn) error {
	pause := time.NewTicker(100 * time.Millisecond)
	defer pause.Stop()
	for range pause.C {
		if _, err := io.WriteString(conn, "a"); err != nil {
			return err //nolint:wrapcheck // the caller compares it
		}
	}
	return nil
}

func readOn(conn net.Conn) error {
	_, err := io.Copy(io.Discard, conn)
	return err //nolint:wrapcheck // the caller compares it
}

// Slow clients are ended within the documented times. Meanwhile others are answered at once, those that wait for a
// task and those that follow events may take long.
func TestServeEndsSlowClients(t *testing.T) {
	t.Parallel()
	url := storetest.URL(t)
	p, base := probed(t, []string{"DATABASE_URL=" + url}, "--api", "--api-address-rate=100000")
	becomes(t, base+"/readyz", http.StatusOK)
	address := strings.TrimPrefix(base, "http://")
	created := run(t, []string{"DATABASE_URL=" + url}, "keys", "create", "good", "--scope=read,schedule")
	created.want(t, exitOK)
	good := &goodClient{base: base, key: strings.TrimSpace(created.stdout)}
	execute(t, url,
		`SELECT tasktable.schedule('{"type": "LOG"}', id => 'later', scheduled_at => now() + interval '1 hour')`)

	meanwhile, stop := context.WithCancel(t.Context())
	var answered, waited sync.WaitGroup
	answered.Go(func() { good.callOften(t, meanwhile) })
	answered.Go(func() { good.follows(t, httpWriteWithin+time.Second) })
	waited.Go(func() { good.waits(t, httpWriteWithin+2*time.Second) })
	const head = " HTTP/1.1\r\nHost: a\r\n"
	known := head + "Authorization: Bearer " + good.key + "\r\n"
	var slow sync.WaitGroup
	for name, client := range map[string]slowClient{
		"header": {begins: "GET /v1/tasks" + head + "X-A: ", drips: true, within: httpReadWithin},
		"large header": {begins: "GET /v1/tasks" + head + "X-A: " + strings.Repeat("a", 64<<10),
			within: httpReadWithin},
		"half a line": {begins: "GET /v1/ta", within: httpReadWithin, conns: 20},
		"nothing":     {within: httpReadWithin, conns: 200},
		"body": {begins: "PUT /v1/tasks/a" + known + "Content-Type: application/json\r\nContent-Length: 10000\r\n\r\n",
			drips: true, within: httpReadWithin},
		"chunked body": {begins: "PUT /v1/tasks/a" + known + "Transfer-Encoding: chunked\r\n\r\nffff\r\n",
			drips: true, within: httpReadWithin},
		"body of a stranger": {begins: "PUT /v1/tasks/a" + head + "Content-Length: 10000\r\n\r\n",
			drips: true, within: httpStrangerWithin},
		"body of another path": {begins: "POST /livez" + head + "Content-Length: 10000\r\n\r\n",
			drips: true, within: httpStrangerWithin},
		// The answers fill the buffers of both sides.
		"answer": {begins: strings.Repeat("GET /openapi.json"+head+"\r\n", 100), drips: true, within: httpWriteWithin},
		"answer of another path": {begins: strings.Repeat("GET /metrics"+head+"\r\n", 2000), drips: true,
			within: httpWriteWithin},
	} {
		slow.Go(func() { client.wantEnd(t, name, address) })
	}
	slow.Wait()
	waited.Wait()
	// An event, so that the client that follows them need not wait for a sign of life.
	execute(t, url, `SELECT tasktable.cancel('later')`)
	stop()
	answered.Wait()
	p.stop("path=/v1/tasks/a status=408")
}

type goodClient struct{ base, key string }

func (c *goodClient) get(ctx context.Context, path string) (*http.Response, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, c.base+path, nil)
	if err != nil {
		return nil, fmt.Errorf("make a request: %w", err)
	}
	request.Header.Set("Authorization", "Bearer "+c.key)
	return http.DefaultClient.Do(request) //nolint:wrapcheck // it names the call
}

// callOften calls until ctx ends, and wants each answer soon.
func (c *goodClient) callOften(t *testing.T, ctx context.Context) { //nolint:revive // as of other functions of tests
	pause := time.NewTicker(100 * time.Millisecond)
	defer pause.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-pause.C:
		}
		limited, cancel := context.WithTimeout(t.Context(), slack)
		answer, err := c.get(limited, "/v1/tasks")
		if err == nil {
			_, err = io.Copy(io.Discard, answer.Body)
			err = errors.Join(err, answer.Body.Close())
		}
		cancel()
		if err != nil || answer.StatusCode != http.StatusOK {
			t.Errorf("a good client: %v %v", answer, err)
			return
		}
	}
}

func (c *goodClient) waits(t *testing.T, howLong time.Duration) {
	began := time.Now()
	answer, err := c.get(t.Context(), "/v1/tasks/later?wait="+howLong.String())
	if err != nil {
		t.Error(err)
		return
	}
	text, err := io.ReadAll(answer.Body)
	if err := errors.Join(err, answer.Body.Close()); err != nil || !strings.Contains(string(text), "QUEUED") ||
		time.Since(began) < howLong {
		t.Errorf("a client that waits: after %s %s %v", time.Since(began), text, err)
	}
}

func (c *goodClient) follows(t *testing.T, howLong time.Duration) {
	began := time.Now()
	answer, err := c.get(t.Context(), "/v1/events")
	if err != nil {
		t.Error(err)
		return
	}
	defer func() { _ = answer.Body.Close() }()
	for lines := bufio.NewScanner(answer.Body); time.Since(began) < howLong; {
		if !lines.Scan() {
			t.Errorf("a stream of events ended after %s: %v", time.Since(began), lines.Err())
			return
		}
	}
}

// Connections that do nothing make room for new ones, and those with a request under way stay.
func TestConnectionsAreBounded(t *testing.T) {
	t.Parallel()
	const most = 10
	open := newOpenConns(2*most, nil) // a half of them for this machine
	release, working := make(chan struct{}), make(chan struct{})
	server := &http.Server{ReadHeaderTimeout: waitLimit, ConnState: open.changed,
		Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			working <- struct{}{}
			<-release
			w.WriteHeader(http.StatusNoContent)
		})}
	listener := listen(t)
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(listener) }()
	dial := func(request string) net.Conn {
		t.Helper()
		conn, err := net.Dial("tcp", listener.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = conn.Close() })
		if _, err := io.WriteString(conn, request); err != nil {
			t.Fatal(err)
		}
		if err := conn.SetReadDeadline(time.Now().Add(waitLimit)); err != nil {
			t.Fatal(err)
		}
		return conn
	}
	closed := func(conn net.Conn) bool {
		_, err := conn.Read(make([]byte, 1))
		return err != nil && !errors.Is(err, os.ErrDeadlineExceeded)
	}
	const request = "GET / HTTP/1.1\r\nHost: a\r\n\r\n"
	works := dial(request)
	<-working
	var idle []net.Conn
	for range most - 1 {
		idle = append(idle, dial("GET / HT"))
	}
	for i := range most - 1 { // each takes the place of one that does nothing
		var more net.Conn
		if more = dial(request); !closed(idle[i]) {
			t.Fatalf("connection %d that does nothing is not closed", i)
		}
		<-working
		defer func() { _ = more.Close() }()
	}
	if !closed(dial("")) { // all have a request under way
		t.Error("a connection too many is not closed")
	}
	close(release)
	if status, err := bufio.NewReader(works).ReadString('\n'); err != nil || !strings.Contains(status, "204") {
		t.Errorf("a connection with a request under way got %q, %v", status, err)
	}
	if err := server.Shutdown(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := <-ended; !errors.Is(err, http.ErrServerClosed) {
		t.Error(err)
	}
	counts := func() [3]int {
		open.mu.Lock()
		defer open.mu.Unlock()
		return [3]int{open.all, len(open.waiting), len(open.gone)}
	}
	for deadline := time.Now().Add(waitLimit); counts() != [3]int{}; <-time.After(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("counts %v connections, though all are closed", counts())
		}
	}
}

// fromAddress is a connection of a client with an address.
type fromAddress struct {
	net.Conn

	address string
	closed  bool
}

func (c *fromAddress) RemoteAddr() net.Addr {
	return net.TCPAddrFromAddrPort(netip.MustParseAddrPort(c.address))
}

func (c *fromAddress) Close() error {
	c.closed = true
	return nil
}

// One address does not take the connections of all, whatever its requests do. A proxy may have half of them.
func TestConnectionsOfOneAddress(t *testing.T) {
	t.Parallel()
	const most = 4 * connsOfOne
	for name, c := range map[string]struct {
		address func(int) string
		want    int
	}{
		"one address":         {func(i int) string { return fmt.Sprintf("192.0.2.1:%d", 1+i) }, connsOfOne},
		"one network of IPv6": {func(i int) string { return fmt.Sprintf("[2001:db8::%x]:1", 1+i) }, connsOfOne},
		"an IPv4 within IPv6": {func(i int) string { return fmt.Sprintf("[::ffff:192.0.2.1]:%d", 1+i) }, connsOfOne},
		"a proxy":             {func(i int) string { return fmt.Sprintf("10.0.0.1:%d", 1+i) }, most / 2},
		"a proxy of IPv6":     {func(i int) string { return fmt.Sprintf("[2001:db8:1::1]:%d", 1+i) }, most / 2},
		"this machine":        {func(i int) string { return fmt.Sprintf("127.0.0.1:%d", 1+i) }, most / 2},
		"this machine, IPv6":  {func(i int) string { return fmt.Sprintf("[::1]:%d", 1+i) }, most / 2},
		"two addresses":       {func(i int) string { return fmt.Sprintf("192.0.2.%d:%d", 1+i%2, 1+i) }, 2 * connsOfOne},
	} {
		open := newOpenConns(most, []netip.Prefix{
			netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("2001:db8:1::1/128"),
		})
		var conns []*fromAddress
		for i := range most - 1 {
			conn := &fromAddress{address: c.address(i)}
			conns = append(conns, conn)
			if open.changed(conn, http.StateNew); !conn.closed {
				open.changed(conn, http.StateActive) // a request is under way for ever
			}
		}
		other := &fromAddress{address: "198.51.100.1:1"}
		open.changed(other, http.StateNew)
		kept := 0
		for _, conn := range conns {
			if !conn.closed {
				kept++
			}
			open.changed(conn, http.StateClosed)
		}
		if kept != c.want || other.closed {
			t.Errorf("%s: %d connections, want %d; that of another client is closed: %v", name, kept, c.want,
				other.closed)
		}
		open.changed(other, http.StateClosed)
		if open.all != 0 || len(open.of)+len(open.waiting)+len(open.gone) != 0 {
			t.Errorf("%s: counts %d connections, though all are closed", name, open.all)
		}
	}
}

func TestDocumentedLimitsOfHTTP(t *testing.T) {
	t.Parallel()
	page := readFile(t, "scheduled/api/README.md")
	for _, row := range []string{
		fmt.Sprintf("| header of a request | %d KiB |", httpHeaderBytes>>10),
		fmt.Sprintf("| time to send header and body | %.0f seconds |", httpReadWithin.Seconds()),
		fmt.Sprintf("| time to send a body without a key | %.0f seconds |", httpStrangerWithin.Seconds()),
		fmt.Sprintf("| time to read an answer | %.0f seconds, ", httpWriteWithin.Seconds()),
		fmt.Sprintf("| connections of clients | 1,%03d, and %d of one address", maxHTTPConns-1000, connsOfOne),
		fmt.Sprintf("| connection without a request | %.0f seconds, and after an answer %.0f |",
			httpReadWithin.Seconds(), httpIdleFor.Seconds()),
	} {
		if !strings.Contains(page, row) {
			t.Errorf("the page lacks %q", row)
		}
	}
}
