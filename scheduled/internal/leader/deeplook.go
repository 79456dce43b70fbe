package leader

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tasktable/tasktable/scheduled/internal/pg"
	"github.com/tasktable/tasktable/scheduled/internal/riverjobs"
	"github.com/tasktable/tasktable/scheduled/internal/session"
	"github.com/tasktable/tasktable/scheduled/internal/taskdb"
)

// deepLook reads everything that the leader's own looks read only in part: the lanes from their beginning, and
// River's jobs from the first id. While somebody holds an old snapshot this takes long, because millions of dead
// index entries may be in the way. Therefore a deep look uses the engine's pool and has a time limit of its own. It
// does not use the session, whose answers must come within two seconds. A node that begins to lead claims nothing
// before its first deep look has ended.
type deepLook struct {
	pool       *pgxpool.Pool
	turns      session.Turns
	statements taskdb.Queries
	log        *slog.Logger
	told       func()        // makes the leader tick, and the tick takes the result
	slowList   time.Duration // how long it must take to list tasks before the marks to count as slow

	made  bool // a look has been made since the node leads
	busy  bool
	ended time.Time // when the last look ended; zero if none has since the node leads
	took  time.Duration
	err   error // of the last look
	found chan DeepFound
}

// DeepFound is the result of a deep look.
type DeepFound struct {
	Worked []taskdb.WorkedLane // those that the look has read
	Began  time.Time           // by the database's clock
	Lanes  []taskdb.LaneRow
	Took   time.Duration // the time to read the lanes
	jobs   []riverjobs.Row
	low    []lowLane
	err    error
}

const (
	// deepPause is the pause between two deep looks while the leader's own looks read everything.
	deepPause = time.Minute
	// deepShare sets the pause otherwise. The pause is that many times as long as the deep look took, so that deep
	// looks are no load. It is at least minDeepPause and at most maxDeepPause. Tasks before their lane's mark wait
	// for a deep look, and meanwhile less urgent tasks go before them.
	deepShare    = 20
	minDeepPause = time.Second
	maxDeepPause = 4 * time.Second
	// maxConnecting is how long the pool may take to give a connection that answers.
	maxConnecting = 2 * time.Second
	// maxDeepLook bounds a deep look whose connection dies meanwhile. It is longer than the time limits of the three
	// statements together.
	maxDeepLook = 95 * time.Second
)

// deepLimitSQL bounds each statement of a deep look.
const deepLimitSQL = `SELECT set_config('statement_timeout', '30s', true), clock_timestamp()`

const clockSQL = `SELECT clock_timestamp()`

// forget makes begin start a look at once, because the node begins to lead. A look that is under way from an earlier
// time does not count.
func (d *deepLook) forget() {
	d.made, d.busy, d.ended = false, false, time.Time{}
}

// begin starts a look in the background, if it is time for one. The pause between two looks is longer while the
// leader's own looks read everything. There is no pause if lanes wait for the look, and a short
// one if tasks do, unless the last look failed. The
// pause is computed now, and not when the last look ended, because the leader's looks may have become slow since.
func (d *deepLook) begin(ctx context.Context, marks *LowWaterMarks) {
	pause := min(max(deepShare*d.took, minDeepPause), maxDeepPause)
	switch {
	case d.err != nil:
	case marks.waits():
		pause = 0
	case marks.isLow:
		pause = min(deepShare*d.took, maxDeepPause)
	case marks.Quick:
		pause = deepPause
	}
	if d.busy || time.Since(d.ended) < pause {
		return
	}
	d.busy = true
	found, worked := make(chan DeepFound, 1), marks.worked
	known := maps.Clone(marks.known)
	d.found = found
	go func() {
		found <- d.look(ctx, worked, known)
		d.told()
	}()
}

// take returns the result of a look, once.
func (d *deepLook) take() (found DeepFound, ok bool) {
	if !d.busy {
		return found, false
	}
	select {
	case found = <-d.found:
	default:
		return found, false
	}
	d.busy, d.ended, d.took, d.err = false, time.Now(), found.Took, found.err
	if found.err != nil {
		d.log.Warn("leader could not read all lanes and jobs; it tries again", "error", found.err)
		return found, false
	}
	d.made = true
	return found, true
}

// connection returns a connection of the pool that has just answered. The other end of a connection in the pool may
// be gone without notice, for example after a firewall has forgotten the connection. A deep look on such a connection
// would wait for minutes, and the leader claims nothing before its first deep look. The pool drops the connections
// that do not answer.
func (d *deepLook) connection(ctx context.Context) (*pgxpool.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, maxConnecting)
	defer cancel()
	conn, err := d.pool.Acquire(ctx)
	if err != nil {
		return nil, fmt.Errorf("take a connection: %w", err)
	}
	if err := conn.Ping(ctx); err != nil {
		conn.Release()
		return nil, fmt.Errorf("ping: %w", err)
	}
	return conn, nil
}

// look reads everything. known has the marks. Tasks that lie far before them are to be lifted.
func (d *deepLook) look(
	ctx context.Context, worked []taskdb.WorkedLane, known map[laneKey]time.Time,
) (found DeepFound) {
	ctx, cancel := context.WithTimeout(ctx, maxDeepLook)
	defer cancel()
	leave, err := d.turns.Take(ctx)
	if err != nil {
		found.err = fmt.Errorf("deep look: %w", err)
		return found
	}
	defer leave()
	conn, err := d.connection(ctx)
	if err != nil {
		found.err = fmt.Errorf("deep look: %w", err)
		return found
	}
	defer conn.Release()
	found.Worked = worked
	queues, kinds := taskdb.ColumnsOfWorked(worked)
	var batch pgx.Batch
	batch.Queue(deepLimitSQL)
	batch.Queue(d.statements.Schema.SQL(taskdb.WorkedLanesSQL), nil, queues, kinds)
	batch.Queue(clockSQL)
	batch.Queue(d.statements.Schema.SQL(riverjobs.LookSQL), 0, []int64{})
	results := conn.SendBatch(ctx, &batch)
	found.err = d.read(results, &found)
	if err := errors.Join(found.err, results.Close()); err != nil {
		found.err = fmt.Errorf("deep look: %w", err)
		return found
	}
	// An error here is no reason not to use what was read.
	found.low, err = d.listLow(ctx, conn, found, known)
	if err != nil {
		d.log.Warn("leader could not list the tasks that lie far before the others", "error", err)
	}
	return found
}

func (d *deepLook) read(results pgx.BatchResults, found *DeepFound) (err error) {
	if err := results.QueryRow().Scan(nil, &found.Began); err != nil {
		return err
	}
	if found.Lanes, err = pg.CollectNext[taskdb.LaneRow](results, "list lanes"); err != nil {
		return err
	}
	// The node's clock would not tell, because Postgres sends the answers to a batch together.
	var ended time.Time
	if err := results.QueryRow().Scan(&ended); err != nil {
		return err
	}
	found.Took = ended.Sub(found.Began)
	found.jobs, err = pg.CollectNext[riverjobs.Row](results, "read River's jobs")
	return err
}
