//go:build unix

package torture

import (
	"bufio"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"
)

// receivers are the servers that the tasks of type HTTP_REQUEST call, one for each behaviour. They keep a record of
// what they got.
type receivers struct {
	hosts map[string]string // the URL of each behaviour's receiver

	listeners []net.Listener
	serving   sync.WaitGroup

	mu       sync.Mutex
	received []received
	open     map[net.Conn]bool
	closed   bool
}

// received is a request that has arrived.
type received struct {
	At      time.Time
	Do      string // as the payload has it
	Key     string // the header Idempotency-Key
	Task    string // the header Tasktable-Task-Id
	Attempt int    // the header Tasktable-Attempt
}

func openReceivers() (*receivers, error) {
	r := &receivers{hosts: map[string]string{}, open: map[net.Conn]bool{}}
	for i := range behaviours {
		b := &behaviours[i]
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			r.close()
			return nil, fmt.Errorf("open the receiver %s: %w", b.name, err)
		}
		r.listeners = append(r.listeners, listener)
		r.hosts[b.name] = "http://" + listener.Addr().String()
		r.serving.Go(func() {
			for {
				conn, err := listener.Accept()
				if err != nil {
					return
				}
				r.serving.Go(func() { r.serve(b, conn) })
			}
		})
	}
	return r, nil
}

// serve reads one request, notes it, and behaves.
func (r *receivers) serve(b *behaviour, conn net.Conn) {
	if !r.enter(conn) {
		return
	}
	defer r.leave(conn)
	asked, err := http.ReadRequest(bufio.NewReader(conn))
	if err != nil {
		return
	}
	attempt, _ := strconv.Atoi(asked.Header.Get("Tasktable-Attempt"))
	r.mu.Lock()
	r.received = append(r.received, received{
		At: time.Now(), Do: hookPrefix + b.name, Key: asked.Header.Get("Idempotency-Key"),
		Task: asked.Header.Get("Tasktable-Task-Id"), Attempt: attempt,
	})
	r.mu.Unlock()
	if strings.HasSuffix(asked.URL.Path, "/again") || attempt <= badFor(asked.URL.Path) {
		(&taken{conn}).behave(b)
	} else {
		(&taken{conn}).behave(&behaviours[0])
	}
}

func (r *receivers) enter(conn net.Conn) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		_ = conn.Close()
		return false
	}
	r.open[conn] = true
	return true
}

func (r *receivers) leave(conn net.Conn) {
	_ = conn.Close()
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.open, conn)
}

// all is a copy of the record.
func (r *receivers) all() []received {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]received(nil), r.received...)
}

// close ends all connections, also those that hang.
func (r *receivers) close() {
	for _, listener := range r.listeners {
		_ = listener.Close()
	}
	r.mu.Lock()
	r.closed = true
	for conn := range r.open {
		_ = conn.Close()
	}
	r.mu.Unlock()
	r.serving.Wait()
}

// taken is a connection whose request has been read.
type taken struct{ net.Conn }

func (c *taken) behave(b *behaviour) {
	if _, err := fmt.Fprint(c, b.answer); err == nil && b.ends != nil {
		b.ends(c)
	}
}

// hang says nothing more, until the other side has had enough.
func (c *taken) hang() { _, _ = c.Read(make([]byte, 1)) }

// reset lets the other side's next read fail.
func (c *taken) reset() { _ = c.Conn.(*net.TCPConn).SetLinger(0) }

// writeOn writes until the other side has had enough.
func (c *taken) writeOn() {
	text := []byte(strings.Repeat("x", 4096))
	for {
		if _, err := c.Write(text); err != nil {
			return
		}
	}
}
