//go:build unix

package torture

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/Shopify/toxiproxy/v2"
	"github.com/Shopify/toxiproxy/v2/toxics"
	"github.com/rs/zerolog"
)

// wire is the network between one process or writer and the database, or between a writer and the HTTP API. It has at
// most one toxic each way. Where it has two, and one is taken from a connection that is being closed, the proxy counts
// them wrongly, and panics when it gets the next.
type wire struct {
	name    string
	server  *toxiproxy.ApiServer
	proxy   *toxiproxy.Proxy
	address string // the same after it was cut

	turns sync.Mutex // of those that put a toxic in the place of another
}

// Some toxics have a logger of their own, which only this silences.
func init() { zerolog.SetGlobalLevel(zerolog.Disabled) }

func newWire(name, upstream string) (*wire, error) {
	server := toxiproxy.NewServer(toxiproxy.NewMetricsContainer(nil), zerolog.Nop())
	w := &wire{name: name, server: server, proxy: toxiproxy.NewProxy(server, name, "127.0.0.1:0", upstream)}
	if err := w.proxy.Start(); err != nil {
		return nil, fmt.Errorf("start the wire of %s: %w", name, err)
	}
	w.address = w.proxy.Listen
	return w, nil
}

// cut closes all connections and refuses new ones, until mend.
func (w *wire) cut() { w.proxy.Stop() }

// upstream is where the wire leads.
func (w *wire) upstream() string {
	w.proxy.Lock()
	defer w.proxy.Unlock()
	return w.proxy.Upstream
}

// mend makes the wire whole again, to where the database is now.
func (w *wire) mend(upstream string) error {
	w.calm()
	w.proxy.Lock()
	running, same := w.proxy.Enabled, w.proxy.Upstream == upstream
	w.proxy.Unlock()
	if running && same {
		return nil
	}
	w.proxy.Stop()
	w.proxy.Lock()
	w.proxy.Upstream, w.proxy.Listen = upstream, w.address
	w.proxy.Unlock()
	if err := w.proxy.Start(); err != nil {
		return fmt.Errorf("mend the wire of %s: %w", w.name, err)
	}
	return nil
}

// mute is a toxic that lets nothing through, not even that the other end has closed the connection. The timeout toxic
// would tell that, so a node would learn at once that Postgres has ended its session.
type mute struct{}

func init() { toxics.Register("mute", new(mute)) }

// Pipe implements toxics.Toxic.
func (*mute) Pipe(stub *toxics.ToxicStub) {
	input := stub.Input
	for {
		select {
		case <-stub.Interrupt:
			return
		case chunk := <-input:
			if chunk == nil { // the end is not passed on
				input = nil
			}
		}
	}
}

// Cleanup implements toxics.CleanupToxic: what was lost is lost.
func (*mute) Cleanup(stub *toxics.ToxicStub) { stub.Close() }

// hush lets nothing through in some directions, and closes nothing: neither end learns that the other does not hear it.
func (w *wire) hush(streams ...string) error {
	for _, stream := range streams {
		if err := w.toxic("mute", stream, nil); err != nil {
			return err
		}
	}
	return nil
}

// slow delays what passes, each way by its own time.
func (w *wire) slow(up, down, jitter time.Duration) error {
	for stream, delay := range map[string]time.Duration{"upstream": up, "downstream": down} {
		attributes := map[string]int64{"latency": delay.Milliseconds(), "jitter": min(jitter, delay).Milliseconds()}
		if err := w.toxic("latency", stream, attributes); err != nil {
			return err
		}
	}
	return nil
}

// narrow lets only so many kilobytes a second through.
func (w *wire) narrow(kilobytes int64) error {
	for _, stream := range []string{"upstream", "downstream"} {
		if err := w.toxic("bandwidth", stream, map[string]int64{"rate": kilobytes}); err != nil {
			return err
		}
	}
	return nil
}

// clip ends each connection after so many bytes of what comes back.
func (w *wire) clip(bytes int64) error {
	return w.toxic("limit_data", "downstream", map[string]int64{"bytes": bytes})
}

// calm takes all of hush, slow, narrow and clip away. Connections that were hushed are closed by it: what they lost is
// lost.
func (w *wire) calm() { w.proxy.Toxics.ResetToxics(context.Background()) }

// toxic takes the place of the toxic that was there this way.
func (w *wire) toxic(kind, stream string, attributes map[string]int64) error {
	encoded, err := json.Marshal(map[string]any{
		"name": stream, "type": kind, "stream": stream, "attributes": attributes,
	})
	if err != nil {
		return fmt.Errorf("encode a toxic: %w", err)
	}
	w.turns.Lock()
	defer w.turns.Unlock()
	_ = w.proxy.Toxics.RemoveToxic(context.Background(), stream) // there may be one
	if _, err := w.proxy.Toxics.AddToxicJson(strings.NewReader(string(encoded))); err != nil {
		return fmt.Errorf("make the wire of %s worse by %s: %w", w.name, kind, err)
	}
	return nil
}
