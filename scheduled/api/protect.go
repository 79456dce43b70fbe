package api

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math"
	"mime"
	"net/http"
	"os"
	"regexp"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/google/uuid"
)

// exchange is what the API notes about a request for its log.
type exchange struct {
	id     string
	caller string
	hash   []byte
	unfit  unfitBody

	operation string // "": not known
}

// unfitBody is why a body cannot be read as JSON. The caller is told once it has shown a key, because 401 comes first.
type unfitBody struct {
	code   Code // "": the body can be read
	detail string
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

func noteOperation(ctx context.Context, id string) { exchangeOf(ctx).operation = id }

func noteCaller(ctx context.Context, name string) { exchangeOf(ctx).caller = name }

// protect keeps calls that are too many, too large, too deep or too slow from the endpoints. It gives each call an id,
// logs it, and turns a panic into an answer without a stack.
func (a *API) protect(next http.Handler) http.Handler {
	addresses := newLimits()
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
		if wait := addresses.take(addressOf(r, a.config.TrustedProxies), a.config.AddressRate); wait > 0 {
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
		if refused := readBody(answer, r, noted); !refused {
			next.ServeHTTP(answer, r)
		}
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

// readBody reads the whole body, because the Idempotency-Key needs its hash, and an endpoint must not wait for a slow
// client with a transaction open. The server's ReadTimeout bounds the time.
func readBody(w http.ResponseWriter, r *http.Request, noted *exchange) (refused bool) {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, MaxBodyBytes))
	if tooLarge := new(http.MaxBytesError); errors.As(err, &tooLarge) {
		writeProblem(w, CodeBodyTooLarge,
			fmt.Sprintf("the body must be at most %d bytes", MaxBodyBytes))
		return true
	}
	if errors.Is(err, os.ErrDeadlineExceeded) {
		writeProblem(w, CodeBodyTooSlow, "the body did not arrive in time")
		return true
	}
	if err != nil {
		writeProblem(w, CodeMalformed, "the body could not be read")
		return true
	}
	if kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); len(body) > 0 &&
		(err != nil || kind != "application/json" && !strings.HasSuffix(kind, "+json")) {
		noted.unfit = unfitBody{CodeNotJSON,
			"the body must be JSON; set Content-Type: application/json"}
	} else if depthOf(body) > MaxDepth {
		noted.unfit = unfitBody{CodeMalformed,
			fmt.Sprintf("the body must have at most %d levels of nesting", MaxDepth)}
	}
	sum := sha256.New()
	fmt.Fprintf(sum, "%s %s\n%s\n%s\n", r.Method, r.URL.EscapedPath(), r.URL.RawQuery, r.Header.Get("If-Match"))
	sum.Write(body)
	noted.hash = sum.Sum(nil)
	r.Body = io.NopCloser(bytes.NewReader(body))
	return false
}

// depthOf is the greatest number of JSON objects and arrays within each other.
func depthOf(body []byte) int {
	depth, deepest, quoted := 0, 0, false
	for i := 0; i < len(body); i++ {
		switch c := body[i]; {
		case quoted && c == '\\':
			i++
		case c == '"':
			quoted = !quoted
		case quoted:
		case c == '{' || c == '[':
			depth++
			deepest = max(deepest, depth)
		case c == '}' || c == ']':
			depth--
		}
	}
	return deepest
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
