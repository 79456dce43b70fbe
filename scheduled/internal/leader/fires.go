package leader

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tasktable/tasktable/scheduled/internal/pg"
	"github.com/tasktable/tasktable/scheduled/internal/taskdb"
)

// fire fires the recurring tasks of the given lanes that are due. It returns how many fired, had their next fire
// planned, or were given up. Claims do not depend on it, so it only logs its errors. If it takes too long, the next
// pass takes half as much.
func (l *Leader) fire(ctx context.Context, lanes []taskdb.Lane) (forked int) {
	limit := l.limit()
	due, err := l.statements.PickFires(ctx, l.conn, nil, lanes, l.writes.Now(), l.quarantinedIDs()...)
	if limit.Stop(); err == nil {
		err = pg.Step(l.writes, due, func(some []taskdb.LaneHead) error {
			looked, err := l.fireSome(ctx, some)
			forked += looked
			return err
		}, func(one taskdb.LaneHead, err error) error {
			forked++
			return l.giveUp(ctx, one, err)
		})
	}
	if err != nil {
		l.log.Error("recurring tasks could not be fired; the next pass tries again", "error", err)
	}
	if forked > 0 {
		l.fired(lanes, forked)
		l.log.Debug("fired", "tasks", forked)
	}
	return forked
}

// fired moves the marks of lanes from which so many recurring tasks have fired. A mark never passes the first task of
// its lane, because a fire that is planned keeps its time.
func (l *Leader) fired(lanes []taskdb.Lane, forked int) {
	l.unwritten, l.claimedAt = true, time.Now()
	for _, one := range lanes {
		if place, known := l.lanes.recurring.find(taskdb.LaneKey{Queue: one.Queue, Type: one.Type}); known {
			l.lanes.recurring.lanes[place].move(one.Head, forked)
		}
	}
}

// fireSome computes the due fires of some tasks, and then writes them in a transaction. It is not one transaction,
// because Postgres ends a connection that waits in a transaction for two seconds while the leader computes. A task that
// was changed in between is left to the next pass, and so are those for which the time was too short.
func (l *Leader) fireSome(ctx context.Context, some []taskdb.LaneHead) (looked int, err error) {
	defer l.limit().Stop()
	due, err := l.statements.DueFires(ctx, l.conn, nil, some, l.writes.Now())
	if err != nil {
		return 0, err
	}
	var fired taskdb.ForkResult
	err = l.transaction(ctx, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, taskdb.EnterSQL); err != nil {
			return err
		}
		fired, err = l.statements.WriteFires(ctx, tx, nil, due)
		return err
	})
	if err != nil {
		return 0, err
	}
	for _, id := range fired.Busy { // otherwise they would keep others from being read
		l.quarantined[id] = time.Now().Add(quarantineTimeLocked)
	}
	for _, one := range fired.Failed {
		l.metrics.Of(one.Type).Recorded(taskdb.OutcomeFailed)
		l.tellFailed(ctx, one.LaneHead, one.Error)
		l.log.Error("recurring task cannot be planned and is failed",
			"task", one.ID, "type", one.Type, "revision", one.Revision, "error", one.Error)
	}
	return fired.Looked, nil
}
