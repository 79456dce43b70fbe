package scheduled

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
)

// Health is a node's answer to a probe. It is an http.Handler that tells itself, as JSON: 200 if it is OK, else 503.
type Health struct {
	// OK says that all checks are.
	OK bool `json:"ok"`
	// Checks are named in the order in which they depend on each other: the first that is not OK is the cause.
	Checks []Check `json:"checks"`
}

// Check is one thing that Health depends on. Its name is a part of the program's contract, its reason is not.
type Check struct {
	Name string `json:"name"`
	OK   bool   `json:"ok"`
	// Reason says why it is not OK, or what else there is to know. It has no address, no secret and no text of the database's: the
	// log has the error.
	Reason string `json:"reason,omitempty"`
	// Since is when it became so, by this process's clock.
	Since time.Time `json:"since,omitzero"`
}

// The names of the checks.
const (
	CheckNode     = "node"     // of Ready: it has begun, and does not stop
	CheckSession  = "session"  // of Ready: its session has its lock, and was answered within three seconds
	CheckDatabase = "database" // of Ready: the engine's own pool was answered lately
	CheckListener = "listener" // of Ready: notifications are listened for
	CheckLoop     = "loop"     // of Live: the loop that keeps the session turns
)

const (
	// loopSilent is how long the loop may go without a turn, which takes some seconds at most. All that it waits for is bounded; what is
	// not, such as a Config.Connect that ignores its context or a log that nobody reads, is what a restart mends.
	loopSilent = 60 * time.Second
	// poolSilent is how long ago the engine's pool may last have answered. It is asked each ten seconds. After that the
	// node gives up its session and all connections, and begins again.
	poolSilent = 20 * time.Second
)

// vitals is what a node's goroutines note as it happens, so that probes are answered from memory, whatever the database does.
type vitals struct {
	mu       sync.Mutex
	node     mark
	session  mark
	database mark
	listener mark
	answered time.Time // when the engine's pool last did
	turned   time.Time // when the loop last did; zero: it does not run
}

// mark is how something is, and since when.
type mark struct {
	ok     bool
	reason string
	since  time.Time
}

func (m *mark) note(ok bool, reason string) {
	if m.ok != ok || m.reason != reason || m.since.IsZero() {
		*m = mark{ok, reason, time.Now()}
	}
}

const (
	reasonIdle     = "Run has not been called"
	reasonStarting = "starting"
	reasonStopping = "stopping"
	reasonEnded    = "Run has ended"
	reasonNone     = "not connected yet"
	reasonLost     = "lost touch with the database; beginning again"
	reasonPool     = "the engine's pool was not answered"
	reasonQuiet    = "quiet: it starts nothing new, as it was told"
	reasonDeaf     = "not listening; connecting again"
)

func newVitals() *vitals {
	v := &vitals{}
	v.all(reasonIdle)
	return v
}

func (v *vitals) all(reason string) {
	v.node.note(false, reason)
	v.apart(reason)
}

func (v *vitals) apart(reason string) {
	for _, m := range []*mark{&v.session, &v.database, &v.listener} {
		m.note(false, reason)
	}
}

// starts notes that Run was called.
func (v *vitals) starts() {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.node.note(false, reasonStarting)
	v.apart(reasonNone)
	v.turned = time.Now()
}

// turns notes a turn of the loop.
func (v *vitals) turns() {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.turned = time.Now()
}

// begins notes that the node is up, with a session and a pool that was just answered.
func (v *vitals) begins() {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.node.reason != reasonStopping { // a signal while it began
		v.node.note(true, "")
	}
	v.session.note(true, "")
	v.database.note(true, "")
	v.answered = time.Now()
}

// loses notes that the session is lost, and with it all connections.
func (v *vitals) loses() {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.apart(reasonLost)
}

// stops notes that Run was told to return.
func (v *vitals) stops() {
	v.mu.Lock()
	defer v.mu.Unlock()
	if !v.turned.IsZero() { // it has not returned yet
		v.node.note(false, reasonStopping)
	}
}

// ends notes that Run returns.
func (v *vitals) ends() {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.all(reasonEnded)
	v.turned = time.Time{}
}

// answers notes whether the engine's pool was answered.
func (v *vitals) answers(ok bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if !ok {
		v.database.note(false, reasonPool)
		return
	}
	v.database.note(true, "")
	v.answered = time.Now()
}

// hears notes what a statement of the engine's pool came to.
func (v *vitals) hears(err error) {
	if spoke(err) {
		v.mu.Lock()
		defer v.mu.Unlock()
		v.answered = time.Now()
	}
}

// silence is how long the engine's pool has not answered.
func (v *vitals) silence() time.Duration {
	v.mu.Lock()
	defer v.mu.Unlock()
	return time.Since(v.answered)
}

// spoke reports whether the server said something, be it an error. The refusal of a password does not count: new
// credentials are needed, and a node that begins again asks for them.
func spoke(err error) bool {
	var said *pgconn.PgError
	return err == nil || errors.Is(err, errReadOnly) || errors.As(err, &said) && said.Code[:2] != "28"
}

// listens notes whether notifications are listened for.
func (v *vitals) listens(ok bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	switch {
	case ok:
		v.listener.note(true, "")
	case v.listener.ok: // else there is a better reason
		v.listener.note(false, reasonDeaf)
	}
}

func (m *mark) check(name string) Check {
	return Check{Name: name, OK: m.ok, Reason: m.reason, Since: m.since}
}

func healthOf(checks ...Check) Health {
	h := Health{OK: true, Checks: checks}
	for _, check := range checks {
		h.OK = h.OK && check.OK
	}
	return h
}

// Live says whether the process can still do its work: whether its loop turns. It is for a probe that restarts it, so it stays OK while
// the database is away, which a restart would not mend; and before Run and after it.
func (n *Node) Live() Health {
	v := n.vitals
	v.mu.Lock()
	defer v.mu.Unlock()
	loop := Check{Name: CheckLoop, OK: true}
	switch silent := time.Since(v.turned); {
	case v.turned.IsZero():
		loop.Reason, loop.Since = v.node.reason, v.node.since
	case silent > loopSilent:
		loop.OK, loop.Since = false, v.turned
		loop.Reason = fmt.Sprintf("no turn for more than %s: something that the node called does not return", loopSilent)
	}
	return healthOf(loop)
}

// Ready says whether this node can work now: it has begun, its session, its pool and its listener are connected, and it does not stop. It
// says nothing of the cluster: that no node leads, or that a backlog has gathered, is an alert, and no reason to take this one away. A
// node that is quiet is ready, and says so: it is well, and does as it was told.
func (n *Node) Ready() Health {
	v := n.vitals
	v.mu.Lock()
	defer v.mu.Unlock()
	node := v.node.check(CheckNode)
	if since, on := n.quiet.from(); on && node.OK {
		node.Reason, node.Since = reasonQuiet, since
	}
	database := v.database.check(CheckDatabase)
	if database.OK && time.Since(v.answered) > poolSilent {
		database.OK, database.Since = false, v.answered
		database.Reason = fmt.Sprintf("%s for more than %s", reasonPool, poolSilent)
	}
	return healthOf(node, v.session.check(CheckSession), database, v.listener.check(CheckListener))
}

// LiveHandler answers with Live, to mount as /livez in a service's own mux. Like ReadyHandler it asks nothing of the database, takes GET
// and HEAD, and says that its answer is not to be stored.
func (n *Node) LiveHandler() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { n.Live().ServeHTTP(w, r) })
}

// ReadyHandler answers with Ready, to mount as /readyz.
func (n *Node) ReadyHandler() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { n.Ready().ServeHTTP(w, r) })
}

// ServeHTTP tells the health.
func (h Health) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		w.Header().Set("Allow", "GET, HEAD")
		http.Error(w, "method not allowed", http.StatusMethodNotAllowed)
		return
	}
	body, err := json.Marshal(h)
	if err != nil { // a year that JSON does not know
		http.Error(w, "cannot be written", http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	status := http.StatusOK
	if !h.OK {
		status = http.StatusServiceUnavailable
	}
	w.WriteHeader(status)
	_, _ = w.Write(append(body, '\n')) // whoever has gone does not mind
}
