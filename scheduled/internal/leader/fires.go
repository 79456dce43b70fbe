package leader

import (
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/tasktable/tasktable/scheduled/internal/failures"
	"github.com/tasktable/tasktable/scheduled/internal/pg"
	"github.com/tasktable/tasktable/scheduled/internal/session"
	"github.com/tasktable/tasktable/scheduled/internal/taskdb"
	"github.com/tasktable/tasktable/store"
)

// fire fires the recurring tasks of the given lanes that are due. It returns how many fired, or had their next fire
// planned. Claims do not depend on it, so it only logs its errors. If it takes too long, the next pass makes half as
// many occurrences.
func (l *Leader) fire(ctx context.Context, lanes []taskdb.Lane) (forked int) {
	fired, err := l.fireOnce(ctx, lanes)
	switch {
	case err == nil:
		l.maxWritten = min(2*l.maxWritten, taskdb.MaxFires)
		forked = fired.Looked
		l.reportFailed(ctx, fired)
		for _, id := range fired.Busy { // otherwise they would keep others from being read
			l.Quarantined[id] = time.Now().Add(quarantineTimeLocked)
		}
	case pg.IsTimeout(err) && l.maxWritten > 1:
		l.maxWritten /= 2
	case pg.IsDataError(err) || pg.IsTimeout(err):
		var eachErr error
		if forked, eachErr = l.forkEach(ctx, lanes); eachErr == nil {
			err = nil
		}
		err = errors.Join(err, eachErr)
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
		if place, known := l.Lanes.recurring.find(taskdb.LaneKey{Queue: one.Queue, Type: one.Type}); known {
			l.Lanes.recurring.lanes[place].move(one.Head, forked)
		}
	}
}

// fireOnce computes the due fires, and then writes them in a transaction. It is not one transaction, because Postgres
// ends a session that waits in a transaction for two seconds while the leader computes. A task that was changed in
// between is left to the next pass.
func (l *Leader) fireOnce(ctx context.Context, lanes []taskdb.Lane) (fired taskdb.ForkResult, err error) {
	sent := time.Now()
	due, err := l.statements.DueFires(ctx, l.session.Conn, nil, lanes, l.maxWritten, l.quarantinedIDs(), nil)
	if l.session.Heard(sent, err); err != nil {
		return fired, err
	}
	err = l.Transaction(ctx, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, taskdb.EnterSQL); err != nil {
			return err
		}
		fired, err = l.statements.WriteFires(ctx, heardTx{tx, l.session}, nil, due)
		return err
	})
	return fired, err
}

// forkEach fires the due recurring tasks one by one, and gives up those that cannot fire. It returns how many it has
// fired. It does so for MaxPassTime, and leaves the others to the next passes.
func (l *Leader) forkEach(ctx context.Context, lanes []taskdb.Lane) (forked int, err error) {
	began, tried := time.Now(), l.quarantinedIDs()
	for _, one := range lanes {
		for time.Since(began) < MaxPassTime {
			var fired taskdb.ForkResult
			found, gaveUp, err := l.isolate(ctx, one, tried, func(tx pgx.Tx, task taskdb.LaneHead) (err error) {
				fired, err = l.statements.ForkSome(
					ctx, heardTx{tx, l.session}, nil, []taskdb.Lane{one}, taskdb.MaxFires, nil, &task.ID,
				)
				return err
			})
			if err != nil {
				return forked, err
			}
			if found == nil {
				break
			}
			if tried = append(tried, found.ID); !gaveUp {
				forked += fired.Looked
				l.reportFailed(ctx, fired)
			}
		}
	}
	return forked, nil
}

// reportFailed reports recurring tasks that have failed.
func (l *Leader) reportFailed(ctx context.Context, fired taskdb.ForkResult) {
	for _, one := range fired.Failed {
		l.notifyFailures(ctx, failures.Failure{
			ID: one.ID, Type: one.Type, Outcome: taskdb.OutcomeFailed, Status: string(store.StatusFailed),
			Revision: one.Revision, Error: one.Error,
		})
		l.log.Error("recurring task cannot be planned and is failed",
			"task", one.ID, "type", one.Type, "revision", one.Revision, "error", one.Error)
	}
}

// heardTx counts each statement that Postgres has done as a sign of life, because it takes many statements to fork
// thousands of occurrences.
type heardTx struct {
	pgx.Tx
	session *session.Session
}

// Exec runs the statement, and notes the answer.
func (tx heardTx) Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error) {
	sent := time.Now()
	tag, err := tx.Tx.Exec(ctx, sql, args...)
	tx.session.Heard(sent, err)
	return tag, err
}
