package cmd

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tasktable/tasktable/cmd/internal/options"
	"github.com/tasktable/tasktable/scheduled"
	"github.com/tasktable/tasktable/scheduled/api"
)

// httpSettings say whether the program answers over HTTP, and where.
type httpSettings struct {
	address string
	probes  string // "": at address
	local   bool   // address tells strangers nothing whose request names another host than this machine
}

func (s *httpSettings) options() []options.Option {
	return []options.Option{
		{Flag: "http-addr", Variable: "TASKTABLE_HTTP_ADDR", Kind: "address",
			Set: listenAddress(&s.address),
			Usage: "where to answer /livez, /readyz and /metrics, as :8080 or 127.0.0.1:8080, without a password " +
				"and without TLS, with --api the API, and with --dashboard the dashboard (default nowhere)"},
		{Flag: "probe-addr", Variable: "TASKTABLE_PROBE_ADDR", Kind: "address",
			Set: listenAddress(&s.probes),
			Usage: "where to answer /livez, /readyz and /metrics instead, so that no client of the API or the " +
				"dashboard can keep probes and scrapes out; --http-addr then has no /metrics, and its /livez and " +
				"/readyz give no reasons (default at --http-addr)"},
	}
}

func listenAddress(into *string) func(string) error {
	return func(given string) error {
		host, port, err := net.SplitHostPort(given)
		_, noNumber := strconv.ParseUint(port, 10, 16)
		if err != nil || noNumber != nil || options.Text(new(string), 253)(host) != nil {
			return errors.New("must be host:port or :port, such as :8080, 127.0.0.1:8080 or [::1]:8080")
		}
		*into = given
		return nil
	}
}

// These limits bound the memory and the connections that clients can hold, however slow they are.
const (
	httpReadWithin     = 5 * time.Second
	httpStrangerWithin = 2 * time.Second // for a body, until the API or the dashboard knows who sends it
	httpWriteWithin    = 30 * time.Second
	httpIdleFor        = time.Minute
	httpHeaderBytes    = 16 << 10
	httpStopWithin     = 2 * time.Second
)

// httpServer answers probes, and scrapes, from before the node begins until after it has ended. Without an address it
// does nothing.
type httpServer struct {
	servers []*http.Server
	ended   sync.WaitGroup
	node    atomic.Pointer[scheduled.Node] // nil until there is one
	since   time.Time
	local   bool // as in httpSettings
	log     *slog.Logger
}

// listen begins to answer. An address that is taken is an error before anything is claimed. proxies may open more
// connections than other clients.
func (s *httpSettings) listen(
	ctx context.Context, metrics http.Handler, api, board *startingHandler, proxies []netip.Prefix, logger *slog.Logger,
) (*httpServer, error) {
	h := &httpServer{since: time.Now(), local: s.local, log: logger}
	if s.probes != "" {
		address, err := h.serve(ctx, s.probes, h.probes(metrics), newOpenConns(maxProbeConns, nil))
		if err != nil {
			return nil, fmt.Errorf("--probe-addr (TASKTABLE_PROBE_ADDR): %w", err)
		}
		logger.Info("answering probes", "address", address)
		metrics = nil
	}
	if s.address == "" {
		return h, nil
	}
	address, err := h.serve(ctx, s.address, h.handler(metrics, api, board), newOpenConns(maxHTTPConns, proxies))
	if err != nil {
		h.close()
		return nil, fmt.Errorf("--http-addr (TASKTABLE_HTTP_ADDR): %w", err)
	}
	logger.Info("answering HTTP", "address", address)
	if board != nil {
		logger.Info("the dashboard is at http://" + reachable(address) + "/")
	}
	return h, nil
}

// serve answers at an address until close. It returns the address, with the port that it got.
func (h *httpServer) serve(
	ctx context.Context, address string, handler http.Handler, conns *openConns,
) (listens string, err error) {
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", address)
	if err != nil {
		return "", err
	}
	server := &http.Server{
		Handler:           impatient(handler),
		ReadHeaderTimeout: httpReadWithin, ReadTimeout: httpReadWithin, WriteTimeout: httpWriteWithin,
		IdleTimeout:    httpIdleFor,
		MaxHeaderBytes: httpHeaderBytes, ConnState: conns.changed,
		// what clients do wrong
		ErrorLog: slog.NewLogLogger(h.log.Handler(), slog.LevelDebug),
	}
	h.servers = append(h.servers, server)
	h.ended.Go(func() {
		if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
			h.log.Error("no longer answering HTTP", "error", err)
		}
	})
	return listener.Addr().String(), nil
}

// reachable is an address at which this machine reaches who listens at the given one.
func reachable(address string) string {
	host, port, err := net.SplitHostPort(address)
	if ip, noIP := netip.ParseAddr(host); err != nil || host != "" && (noIP != nil || !ip.IsUnspecified()) {
		return address
	}
	return net.JoinHostPort("localhost", port)
}

// live is the node's. Until there is a node it is OK, because the database may be starting or being migrated.
func (h *httpServer) live() scheduled.Health {
	if node := h.node.Load(); node != nil {
		return node.Live()
	}
	return scheduled.Health{OK: true,
		Checks: []scheduled.Check{{Name: scheduled.CheckLoop, OK: true, Reason: "starting", Since: h.since}}}
}

func (h *httpServer) ready() scheduled.Health {
	if node := h.node.Load(); node != nil {
		return node.Ready()
	}
	return scheduled.Health{Checks: []scheduled.Check{{Name: scheduled.CheckNode, Reason: "starting", Since: h.since}}}
}

// close lets answers under way be finished.
func (h *httpServer) close() {
	ctx, cancel := context.WithTimeout(context.Background(), httpStopWithin)
	defer cancel()
	for _, server := range h.servers {
		if err := server.Shutdown(ctx); err != nil {
			h.log.Debug("HTTP ended before all was answered", "error", errors.Join(err, server.Close()))
		}
	}
	h.ended.Wait()
}

// startingHandler answers 503 until the service has a database and the handler behind it.
type startingHandler struct {
	handler atomic.Pointer[http.Handler]
	calls   context.Context //nolint:containedctx // it ends the calls under way, however many there are
	end     context.CancelFunc
	refuse  func(http.ResponseWriter) // answers 503
}

func newStartingHandler(refuse func(http.ResponseWriter)) *startingHandler {
	calls, end := context.WithCancel(context.Background())
	return &startingHandler{calls: calls, end: end, refuse: refuse}
}

const startingText = "the service is starting or stopping; try again"

func refuseCall(w http.ResponseWriter) { api.WriteProblem(w, api.CodeStarting, startingText) }

func refusePage(w http.ResponseWriter) {
	w.Header().Set("Retry-After", "1")
	http.Error(w, startingText, http.StatusServiceUnavailable)
}

func (s *startingHandler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if handler := s.handler.Load(); handler != nil {
		ctx, cancel := context.WithCancel(r.Context())
		defer cancel()
		defer context.AfterFunc(s.calls, cancel)()
		(*handler).ServeHTTP(w, r.WithContext(ctx))
		return
	}
	s.refuse(w)
}

// begin passes requests on to a handler.
func (s *startingHandler) begin(handler http.Handler) { s.handler.Store(&handler) }

// stop answers requests that come now with 503. Requests under way are answered, unless they take long. A stream has no
// end, so it is ended. wait must return when no request needs the database any more.
func (s *startingHandler) stop(wait func()) {
	s.handler.Store(nil)
	timer := time.AfterFunc(httpStopWithin, s.end)
	defer timer.Stop()
	wait()
	s.end()
}
