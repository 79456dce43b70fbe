package scheduled

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/tasktable/tasktable/scheduled/internal/pg"
)

// Health is a node's answer to a probe. It is also an http.Handler that writes itself as JSON, with status 200 if it
// is OK, and 503 if it is not.
type Health struct {
	// OK says that all checks are OK.
	OK bool `json:"ok"`
	// Checks are in the order in which they depend on each other. The first check that is not OK is the cause.
	Checks []Check `json:"checks"`
}

// Check is one condition on which Health depends. Its name is part of the program's contract, but its reason is not.
type Check struct {
	Name string `json:"name"`
	OK   bool   `json:"ok"`
	// Reason says why the check is not OK, or what else there is to know. It has no address, no secret and no text of
	// the database. The log has the error.
	Reason string `json:"reason,omitempty"`
	// Since is the time at which OK or Reason last changed, by this process's clock.
	Since time.Time `json:"since,omitzero"`
}

// The names of the checks.
const (
	CheckNode     = "node"     // of Ready: the node has begun, and does not stop
	CheckSession  = "session"  // of Ready: the session has its lock, and was answered within three seconds
	CheckDatabase = "database" // of Ready: the engine's own pool has answered lately
	CheckListener = "listener" // of Ready: the node listens for notifications
	CheckLoop     = "loop"     // of Live: the loop, which leads or tries to lead, makes its turns
	CheckSlots    = "slots"    // of Live: handlers that do not return hold not all slots of a queue
)

const (
	// loopSilent is how long the loop may go without a turn. A turn takes some seconds at most, because the loop
	// waits only for what has a time limit. If a turn takes longer, the node waits for something without a limit, for
	// example a Config.Connect that ignores its context or a log that nobody reads. A restart mends that.
	loopSilent = 60 * time.Second
	// leaderSilent is the same for a node that leads. It gives up its session, so that another node leads.
	leaderSilent = 30 * time.Second
	// poolLate is how long ago the last answer of the engine's pool may be. The node asks the pool each ten seconds,
	// and waits five seconds for the answer.
	poolLate = 15 * time.Second
	// poolSilent is when the node gives up its session and all connections, and begins again.
	poolSilent = 20 * time.Second
)

// The reasons of the checks of Ready.
const (
	reasonIdle     = "Run has not been called"
	reasonStarting = "starting"
	reasonStopping = "stopping"
	reasonEnded    = "Run has ended"
	reasonLost     = "lost touch with the database; beginning again"
	reasonQuiet    = "quiet: the node starts nothing new, until Unquiet is called"
	reasonDeaf     = "not listening; connecting again"
)

// healthState is where a node's goroutines note what happens. Probes are answered from it, whatever the database does.
type healthState struct {
	mu       sync.Mutex
	checks   map[string]Check
	answered time.Time // when the engine's pool last answered
	turned   time.Time // when the loop made its last turn; zero: it does not run
}

func newHealthState() *healthState {
	s := &healthState{checks: map[string]Check{}}
	s.rests(reasonIdle)
	return s
}

// note notes why some checks are not OK. "" says that they are OK.
func (s *healthState) note(why string, names ...string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, name := range names {
		if check, known := s.checks[name]; !known || check.Reason != why {
			s.checks[name] = Check{Name: name, OK: why == "", Reason: why, Since: time.Now()}
		}
	}
}

// rests notes that the node does not run.
func (s *healthState) rests(why string) {
	s.note(why, CheckNode, CheckSession, CheckDatabase, CheckListener)
	s.note("", CheckSlots)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.turned = time.Time{}
}

// turns notes a turn of the loop.
func (s *healthState) turns() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.turned = time.Now()
}

// stuck notes which slots are lost until the process ends. "" means that none are.
func (s *healthState) stuck(why string) { s.note(why, CheckSlots) }

// hears notes whether a statement on the engine's pool got an answer.
func (s *healthState) hears(err error) {
	if pg.PoolAnswered(err) {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.answered = time.Now()
	}
}

// silence is how long the engine's pool has not answered, and how long the loop has made no turn.
func (s *healthState) silence() (pool, loop time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return time.Since(s.answered), time.Since(s.turned)
}

func healthOf(checks ...Check) Health {
	return Health{OK: !slices.ContainsFunc(checks, func(c Check) bool { return !c.OK }), Checks: checks}
}

// Live says whether the process can still do its work. It can if its loop makes its turns, and if no queue has lost all
// its slots to handlers that ignore their contexts and do not return. It is for a probe that restarts the process.
// Therefore it stays OK while the database is away, because a restart would not mend that. It is also OK before Run and
// after it.
func (n *Node) Live() Health {
	s := n.health
	s.mu.Lock()
	defer s.mu.Unlock()
	loop := Check{Name: CheckLoop, OK: true}
	switch silent := time.Since(s.turned); {
	case s.turned.IsZero():
		loop.Reason, loop.Since = s.checks[CheckNode].Reason, s.checks[CheckNode].Since
	case silent > loopSilent:
		loop.OK, loop.Since = false, s.turned
		loop.Reason = fmt.Sprintf(
			"no turn for more than %s: something that the node called does not return", loopSilent)
	}
	return healthOf(loop, s.checks[CheckSlots])
}

// Ready says whether this node can work now: it has begun and does not stop, and its session, its pool and its
// listener are connected. It says nothing about the cluster. That no node leads, or that a backlog grows, is a matter
// for an alert, and no reason to take this node out of service. A quiet node is ready, and its check of the node says
// that it is quiet.
func (n *Node) Ready() Health {
	s := n.health
	s.mu.Lock()
	defer s.mu.Unlock()
	node, database := s.checks[CheckNode], s.checks[CheckDatabase]
	if since, on := n.quiet.Since(); on && node.OK {
		node.Reason, node.Since = reasonQuiet, since
	}
	if database.OK && time.Since(s.answered) > poolLate {
		database.OK, database.Since = false, s.answered
		database.Reason = fmt.Sprintf("the engine's pool was not answered for more than %s", poolLate)
	}
	return healthOf(node, s.checks[CheckSession], database, s.checks[CheckListener])
}

// LiveHandler answers with Live. Mount it as /livez in a service's own mux. Like ReadyHandler, it does not ask the
// database, takes GET and HEAD, and says that its answer must not be stored.
func (n *Node) LiveHandler() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { n.Live().ServeHTTP(w, r) })
}

// ReadyHandler answers with Ready. Mount it as /readyz.
func (n *Node) ReadyHandler() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { n.Ready().ServeHTTP(w, r) })
}

// ServeHTTP writes the health as JSON.
func (h Health) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		w.Header().Set("Allow", "GET, HEAD")
		http.Error(w, "method not allowed", http.StatusMethodNotAllowed)
		return
	}
	body, _ := json.Marshal(h) // texts, and times of this process, always encode
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	status := http.StatusOK
	if !h.OK {
		status = http.StatusServiceUnavailable
	}
	w.WriteHeader(status)
	_, _ = w.Write(append(body, '\n')) // the client may have gone, which does not matter
}
