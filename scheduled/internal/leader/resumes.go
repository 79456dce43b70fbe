package leader

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tasktable/tasktable/scheduled/internal/pg"
)

// resumeTime is how long a tick resumes tasks. Meanwhile nothing is claimed. The next tick goes on.
const resumeTime = 200 * time.Millisecond

// resumeDue resumes the tasks whose pause has ended. It leaves a task alone for a while that cannot be resumed.
func (l *Leader) resumeDue(ctx context.Context) error {
	resumed := 0
	for began := time.Now(); time.Since(began) < resumeTime; {
		most := l.resumes.Now()
		limit := l.limit()
		ids, err := l.statements.PauseEnded(ctx, l.conn, nil, most, l.quarantinedIDs()...)
		if limit.Stop(); err != nil {
			return err
		}
		err = pg.Step(l.resumes, ids, func(some []string) error {
			return l.Transaction(ctx, func(tx pgx.Tx) error {
				n, err := l.statements.Resume(ctx, tx, nil, some)
				resumed += n
				return err
			})
		}, func(id string, err error) error {
			l.Quarantined[id] = time.Now().Add(quarantineTime)
			l.log.Error("task cannot be resumed at the end of its pause; the leader leaves it alone for a while",
				"task", id, "error", err, "until", l.Quarantined[id])
			return nil
		})
		if err != nil {
			return err
		}
		if len(ids) < most {
			break
		}
	}
	if resumed > 0 {
		l.log.Info("tasks resumed, because their pause has ended", "tasks", resumed)
	}
	return nil
}
