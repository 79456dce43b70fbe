package cmd

import (
	"context"
	"net/http"
	"sync/atomic"
	"time"
)

// startingHandler answers 503 until the service has a database and the handler behind it.
type startingHandler struct {
	handler atomic.Pointer[http.Handler]
	calls   context.Context //nolint:containedctx // it ends the calls under way, however many there are
	end     context.CancelFunc
}

func newStartingHandler() *startingHandler {
	calls, end := context.WithCancel(context.Background())
	return &startingHandler{calls: calls, end: end}
}

func (s *startingHandler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if handler := s.handler.Load(); handler != nil {
		ctx, cancel := context.WithCancel(r.Context())
		defer cancel()
		defer context.AfterFunc(s.calls, cancel)()
		(*handler).ServeHTTP(w, r.WithContext(ctx))
		return
	}
	w.Header().Set("Retry-After", "1")
	http.Error(w, "the service is starting", http.StatusServiceUnavailable)
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
