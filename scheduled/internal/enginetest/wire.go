package enginetest

import (
	"bytes"
	"context"
	"net"
	"sync"
	"sync/atomic"
	"time"
)

// Wire is the network between a node and its database. It can be slow, and it can be cut: then nothing comes through in
// either direction, not even that a connection has ended. When it is mended, what was sent meanwhile comes through;
// only connections that were made while it was cut never get an answer.
type Wire struct {
	Delay time.Duration
	Rate  int // bytes a second; 0 means no limit

	Mu        sync.Mutex
	gate      chan struct{} // closed while the wire is whole
	forgotten chan struct{} // closed when the connections made until then are forgotten
	ends      []net.Conn
	wg        sync.WaitGroup
}

// NewWire makes a wire that carries everything at once.
func NewWire() *Wire {
	w := &Wire{gate: make(chan struct{}), forgotten: make(chan struct{})}
	close(w.gate)
	return w
}

// End ends all connections, and returns when nothing is left of them.
func (w *Wire) End() {
	w.Mend()
	w.Mu.Lock()
	for _, end := range w.ends {
		_ = end.Close()
	}
	w.Mu.Unlock()
	w.wg.Wait()
}

// Cut closes all connections, and refuses new ones until Mend.
func (w *Wire) Cut() {
	w.Mu.Lock()
	defer w.Mu.Unlock()
	if w.Whole() {
		w.gate = make(chan struct{})
	}
}

// Mend lets new connections through again.
func (w *Wire) Mend() {
	w.Mu.Lock()
	defer w.Mu.Unlock()
	if !w.Whole() {
		close(w.gate)
	}
}

// Whole reports whether the wire carries connections.
func (w *Wire) Whole() bool {
	select {
	case <-w.gate:
		return true
	default:
		return false
	}
}

// Forget lets nothing through any more on the connections that there are, and closes none, as a firewall that has
// forgotten them. New ones work.
func (w *Wire) Forget() {
	w.Mu.Lock()
	defer w.Mu.Unlock()
	close(w.forgotten)
	w.forgotten = make(chan struct{})
}

// through is the gate that what is sent now has to pass.
func (w *Wire) through() <-chan struct{} {
	w.Mu.Lock()
	defer w.Mu.Unlock()
	return w.gate
}

// Dial is a pgconn.DialFunc.
func (w *Wire) Dial(ctx context.Context, network, address string) (net.Conn, error) {
	near, far := net.Pipe()
	w.Mu.Lock()
	w.ends = append(w.ends, near, far)
	forgotten := w.forgotten
	answered := w.Whole()
	w.Mu.Unlock()
	if !answered {
		w.wg.Go(func() { w.carry(nil, far, forgotten) })
		return near, nil
	}
	var dialer net.Dialer
	server, err := dialer.DialContext(ctx, network, address)
	if err != nil {
		return nil, err
	}
	w.Mu.Lock()
	w.ends = append(w.ends, server)
	w.Mu.Unlock()
	w.wg.Go(func() { w.carry(server, far, forgotten) })
	w.wg.Go(func() { w.carry(far, server, forgotten) })
	return near, nil
}

// carry copies from one end to the other, which is nil when nobody is there. Like a socket's, its buffer takes what
// is written while the wire is cut.
func (w *Wire) carry(to, from net.Conn, forgotten <-chan struct{}) {
	type packet struct {
		bytes []byte
		at    time.Time
	}
	sent := make(chan packet, 1000)
	w.wg.Go(func() {
		defer close(sent)
		for {
			bytes := make([]byte, 16<<10)
			n, err := from.Read(bytes)
			if err != nil {
				return
			}
			sent <- packet{bytes[:n], time.Now()}
		}
	})
	for p := range sent {
		if to == nil {
			continue
		}
		<-w.through()
		select {
		case <-forgotten:
			continue
		default:
		}
		<-time.After(time.Until(p.at.Add(w.Delay)))
		if w.Rate > 0 {
			<-time.After(time.Duration(len(p.bytes)) * time.Second / time.Duration(w.Rate))
		}
		_, _ = to.Write(p.bytes) // an end that is gone: the other learns it by the close
	}
	<-w.through()
	_ = from.Close()
	if to != nil {
		_ = to.Close()
	}
}

// Tripwire cuts the wire just before it carries a commit, once it is armed.
type Tripwire struct {
	net.Conn
	Wire  *Wire
	Armed atomic.Bool
}

func (c *Tripwire) Write(packet []byte) (int, error) {
	if c.Armed.Load() && bytes.Contains(packet, []byte("commit")) {
		c.Wire.Cut()
	}
	return c.Conn.Write(packet)
}
