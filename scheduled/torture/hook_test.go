//go:build unix

package torture

import (
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"time"

	"github.com/tasktable/tasktable/handlers"
	"github.com/tasktable/tasktable/handlers/webhook/contract"
	"github.com/tasktable/tasktable/store"
)

// hook is the payload of a task of type HTTP_REQUEST. The handler ignores the fields do and n.
type hook struct {
	Do    string `json:"do"` // the name of a behaviour
	Nonce int64  `json:"n"`
	URL   string `json:"url"`
}

func (hook) TaskType() string { return hookType }
func (h hook) nonce() int64   { return h.Nonce }

var hookType = contract.HTTPRequest{}.TaskType()

// hookTimeout is the nodes' timeout of a request. A shorter one, of a payload, would say nothing about the host.
const hookTimeout = time.Second

// How long the nodes' circuits are open, at first and at most. They are short, so that many tasks wait several times.
const (
	circuitOpen = 2 * time.Second
	circuitMost = 8 * time.Second
)

// What the documentation of package webhook says of an attempt.
const (
	completes  = "completes"
	retries    = "is retried"
	isRefused  = "fails for good"
	alwaysBad  = 1000 // attempts
	fineResult = "200 false 14"
	longBody   = 1 << 20
	hookPrefix = "hook "
)

// behaviour is how a receiver treats the requests of bad attempts, and what is documented to come of it. It answers
// all others as it should.
type behaviour struct {
	name     string
	weight   int
	answer   string         // the receiver writes it, and then ends as it does
	ends     func(c *taken) // nil: it closes the connection
	comes    string         // completes, retries or isRefused
	result   string         // of what completes: the status, whether the body was cut, and the length that is kept
	says     *regexp.Regexp // of all others: in the error
	wait     time.Duration  // before the next attempt; 0: the backoff
	failing  bool           // the circuit breaker counts it as a failure of the host
	requests int            // of one attempt; 0: one
}

const okHead = "HTTP/1.1 200 OK\r\nConnection: close\r\n"

// status is an answer without a body.
func status(code int, headers ...string) string {
	return fmt.Sprintf("HTTP/1.1 %d X\r\nConnection: close\r\nContent-Length: 0\r\n%s\r\n", code,
		strings.Join(append(headers, ""), "\r\n"))
}

// answered matches the error of an answer.
func answered(code int) *regexp.Regexp { return regexp.MustCompile(fmt.Sprintf(`answered %d\b`, code)) }

const retryAfter = time.Second

// behaviours are by name. Each has a receiver, which is a host of its own. Each of its paths has a circuit.
var behaviours = []behaviour{
	{name: "well", weight: 6, answer: okHead + "Content-Length: 13\r\n\r\n" + `{"fine":true}`, comes: completes,
		result: fineResult},
	{name: "long", weight: 1, answer: okHead + fmt.Sprintf("Content-Length: %d\r\n\r\n", longBody) +
		strings.Repeat("x", longBody), comes: completes, result: "200 true 16384"},
	{name: "endless", weight: 1, answer: okHead + "\r\n", ends: (*taken).writeOn, comes: completes,
		result: "200 true 16384"},
	{name: "short", weight: 1, answer: okHead + "Content-Length: 1000\r\n\r\nhalf", comes: completes,
		result: "200 true 4"},
	{name: "silent body", weight: 1, answer: okHead + "Content-Length: 1000\r\n\r\nhalf", ends: (*taken).hang,
		comes: retries, failing: true, says: regexp.MustCompile("the server took longer than")},
	{name: "hangs", weight: 2, ends: (*taken).hang, comes: retries, failing: true,
		says: regexp.MustCompile("the server took longer than")},
	{name: "resets", weight: 2, answer: "HTTP/1.1 200 OK\r\nX-A", ends: (*taken).reset, comes: retries, failing: true,
		says: regexp.MustCompile("connection reset|closed the connection|malformed")},
	{name: "garbage", weight: 2, answer: "no such thing\r\n\r\n", comes: retries, failing: true,
		says: regexp.MustCompile("malformed")},
	{name: "loops", weight: 1, answer: status(307, "Location: /again"), comes: isRefused, requests: 6,
		says: regexp.MustCompile("redirects more than 5 times")},
	{name: "leads away", weight: 1, answer: status(301, "Location: /again"), comes: isRefused, says: answered(301)},
	{name: "400", weight: 1, answer: status(400), comes: isRefused, says: answered(400)},
	{name: "404", weight: 1, answer: status(404), comes: isRefused, says: answered(404)},
	{name: "410", weight: 1, answer: status(410), comes: isRefused, says: answered(410)},
	{name: "408", weight: 1, answer: status(408, "Retry-After: 1"), comes: retries, says: answered(408),
		wait: retryAfter},
	{name: "429", weight: 1, answer: status(429, "Retry-After: 1"), comes: retries, says: answered(429),
		wait: retryAfter},
	{name: "503", weight: 1, answer: status(503, "Retry-After: 1"), comes: retries, says: answered(503),
		wait: retryAfter, failing: true},
	{name: "busy", weight: 1, answer: status(429), comes: retries, says: answered(429)},
	{name: "500", weight: 20, answer: status(500), comes: retries, says: answered(500), failing: true},
}

// behaviourOf is the one that a payload's do names, or nil.
func behaviourOf(do string) *behaviour {
	for i := range behaviours {
		if hookPrefix+behaviours[i].name == do {
			return &behaviours[i]
		}
	}
	return nil
}

// hookDice chooses a behaviour.
var hookDice = func() *dice {
	var all []weighted
	for _, b := range behaviours {
		all = append(all, weighted{b.name, b.weight})
	}
	return newDice(all, nil)
}()

// hookTask draws an HTTP request.
func (w *writer) hookTask(id string) store.Task {
	name := hookDice.roll(w.random)
	bad := []int{0, 1, 2, alwaysBad, alwaysBad}[w.random.IntN(5)]
	nonce := w.random.Int64N(1 << 50)
	task := store.Task{
		ID: id, Payload: hook{Do: hookPrefix + name, Nonce: nonce, URL: fmt.Sprintf("%s/%d", w.hosts[name], bad)},
		ExpectedExecutionTime: expectedTime, MaxAttempts: 1 + w.random.IntN(3), Priority: w.random.IntN(3) * 10,
	}
	if w.random.IntN(2) == 0 {
		task.IfDead = ifDead(id, nonce)
	}
	if w.random.IntN(2) == 0 {
		task.At = w.now().Add(time.Duration(w.random.IntN(1500)-500) * time.Millisecond)
	}
	return task
}

// badFor is up to which attempt the receiver treats a request badly: its path says so.
func badFor(url string) int {
	var attempts int
	if _, err := fmt.Sscanf(url[strings.LastIndexByte(url, '/')+1:], "%d", &attempts); err != nil {
		return 0
	}
	return attempts
}

// noteHook writes to the journal what the handler of a request returned, and how long the documentation has the next
// attempt wait.
func (w *worker) noteHook(e *handlers.Execution, err error) {
	var sent hook
	if json.Unmarshal(e.Payload, &sent) != nil || err == nil {
		return
	}
	var waits *handlers.WaitError
	m := mark{Error: err.Error(), Snoozed: errors.As(err, &waits)}
	if b := behaviourOf(sent.Do); b != nil && e.Attempt <= badFor(sent.URL) && b.says != nil &&
		b.says.MatchString(m.Error) {
		m.Wait = b.wait
	}
	w.asks(e, m)
}
