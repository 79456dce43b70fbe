package cmd

import (
	"net"
	"net/http"
	"net/netip"
	"slices"
	"sync"
	"time"
)

// These numbers bound the memory and the file descriptors that clients can take from the node.
const (
	maxHTTPConns  = 1000
	maxProbeConns = 100
	// connsOfOne is how many of them one address may have. The addresses of an IPv6 network of 64 bits count as one.
	// A proxy, and this machine, where a proxy may be, has half of all instead.
	connsOfOne = 100
)

// openConns knows the connections of clients. A new one that is too many takes the place of the one that has sent no
// request for longest, so that nobody keeps others out with connections that do nothing. If its address has too many,
// it takes the place of another one of that address.
type openConns struct {
	most    int
	proxies []netip.Prefix

	mu      sync.Mutex
	all     int
	of      map[netip.Prefix]int   // of each network
	waiting map[net.Conn]time.Time // those that have no request under way, and since when
	gone    map[net.Conn]bool      // those that are closed here, of which the server has not heard yet
}

func newOpenConns(most int, proxies []netip.Prefix) *openConns {
	return &openConns{most: most, proxies: proxies, of: map[netip.Prefix]int{}, waiting: map[net.Conn]time.Time{},
		gone: map[net.Conn]bool{}}
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
		from, share := c.clientOf(conn)
		c.all++
		c.of[from]++
		c.waiting[conn] = time.Now()
		switch {
		case c.of[from] > share:
			c.closeOldest(func(other net.Conn) bool {
				network, _ := c.clientOf(other)
				return network == from
			})
		case c.all > c.most:
			c.closeOldest(func(net.Conn) bool { return true })
		}
	case http.StateIdle:
		c.waiting[conn] = time.Now()
	case http.StateActive:
		delete(c.waiting, conn)
	case http.StateClosed, http.StateHijacked:
		delete(c.waiting, conn)
		if !c.gone[conn] {
			c.forget(conn)
		}
		delete(c.gone, conn)
	}
}

// closeOldest closes the new connection itself if all others that it may close have a request under way.
func (c *openConns) closeOldest(may func(net.Conn) bool) {
	var oldest net.Conn
	for conn, since := range c.waiting {
		if may(conn) && (oldest == nil || since.Before(c.waiting[oldest])) {
			oldest = conn
		}
	}
	delete(c.waiting, oldest)
	c.gone[oldest] = true
	c.forget(oldest)
	_ = oldest.Close() // it is of no more use, whatever the error
}

func (c *openConns) forget(conn net.Conn) {
	from, _ := c.clientOf(conn)
	c.all--
	if c.of[from]--; c.of[from] == 0 {
		delete(c.of, from)
	}
}

// clientOf returns the network of a client, and how many connections it may have.
func (c *openConns) clientOf(conn net.Conn) (network netip.Prefix, share int) {
	from, err := netip.ParseAddrPort(conn.RemoteAddr().String())
	if err != nil {
		return netip.Prefix{}, c.most // no client of TCP
	}
	address := from.Addr().Unmap().WithZone("")
	bits, share := address.BitLen(), min(connsOfOne, c.most)
	isProxy := slices.ContainsFunc(c.proxies, func(proxy netip.Prefix) bool { return proxy.Contains(address) })
	switch {
	case isProxy || address.IsLoopback():
		share = c.most / 2
	case address.Is6():
		bits = 64
	}
	network, _ = address.Prefix(bits) // the error is about the number of bits
	return network, share
}
