package scheduled

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"sync/atomic"
	"time"
)

// quiet is whether a node starts nothing new for the time being.
type quiet struct {
	mu      sync.Mutex
	since   time.Time                     // zero: it is not quiet
	begun   atomic.Pointer[chan struct{}] // closed while it is; another one each time
	changed chan struct{}                 // tells the goroutine that owns the session
}

func newQuiet() *quiet {
	q := &quiet{changed: make(chan struct{}, 1)}
	q.begun.Store(new(make(chan struct{})))
	return q
}

// Quiet has the node start nothing new until Unquiet: it leads no more, so that another node does, it claims and takes up nothing, and
// what was handed to it and has not begun goes back to the queue at once (what waits for its transaction's connection once it has that),
// without using up an attempt. What runs goes on, with all its time, and is recorded. The node stays alive and ready, and ends as ever.
//
// It returns at once, and may be called at any time, also before Run. The other nodes know within about a second; what the leader still
// claims for it until then waits for another node of the queue and type, or goes back, too, if there is none. Where all nodes are quiet
// nobody claims: what comes due waits, and so do fires of recurring tasks, ends of pauses, and what dead nodes have left.
func (n *Node) Quiet() { n.quiet.set(true) }

// Unquiet ends what Quiet began. The node takes up tasks again, and tries to lead, within about a second.
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

// begins is closed while the node is quiet. Ask for it anew each time; every task does, so nobody waits for anybody.
func (q *quiet) begins() <-chan struct{} { return *q.begun.Load() }

// from is since when the node is quiet, if it is.
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

// heed has the nodes table say what the node works, which is nothing while it is quiet, and has a quiet leader let another lead.
func (l *life) heed(ctx context.Context, on bool) error {
	queues, types, err := working(l.config, on)
	if err != nil {
		return err
	}
	sent := time.Now()
	_, err = l.session.conn.Exec(ctx, l.statements.schema.SQL(worksSQL), l.session.number, queues, types)
	l.session.heard(sent, err)
	if isReadOnly(err) {
		return l.session.demoted(ctx)
	}
	if err != nil {
		return fmt.Errorf("say what the node works: %w", err)
	}
	if on {
		if err := l.session.resign(ctx); err != nil {
			return err
		}
		l.log.Info("node is quiet: it starts nothing new", "running", len(l.worker.inHand(0)))
	} else {
		l.log.Info("node is quiet no more")
	}
	l.session.quiet = on
	return nil
}

// working is what the nodes table says of a node: its queues as JSON, and its types.
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
