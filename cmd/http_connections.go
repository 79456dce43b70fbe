package cmd

import (
	"net"
	"net/http"
	"sync"
	"time"
)

// maxHTTPConns bounds the memory and the file descriptors that clients can take from the node.
const maxHTTPConns = 1000

// openConns knows the connections of clients. A new one that is too many takes the place of the one that has sent no
// request for longest, so that nobody keeps others out with connections that do nothing.
type openConns struct {
	most int

	mu      sync.Mutex
	all     int
	waiting map[net.Conn]time.Time // those that have no request under way, and since when
	gone    map[net.Conn]bool      // those that are closed here, of which the server has not heard yet
}

func newOpenConns(most int) *openConns {
	return &openConns{most: most, waiting: map[net.Conn]time.Time{}, gone: map[net.Conn]bool{}}
}

// changed is the hook of the server. A connection is active from the end of a request's header until the answer is
// sent.
func (c *openConns) changed(conn net.Conn, state http.ConnState) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.gone[conn] && state != http.StateClosed {
		return // its last request came while it was closed
	}
	switch state {
	case http.StateNew:
		c.all++
		c.waiting[conn] = time.Now()
		if c.all > c.most {
			c.closeOldest()
		}
	case http.StateIdle:
		c.waiting[conn] = time.Now()
	case http.StateActive:
		delete(c.waiting, conn)
	case http.StateClosed, http.StateHijacked:
		delete(c.waiting, conn)
		if !c.gone[conn] {
			c.all--
		}
		delete(c.gone, conn)
	}
}

// closeOldest closes the new connection itself if all others have a request under way.
func (c *openConns) closeOldest() {
	var oldest net.Conn
	for conn, since := range c.waiting {
		if oldest == nil || since.Before(c.waiting[oldest]) {
			oldest = conn
		}
	}
	delete(c.waiting, oldest)
	c.gone[oldest] = true
	c.all--
	_ = oldest.Close() // it is of no more use, whatever the error
}
