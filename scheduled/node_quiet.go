package scheduled

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tasktable/tasktable/scheduled/internal/taskdb"
)

// quiet says whether a node may start something new.
type quiet struct {
	mu      sync.Mutex
	since   time.Time                     // zero: it is not quiet
	begun   atomic.Pointer[chan struct{}] // closed while the node is quiet; Unquiet makes a new one
	changed chan struct{}                 // tells the goroutine that owns the session
}

func newQuiet() *quiet {
	q := &quiet{changed: make(chan struct{}, 1)}
	q.begun.Store(new(make(chan struct{})))
	return q
}

// Quiet stops the node from starting anything new until Unquiet. A quiet node does not lead, so that another node
// leads. It claims no tasks and takes up none. It hands back the tasks that it holds and has not begun, at once and
// without using up an attempt. A task that waits for a connection for its transaction goes back once it has that
// connection. Running handlers go on with all their time, and their outcomes are recorded. The node stays alive and
// ready, and Run ends as it always does.
//
// Quiet returns at once. It may be called at any time, also before Run, and by several goroutines. The other nodes
// know within about a second. Tasks that the leader claims for this node until then wait for another node with the
// queue and type. If there is none, they go back too.
//
// If all nodes are quiet, nobody claims. Then all due tasks wait, and so do fires of recurring tasks, ends of pauses,
// and the tasks of dead nodes.
func (n *Node) Quiet() { n.quiet.set(true) }

// Unquiet undoes Quiet. Within about a second, the node takes up tasks again and tries to lead.
func (n *Node) Unquiet() { n.quiet.set(false) }

func (q *quiet) set(on bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	switch {
	case on == !q.since.IsZero():
		return
	case on:
		q.since = time.Now()
		close(*q.begun.Load())
	default:
		q.since = time.Time{}
		q.begun.Store(new(make(chan struct{})))
	}
	tell(q.changed)
}

// begins returns a channel that is closed while the node is quiet. Ask for the channel anew each time, because
// Unquiet replaces it. begins takes no lock, because every task calls it.
func (q *quiet) begins() <-chan struct{} { return *q.begun.Load() }

// from returns whether the node is quiet, and since when.
func (q *quiet) from() (since time.Time, on bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.since, !q.since.IsZero()
}

func (q *quiet) on() bool {
	_, on := q.from()
	return on
}

const worksSQL = `UPDATE tasktable.nodes SET queues = $2::text::jsonb, types = $3 WHERE number = $1`

// heed writes to the nodes table which queues and types the node works. These are none while the node is quiet. If
// the node is quiet and leads, heed also lets another node lead.
func (l *instance) heed(ctx context.Context, on bool) error {
	queues, types, err := working(l.config, on)
	if err != nil {
		return err
	}
	sent := time.Now()
	_, err = l.session.conn.Exec(ctx, l.statements.Schema.SQL(worksSQL), l.session.number, queues, types)
	l.session.heard(sent, err)
	if taskdb.IsReadOnly(err) {
		return l.session.demoted(ctx)
	}
	if err != nil {
		return fmt.Errorf("write the queues and types that the node works: %w", err)
	}
	if on {
		if err := l.session.resign(ctx); err != nil {
			return err
		}
		l.log.Info("node is quiet: it starts nothing new", "running", len(l.worker.inHand(0)))
	} else {
		l.log.Info("node is no longer quiet")
	}
	l.session.quiet = on
	return nil
}

// working returns the entries of the nodes table for a node: its queues as JSON, and its types.
func working(config Config, quiet bool) (queues string, types []string, err error) {
	slots, types := config.works()
	if quiet {
		slots, types = map[string]int{}, []string{}
	}
	encoded, err := json.Marshal(slots)
	if err != nil {
		return "", nil, fmt.Errorf("encode queues: %w", err)
	}
	return string(encoded), types, nil
}
