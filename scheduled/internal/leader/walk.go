package leader

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tasktable/tasktable/scheduled/internal/pg"
	"github.com/tasktable/tasktable/scheduled/internal/session"
	"github.com/tasktable/tasktable/scheduled/internal/taskdb"
)

// walk makes the reads that may have to step over millions of dead index entries, in the background, on the engine's
// pool. The leader does not wait for it. In rounds, it goes through the lanes and puts the tasks that no look sees any
// more behind the others of their lane, by their ids. Such a task was committed long after it was written, or somebody
// had locked it, or the leader had left it alone, while others were claimed. If a look took too long, a round lists the
// lanes instead.
type walk struct {
	housekeeping *session.Housekeeping
	statements   taskdb.Queries
	log          *slog.Logger
	moved        func() // makes the leader look

	abandonedAfter time.Duration
	abandonedNext  time.Time // when to look for abandoned claims
	unsetNext      time.Time // when to look for tasks whose limit key is not set
	planned        bool      // fires are planned with this node's time zone data

	under chan walked // gets the result of the round under way; nil: there is none
	next  time.Time   // when to begin the next round
}

// walked is the result of a round.
type walked struct {
	tasks, recurring []taskdb.Lane
	took             time.Duration // to list them
	listed           bool
	abandoned        []taskdb.Claim
	keys             []taskdb.KeysWalked
	keysOnly         bool // the round has read keys alone
}

const (
	// walkEvery is the pause between two rounds, and walkRarely is the same if nothing was claimed for rarelyAfter.
	walkEvery, walkRarely, rarelyAfter = time.Second, 15 * time.Second, time.Minute
	// The walk then pauses walkShare times as long as a step took.
	walkShare = 3
	// walkLimit is how long a statement that steps over dead entries may take. It reads lanesAtOnce.
	walkLimit   = time.Minute
	lanesAtOnce = 200
	// quickList is how long it may take to list the lanes until the leader's looks do so again.
	quickList = time.Second
	// unsetEvery is how often the walk looks for tasks that were committed late and whose limit key is not set.
	unsetEvery = time.Minute
)

func (l *Leader) newWalk() *walk {
	return &walk{
		housekeeping: l.config.Housekeeping, statements: l.statements, log: l.log, moved: l.config.Wakes.Send,
		abandonedAfter: cmp.Or(l.config.AbandonedAfter, abandonedAfter),
	}
}

// walkOn takes the result of the last round, and begins the next one if it is time.
func (l *Leader) walkOn(ctx context.Context) {
	w := l.walk
	if w.under != nil {
		select {
		case found := <-w.under:
			if len(found.abandoned) > 0 {
				l.abandoned = found.abandoned
				w.next = time.Time{} // there may be more
			}
			l.lanes.keys.walked(found.keys, l.session.Clock.Now())
			if w.under = nil; found.keysOnly {
				w.next, w.unsetNext = time.Time{}, time.Time{}
			}
			if found.listed {
				more := l.lanes.learn(found.tasks, found.recurring, l.session.Clock.Now())
				l.lanes.narrow = more || found.took > quickList
				w.next = time.Now().Add(walkShare * found.took)
			}
		default:
			return
		}
	}
	if time.Now().Before(w.next) {
		return
	}
	if w.next = time.Now().Add(walkEvery); time.Since(l.claimedAt) > rarelyAfter && !l.lanes.narrow {
		w.next = time.Now().Add(walkRarely)
	}
	next := course{
		tasks: l.lanes.tasks.passed(), recurring: l.lanes.recurring.passed(), keyed: l.lanes.keys.passed(),
		keysOnly: l.lanes.keys.unwalked(), aside: l.quarantinedIDs(),
	}
	if l.lanes.narrow {
		next.look = &pgx.Batch{}
		l.lanes.tasks.queueLook(l.statements, next.look, l.session.Clock.Now(), always, false)
		l.lanes.recurring.queueLook(l.statements, next.look, l.session.Clock.Now(), always, false)
	}
	under := make(chan walked, 1)
	w.under = under
	go func() {
		found, err := w.round(ctx, next)
		if err != nil && ctx.Err() == nil {
			w.log.Warn("a part of the leader's walk failed; the leader tries again", "error", err)
		}
		if under <- found; found.keysOnly {
			w.moved()
		}
	}()
}

// course is where a round goes.
type course struct {
	look             *pgx.Batch // lists the lanes, or is nil
	tasks, recurring []taskdb.LaneAt
	keyed            []taskdb.KeysFrom
	keysOnly         bool     // tasks wait until all keys are found
	aside            []string // tasks that the leader leaves alone
}

// round reads the keys of lanes alone if tasks wait for them. Otherwise it lists the lanes if look is not nil, or else
// moves the tasks that lie before these times, and goes on with the keys. Until no fire is
// left that was planned with other zone data, each round has some of them planned anew. Each minute a round looks for
// abandoned claims, but not for those of the tasks aside.
func (w *walk) round(ctx context.Context, c course) (found walked, err error) {
	if c.keysOnly {
		found.keys, err = w.keys(ctx, c.keyed, false)
		found.keysOnly = err == nil
		return found, err
	}
	if c.look != nil {
		found, err = w.list(ctx, c.look)
	} else {
		err = errors.Join(w.move(ctx, false, c.tasks), w.move(ctx, true, c.recurring))
	}
	if len(c.keyed) > 0 {
		unset := time.Now().After(w.unsetNext)
		if unset {
			w.unsetNext = time.Now().Add(unsetEvery)
		}
		keys, keysErr := w.keys(ctx, c.keyed, unset)
		found.keys, err = keys, errors.Join(err, keysErr)
	}
	if !w.planned {
		err = errors.Join(err, w.replan(ctx))
	}
	if time.Now().After(w.abandonedNext) {
		claims, abandonedErr := w.abandoned(ctx, c.aside)
		if found.abandoned = claims; abandonedErr == nil && len(claims) < maxAbandoned {
			w.abandonedNext = time.Now().Add(w.abandonedAfter)
		}
		err = errors.Join(err, abandonedErr)
	}
	return found, err
}

// passed lists where looks at the lanes begin.
func (m *laneMarks) passed() (lanes []taskdb.LaneAt) {
	for _, one := range m.probed {
		lanes = append(lanes, taskdb.LaneAt{LaneKey: one.LaneKey, At: one.from()})
	}
	return lanes
}

// list lists the lanes.
func (w *walk) list(ctx context.Context, look *pgx.Batch) (found walked, err error) {
	began := time.Now()
	err = w.housekeeping.Do(ctx, walkLimit, func(ctx context.Context, tx pgx.Tx) (err error) {
		results := tx.SendBatch(ctx, look)
		if found.tasks, err = pg.CollectNext[taskdb.Lane](results, "list lanes"); err == nil {
			found.recurring, err = pg.CollectNext[taskdb.Lane](results, "list lanes of recurring tasks")
		}
		found.took = time.Since(began)
		return errors.Join(err, results.Close())
	})
	found.listed = err == nil
	return found, err
}

// keys reads some keys of each lane, from the last one on, so that the leader knows all of them after some rounds. If
// unset is true, it looks for tasks whose keys are not set.
func (w *walk) keys(
	ctx context.Context, lanes []taskdb.KeysFrom, unset bool,
) (found []taskdb.KeysWalked, err error) {
	for _, lane := range lanes {
		began := time.Now()
		walkErr := w.housekeeping.Do(ctx, walkLimit, func(ctx context.Context, tx pgx.Tx) error {
			one, err := w.statements.WalkKeys(ctx, tx, lane, unset)
			if err == nil {
				found = append(found, one)
			}
			return err
		})
		err = errors.Join(err, walkErr)
		select {
		case <-time.After(walkShare * time.Since(began)):
		case <-ctx.Done():
		}
	}
	return found, err
}

// move moves the tasks that lie before these times.
func (w *walk) move(ctx context.Context, recurring bool, lanes []taskdb.LaneAt) (err error) {
	for some := range slices.Chunk(lanes, lanesAtOnce) {
		for more := true; more && ctx.Err() == nil; {
			began := time.Now()
			var found []taskdb.Overlooked
			listErr := w.housekeeping.Do(ctx, walkLimit, func(ctx context.Context, tx pgx.Tx) (err error) {
				found, err = w.statements.Overlooked(ctx, tx, recurring, some)
				return err
			})
			moved, moveErr := w.requeue(ctx, found)
			if moved > 0 {
				w.moved()
			}
			more, err = moved >= taskdb.MaxOverlooked, errors.Join(err, listErr, moveErr)
			select {
			case <-time.After(walkShare * time.Since(began)):
			case <-ctx.Done():
			}
		}
	}
	return err
}

// requeue moves tasks. It leaves out those that Postgres refuses to move.
func (w *walk) requeue(ctx context.Context, tasks []taskdb.Overlooked) (moved int, err error) {
	err = pg.Isolate(pg.IsDataErrorOrTimeout, tasks, func(some []taskdb.Overlooked) error {
		return w.housekeeping.Do(ctx, session.AnswerLimit, func(ctx context.Context, tx pgx.Tx) error {
			n, err := w.statements.Requeue(ctx, tx, some)
			moved += n
			return err
		})
	}, func(one taskdb.Overlooked, err error) error {
		w.log.Error("a task that lies before the mark of its lane cannot be moved; it waits", "task", one.ID,
			"error", err)
		return nil
	})
	return moved, err
}
