package api

import (
	"context"
	"crypto/sha256"
	"fmt"
	"log/slog"
	"math"
	"net/http"
	"regexp"
	"runtime/debug"
	"slices"
	"strconv"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/google/uuid"

	"github.com/tasktable/tasktable/scheduled/internal/fairuse"
)

// exchange is what the API notes about a request for its log.
type exchange struct {
	id     string
	caller string
	hash   []byte

	operation string        // "": not known
	request   *http.Request // as Authenticate gets it
}

type exchangeKey struct{}

func exchangeOf(ctx context.Context) *exchange {
	if noted, ok := ctx.Value(exchangeKey{}).(*exchange); ok {
		return noted
	}
	return &exchange{}
}

func requestID(ctx context.Context) string { return exchangeOf(ctx).id }

// requestHash tells whether two requests are the same. A new key may have the name of a revoked one, but must not get
// answers for another tenant.
func requestHash(ctx context.Context, caller Caller) []byte {
	sum := sha256.Sum256(fmt.Appendf(exchangeOf(ctx).hash, "%q %q", caller.Tenant, caller.Service))
	return sum[:]
}

// protect keeps calls that are too many or too slow from the endpoints. It gives each call an id, logs it, and turns a
// panic into an answer without a stack.
func (a *API) protect(next http.Handler) http.Handler {
	addresses := fairuse.NewRates()
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		began, noted := time.Now(), &exchange{id: givenID(r)}
		answer := &answerWriter{ResponseWriter: w}
		header := answer.Header()
		header.Set("X-Request-Id", noted.id)
		header.Set("X-Content-Type-Options", "nosniff")
		header.Set("Content-Security-Policy", "default-src 'none'; frame-ancestors 'none'")
		header.Set("Cache-Control", "no-store")
		ctx, span := a.startSpan(r)
		ctx = context.WithValue(ctx, exchangeKey{}, noted)
		if r.URL.Path != eventsPath { // a stream has no end
			limited, cancel := context.WithTimeout(ctx, a.config.Timeout+MaxWait)
			defer cancel()
			ctx = limited
		}
		r = r.WithContext(ctx)
		// The server's limit is for its other paths, because a call may wait before it answers. When the answer begins,
		// a shorter time holds. A writer that has no limit, such as a test's, needs none.
		_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(a.config.Timeout + MaxWait))
		defer func() {
			if broken := recover(); broken != nil {
				a.config.Logger.Error("a call panicked", "request", noted.id, "panic", fmt.Sprint(broken),
					"stack", string(debug.Stack()))
				writeProblem(answer, CodeFailed, "the call failed; the log of the service says why")
			}
			endSpan(span, r.Pattern, answer.status)
			took := time.Since(began)
			a.metrics.answered(noted.operation, answer.status, took)
			a.logCall(r, noted, answer, took)
		}()
		if done := a.crossOrigin(answer, r); done {
			return
		}
		if wait := addresses.Take(fairuse.AddressOf(r, a.config.TrustedProxies), a.config.AddressRate); wait > 0 {
			header.Set("Retry-After", strconv.Itoa(wholeSeconds(wait)))
			writeProblem(answer, CodeTooManyCalls,
				fmt.Sprintf("one address may make %d calls a second", a.config.AddressRate))
			return
		}
		if !isPlain(r.URL.EscapedPath()) {
			writeProblem(answer, CodeNoSuchPath,
				"no such path: no part of it may be empty, . or .. (but %2E is allowed)")
			return
		}
		next.ServeHTTP(answer, r)
	})
}

var plainID = regexp.MustCompile(`^[A-Za-z0-9._-]{1,64}$`)

// givenID returns the client's id of the request if it is short and plain, and a new id otherwise.
func givenID(r *http.Request) string {
	given := r.Header.Get("X-Request-Id")
	if plainID.MatchString(given) {
		return given
	}
	return uuid.NewString()
}

func (a *API) logCall(r *http.Request, noted *exchange, answer *answerWriter, took time.Duration) {
	level := slog.LevelInfo
	if answer.status >= http.StatusInternalServerError {
		level = slog.LevelWarn
	}
	// The path has ids of tasks, as all logs of the engine do. The query may have texts of messages, so it is left out.
	a.config.Logger.Log(r.Context(), level, "call", "request", noted.id, "method", r.Method,
		"path", r.URL.EscapedPath(), "status", answer.status, "caller", noted.caller,
		"took", took.Round(time.Microsecond).String(), "bytes", answer.written)
}

// crossOrigin answers the question of a browser whether a page of another origin may call. A page may, if the
// configuration names its origin.
func (a *API) crossOrigin(w http.ResponseWriter, r *http.Request) (done bool) {
	origin := r.Header.Get("Origin")
	if origin == "" || !slices.Contains(a.config.AllowOrigins, origin) {
		return false
	}
	header := w.Header()
	header.Set("Access-Control-Allow-Origin", origin)
	header.Add("Vary", "Origin")
	header.Set("Access-Control-Expose-Headers", "ETag, Retry-After, X-Request-Id")
	if r.Method != http.MethodOptions || r.Header.Get("Access-Control-Request-Method") == "" {
		return false
	}
	header.Set("Access-Control-Allow-Methods", "GET, POST, PUT, PATCH, DELETE")
	header.Set("Access-Control-Allow-Headers", "Authorization, Content-Type, Idempotency-Key, If-Match, X-Request-Id")
	header.Set("Access-Control-Max-Age", "600")
	w.WriteHeader(http.StatusNoContent)
	return true
}

// withinRate writes the headers of the caller's rate, and refuses the call if it has to wait.
func (a *API) withinRate(ctx huma.Context, rate int, wait time.Duration) bool {
	ctx.SetHeader("RateLimit-Policy", fmt.Sprintf(`"key";q=%d;w=1`, rate))
	if wait <= 0 {
		return true
	}
	ctx.SetHeader("RateLimit", fmt.Sprintf(`"key";r=0;t=%d`, wholeSeconds(wait)))
	ctx.SetHeader("Retry-After", strconv.Itoa(wholeSeconds(wait)))
	a.refuse(ctx, CodeTooManyCalls, fmt.Sprintf("the key may make %d calls a second", rate))
	return false
}

func wholeSeconds(d time.Duration) int { return max(int(math.Ceil(d.Seconds())), 1) }

// writeProblem writes an error in the form that the endpoints write, unless an answer has begun.
func writeProblem(w http.ResponseWriter, code Code, detail string) {
	if answer, ok := w.(*answerWriter); ok && answer.status != 0 {
		return
	}
	WriteProblem(w, code, detail)
}

// answerWithin is how long a client may take to read an answer. A stream of events has limits of its own.
const answerWithin = 30 * time.Second

// answerWriter notes the status and the size of an answer, and bounds the time that it takes to send it.
type answerWriter struct {
	http.ResponseWriter
	status  int
	written int64
}

// WriteHeader notes the status.
func (w *answerWriter) WriteHeader(status int) {
	w.begin(status)
	w.ResponseWriter.WriteHeader(status)
}

func (w *answerWriter) begin(status int) {
	if w.status == 0 {
		w.status = status
		if header := w.Header(); header["Etag"] != nil { // Go's spelling, which a client may not look for
			header["ETag"] = header["Etag"]
			delete(header, "Etag")
		}
		_ = http.NewResponseController(w.ResponseWriter).SetWriteDeadline(time.Now().Add(answerWithin))
	}
}

// Write notes the size.
func (w *answerWriter) Write(part []byte) (int, error) {
	w.begin(http.StatusOK)
	n, err := w.ResponseWriter.Write(part)
	w.written += int64(n)
	return n, err //nolint:wrapcheck // it passes the answer on
}

// Unwrap lets http.ResponseController reach the connection.
func (w *answerWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }
