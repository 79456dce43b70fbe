package cmd

import (
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/tasktable/tasktable/scheduled"
)

const httpIndex = `/livez    200 while this process works, 503 when only a restart helps
/readyz   200 while this node can take tasks; else 503, with the reasons as JSON
`

const httpMetricsIndex = `/metrics  what this process measures, for Prometheus
`

const httpAPIIndex = `/v1/      the API, for callers with a key
/docs     what the API can do; /openapi.json is the same for programs
`

// handler answers the paths of the program. metrics, api and board are nil if the program does not serve them here. It
// is no http.ServeMux, because that would clean a path with // or .. in it, and lead the client to the path of another
// task. The API and the dashboard refuse such a path.
func (h *httpServer) handler(metrics http.Handler, api, board *startingHandler) http.Handler {
	index := httpIndex
	if metrics != nil {
		index += httpMetricsIndex
	}
	if api != nil {
		index += httpAPIIndex
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		// A page of another site could lead its own host name to this address, as for the dashboard that is open.
		tells := metrics != nil && (board == nil || !h.local || isLoopback(r.Host))
		switch path := r.URL.Path; {
		case api != nil && isAPI(path):
			api.ServeHTTP(w, r)
		case path == "/livez":
			shown(h.live(), tells).ServeHTTP(w, r)
		case path == "/readyz":
			shown(h.ready(), tells).ServeHTTP(w, r)
		case path == "/metrics" && tells:
			onlyRead(metrics).ServeHTTP(w, r)
		case board != nil && (api == nil || !hasKey(r)):
			board.ServeHTTP(w, r)
		case path == "/":
			onlyRead(pageOf(index)).ServeHTTP(w, r)
		case api != nil: // its clients read problem details alone
			api.ServeHTTP(w, r)
		default:
			http.NotFound(w, r)
		}
	})
}

// probes answers the probes and scrapes alone.
func (h *httpServer) probes(metrics http.Handler) http.Handler { return h.handler(metrics, nil, nil) }

// isAPI reports whether a path is one of the API, of which some may not exist. A path such as /v2/tasks is one, so that
// a client gets a problem and not the page to sign in at.
func isAPI(path string) bool {
	return len(path) > 2 && path[:2] == "/v" && '0' <= path[2] && path[2] <= '9' ||
		strings.HasPrefix(path, "/openapi") || path == "/docs"
}

// hasKey reports whether a request has a key of the API. A proxy before the dashboard may send bearer tokens of its
// own.
func hasKey(r *http.Request) bool {
	return strings.HasPrefix(r.Header.Get("Authorization"), "Bearer tt_")
}

// shown is a health without its reasons, unless they may be told.
func shown(health scheduled.Health, reasons bool) scheduled.Health {
	if !reasons {
		health.Checks = []scheduled.Check{}
	}
	return health
}

func pageOf(text string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		fmt.Fprint(w, text)
	})
}

func onlyRead(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodGet && r.Method != http.MethodHead {
			w.Header().Set("Allow", "GET, HEAD")
			http.Error(w, "method not allowed", http.StatusMethodNotAllowed)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// impatient gives a body less time than the server does. The API and the dashboard give it more as soon as they know
// who sends it. Otherwise a stranger could hold a connection with a body that nobody reads, because the server waits
// for its end before it takes the next request.
func impatient(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Body != http.NoBody { // without a body the server may be reading on already, and must not end that
			_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(httpStrangerWithin))
		}
		next.ServeHTTP(w, r)
	})
}
