package scheduled

import (
	"bytes"
	"context"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
)

// wire is the network between a node and its database. It can be slow, and it can be cut: then nothing comes through in
// either direction, not even that a connection has ended. When it is mended, what was sent meanwhile comes through;
// only connections that were made while it was cut never get an answer.
type wire struct {
	delay time.Duration
	rate  int // bytes a second; 0: as they come

	mu        sync.Mutex
	gate      chan struct{} // closed while the wire is whole
	forgotten chan struct{} // closed when the connections made until then are forgotten
	ends      []net.Conn
	wg        sync.WaitGroup
}

func newWire() *wire {
	w := &wire{gate: make(chan struct{}), forgotten: make(chan struct{})}
	close(w.gate)
	return w
}

// end ends all connections, and returns when nothing is left of them.
func (w *wire) end() {
	w.mend()
	w.mu.Lock()
	for _, end := range w.ends {
		_ = end.Close()
	}
	w.mu.Unlock()
	w.wg.Wait()
}

func (w *wire) cut() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.whole() {
		w.gate = make(chan struct{})
	}
}

func (w *wire) mend() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.whole() {
		close(w.gate)
	}
}

func (w *wire) whole() bool {
	select {
	case <-w.gate:
		return true
	default:
		return false
	}
}

// forget lets nothing through any more on the connections that there are, and closes none, as a firewall that has
// forgotten them. New ones work.
func (w *wire) forget() {
	w.mu.Lock()
	defer w.mu.Unlock()
	close(w.forgotten)
	w.forgotten = make(chan struct{})
}

// through is the gate that what is sent now has to pass.
func (w *wire) through() <-chan struct{} {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.gate
}

// dial is a pgconn.DialFunc.
func (w *wire) dial(ctx context.Context, network, address string) (net.Conn, error) {
	near, far := net.Pipe()
	w.mu.Lock()
	w.ends = append(w.ends, near, far)
	forgotten := w.forgotten
	answered := w.whole()
	w.mu.Unlock()
	if !answered {
		w.wg.Go(func() { w.carry(nil, far, forgotten) })
		return near, nil
	}
	var dialer net.Dialer
	server, err := dialer.DialContext(ctx, network, address)
	if err != nil {
		return nil, err
	}
	w.mu.Lock()
	w.ends = append(w.ends, server)
	w.mu.Unlock()
	w.wg.Go(func() { w.carry(server, far, forgotten) })
	w.wg.Go(func() { w.carry(far, server, forgotten) })
	return near, nil
}

// carry copies from one end to the other, which is nil when nobody is there. Like a socket's, its buffer takes what
// is written while the wire is cut.
func (w *wire) carry(to, from net.Conn, forgotten <-chan struct{}) {
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
		<-time.After(time.Until(p.at.Add(w.delay)))
		if w.rate > 0 {
			<-time.After(time.Duration(len(p.bytes)) * time.Second / time.Duration(w.rate))
		}
		_, _ = to.Write(p.bytes) // an end that is gone: the other learns it by the close
	}
	<-w.through()
	_ = from.Close()
	if to != nil {
		_ = to.Close()
	}
}

// pool is a pool for a node in this process, with this wire between.
func (w *wire) pool(f *field) *pgxpool.Pool {
	f.t.Helper()
	settings := f.nodePool().Config()
	settings.ConnConfig.DialFunc = w.dial
	settings.ConnConfig.AfterNetConnect = func(_ context.Context, _ *pgconn.Config, conn net.Conn) (net.Conn, error) {
		return &tripwire{Conn: conn, wire: w}, nil
	}
	pool, err := pgxpool.NewWithConfig(context.Background(), settings)
	if err != nil {
		f.t.Fatal(err)
	}
	f.t.Cleanup(func() {
		w.end()
		pool.Close()
	})
	return pool
}

// tripwire cuts the wire just before it carries a commit, once it is armed.
type tripwire struct {
	net.Conn
	wire  *wire
	armed atomic.Bool
}

func (c *tripwire) Write(packet []byte) (int, error) {
	if c.armed.Load() && bytes.Contains(packet, []byte("commit")) {
		c.wire.cut()
	}
	return c.Conn.Write(packet)
}
