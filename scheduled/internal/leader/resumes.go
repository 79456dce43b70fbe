package leader

import (
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tasktable/tasktable/scheduled/internal/pg"
	"github.com/tasktable/tasktable/scheduled/internal/taskdb"
)

var errNotWritten = errors.New("a trigger of the application leaves the write out")

// resumeDue resumes tasks whose pause has ended, in one step. If more are left, the next pass follows at once, so that
// many of them and the claims take turns. It leaves a task alone for a while that cannot be resumed.
func (l *Leader) resumeDue(ctx context.Context) {
	most := l.resumes.Now()
	limit := l.limit()
	ids, err := l.statements.PauseEnded(ctx, l.conn, nil, most, l.quarantinedIDs()...)
	limit.Stop()
	l.pausesEnd = err == nil && len(ids) == most
	resumed := 0
	giveUp := func(id string, err error) error {
		l.quarantined[id] = time.Now().Add(quarantineTime)
		l.log.Error("task cannot be resumed at the end of its pause; the leader leaves it alone for a while",
			"task", id, "error", err, "until", l.quarantined[id])
		return nil
	}
	if err == nil {
		err = pg.Step(l.resumes, ids, func(some []string) error {
			var done []taskdb.Resumed
			err := l.transaction(ctx, func(tx pgx.Tx) (err error) {
				done, err = l.statements.Resume(ctx, tx, nil, some)
				return err
			})
			for _, one := range done {
				if one.Resumed {
					resumed++
				} else {
					_ = giveUp(one.ID, errNotWritten)
				}
			}
			return err
		}, giveUp)
	}
	if err != nil {
		l.log.Error("tasks could not be resumed at the end of their pauses; the next tick tries again", "error", err)
	}
	if resumed > 0 {
		l.log.Info("tasks resumed, because their pause has ended", "tasks", resumed)
	}
}
