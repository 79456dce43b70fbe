package cmd

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/tasktable/tasktable/cmd/internal/options"
	"github.com/tasktable/tasktable/scheduled"
)

// httpSettings say whether the program answers over HTTP, and where.
type httpSettings struct {
	address string
}

func (s *httpSettings) options() []options.Option {
	return []options.Option{
		{Flag: "http-addr", Variable: "TASKTABLE_HTTP_ADDR", Kind: "address", Sample: ":8080",
			Set: listenAddress(&s.address),
			Usage: "where to answer /livez, /readyz and /metrics, as :8080 or 127.0.0.1:8080, without a password " +
				"and without TLS, with --api the API, and with --dashboard the dashboard (default nowhere)"},
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
	httpReadWithin  = 5 * time.Second
	httpWriteWithin = 30 * time.Second
	httpIdleFor     = time.Minute
	httpHeaderBytes = 16 << 10
	httpStopWithin  = 2 * time.Second
)

const httpIndex = `/livez    200 while this process works, 503 when only a restart helps
/readyz   200 while this node can take tasks; else 503, with the reasons as JSON
/metrics  what this process measures, for Prometheus
`

const httpAPIIndex = `/v1/      the API, for callers with a key
/docs     what the API can do; /openapi.json is the same for programs
`

// httpServer answers probes, and scrapes, from before the node begins until after it has ended. Without an address it
// does nothing.
type httpServer struct {
	server *http.Server
	node   atomic.Pointer[scheduled.Node] // nil until there is one
	since  time.Time
	ended  chan struct{}
	log    *slog.Logger
}

// listen begins to answer. An address that is taken is an error before anything is claimed.
func (s *httpSettings) listen(
	ctx context.Context, metrics http.Handler, api, board *startingHandler, logger *slog.Logger,
) (*httpServer, error) {
	h := &httpServer{since: time.Now(), ended: make(chan struct{}), log: logger}
	if s.address == "" {
		close(h.ended)
		return h, nil
	}
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", s.address)
	if err != nil {
		return nil, fmt.Errorf("--http-addr (TASKTABLE_HTTP_ADDR): %w", err)
	}
	h.server = &http.Server{
		Handler:           h.handler(metrics, api, board),
		ReadHeaderTimeout: httpReadWithin, ReadTimeout: httpReadWithin, WriteTimeout: httpWriteWithin,
		IdleTimeout:    httpIdleFor,
		MaxHeaderBytes: httpHeaderBytes, ConnState: newOpenConns(maxHTTPConns).changed,
		// what clients do wrong
		ErrorLog: slog.NewLogLogger(logger.Handler(), slog.LevelDebug),
	}
	logger.Info("answering HTTP", "address", listener.Addr().String())
	if board != nil {
		logger.Info("the dashboard is at http://" + reachable(listener.Addr().String()) + "/")
	}
	go func() {
		defer close(h.ended)
		if err := h.server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
			logger.Error("no longer answering HTTP", "error", err)
		}
	}()
	return h, nil
}

// reachable is an address at which a browser on this machine finds the listener.
func reachable(address string) string {
	host, port, err := net.SplitHostPort(address)
	if ip := net.ParseIP(host); err != nil || ip == nil || !ip.IsUnspecified() {
		return address
	}
	return net.JoinHostPort("localhost", port)
}

// handler answers the paths of the program. api and board are nil if the program does not serve them.
func (h *httpServer) handler(metrics http.Handler, api, board *startingHandler) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("/livez", func(w http.ResponseWriter, r *http.Request) { h.live().ServeHTTP(w, r) })
	mux.HandleFunc("/readyz", func(w http.ResponseWriter, r *http.Request) { h.ready().ServeHTTP(w, r) })
	mux.Handle("GET /metrics", metrics)
	index := httpIndex
	if api != nil {
		for _, path := range []string{"/v1/", "/openapi.json", "/openapi-3.0.json", "/openapi.yaml", "/openapi-3.0.yaml", "/docs"} {
			mux.Handle(path, api)
		}
		index += httpAPIIndex
	}
	if board != nil {
		mux.Handle("/", board)
		return mux
	}
	mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		fmt.Fprint(w, index)
	})
	return mux
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
	if h.server != nil {
		ctx, cancel := context.WithTimeout(context.Background(), httpStopWithin)
		defer cancel()
		if err := h.server.Shutdown(ctx); err != nil {
			h.log.Debug("HTTP ended before all was answered", "error", errors.Join(err, h.server.Close()))
		}
	}
	<-h.ended
}
