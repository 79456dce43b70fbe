package cmd

import (
	"context"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/tasktable/tasktable/scheduled/api"
)

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
