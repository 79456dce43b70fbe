package scheduled

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// deepLook reads all of what the leader's looks read only in part: the lanes from their beginning, and River's jobs
// from the first id. While somebody holds an old snapshot that takes long, since millions of dead index entries may
// be in the way. So it is made on the engine's pool, with a time limit of its own, and not on the session, whose
// answers must come within two seconds. A node that begins to lead claims nothing before its first deep look.
type deepLook struct {
	pool       *pgxpool.Pool
	statements statements
	log        *slog.Logger
	told       func() // has the leader tick, which takes what was found

	made  bool // since the node leads
	busy  bool
	next  time.Time // when to begin another
	found chan deepFound
}

// deepFound is what a deep look has found.
type deepFound struct {
	began time.Time // by the database's clock
	lanes []laneRow
	took  time.Duration // to read the lanes
	jobs  []seenJobRow
	err   error
}

const (
	// deepEvery is the pause between two deep looks while nothing is slow.
	deepEvery = time.Minute
	// deepShare is how much longer than the deep look the pause is while looks begin at the floors, so that deep looks are no load. The
	// pause is at most deepSlow all the same: tasks before their lane's floor wait for a deep look, and less urgent tasks go before them.
	deepShare = 20
	deepSlow  = 4 * time.Second
)

// deepLimitSQL bounds each statement of a deep look.
const deepLimitSQL = `SELECT set_config('statement_timeout', '30s', true), clock_timestamp()`

// forget has a look made at once: the node begins to lead. One that is under way from an earlier time does not count.
func (d *deepLook) forget() {
	d.made, d.busy, d.next = false, false, time.Time{}
}

// begin has a look made in the background, if it is time.
func (d *deepLook) begin(ctx context.Context, worked []workedLane) {
	if d.busy || time.Now().Before(d.next) {
		return
	}
	d.busy = true
	found := make(chan deepFound, 1)
	d.found = found
	go func() {
		found <- d.look(ctx, worked)
		d.told()
	}()
}

// take returns what a look has found, once.
func (d *deepLook) take(slow bool) (found deepFound, ok bool) {
	if !d.busy {
		return found, false
	}
	select {
	case found = <-d.found:
	default:
		return found, false
	}
	d.busy = false
	pause := deepEvery
	if slow || found.err != nil {
		pause = min(max(deepShare*found.took, time.Second), deepSlow)
	}
	d.next = time.Now().Add(pause)
	if found.err != nil {
		d.log.Warn("not all lanes and jobs could be read; trying again", "error", found.err)
		return found, false
	}
	d.made = true
	return found, true
}

func (d *deepLook) look(ctx context.Context, worked []workedLane) (found deepFound) {
	queues, kinds := columnsOfWorked(worked)
	var batch pgx.Batch
	batch.Queue(deepLimitSQL)
	batch.Queue(d.statements.schema.SQL(workedLanesSQL), nil, queues, kinds)
	batch.Queue(d.statements.schema.SQL(jobsSQL), 0, []int64{})
	results := d.pool.SendBatch(ctx, &batch)
	found.err = d.read(results, &found)
	if err := errors.Join(found.err, results.Close()); err != nil {
		found.err = fmt.Errorf("deep look: %w", err)
	}
	return found
}

func (d *deepLook) read(results pgx.BatchResults, found *deepFound) (err error) {
	if err := results.QueryRow().Scan(nil, &found.began); err != nil {
		return err
	}
	began := time.Now()
	if found.lanes, err = readLaneRows(results); err != nil {
		return err
	}
	found.took = time.Since(began)
	found.jobs, err = readJobRows(results)
	return err
}
