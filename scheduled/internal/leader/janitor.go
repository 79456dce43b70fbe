package leader

import (
	"context"
	"errors"
	"math"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tasktable/tasktable/scheduled/internal/pg"
	"github.com/tasktable/tasktable/scheduled/internal/taskdb"
)

// The janitor ends River jobs that no node works, and the claims in them. There are five kinds:
//
//   - jobs of a node that died: the leader records their claims as lost (reclaimNode in reclaim.go)
//   - jobs that a node fetched after the leader had declared it dead: the same
//   - jobs that no node has fetched in time, or that River has finished: the leader releases or removes them (sweep)
//   - jobs that River fetched for a node that never received them: the node itself releases them (Worker.releaseStray)
//   - jobs that somebody has deleted: the walk finds their claims when the leases have ended (endAbandoned)
//
// For the first three kinds, endJobs in reclaim.go ends the claims and removes the jobs.

// maxUnfetched is how long a job that could begin may wait in River before its tasks go back to the queue.
const maxUnfetched = 2 * time.Second

// nobody is the client of jobs that River runs on no node.
const nobody = ""

const whyUnfetched = "no node fetched it in time"

// sweep removes the jobs that River has finished. It also releases the tasks of jobs that could have begun but that
// no node has fetched, because the nodes have no free slot after all, or are gone. These tasks use up no attempt. The
// leader claims them again when there is room for them. Meanwhile more urgent tasks go first, and the released tasks
// may expire, or be paused or edited.
func (l *Leader) sweep(ctx context.Context) error {
	back, err := l.handBack(ctx, slices.Concat(l.jobs.Ended(), l.jobs.Waiting(maxUnfetched)), whyUnfetched)
	if back > 0 {
		l.log.Info("claimed tasks went back to the queue, because no node had a slot for them in time", "tasks", back)
	}
	return err
}

const whyAlone = "the only node was shutting down"

// leaveNothing releases the tasks of all jobs that no node has fetched, because this node stops and leads, and no other
// node would fetch them. Otherwise they would be EXECUTING until another node leads.
func (l *Leader) leaveNothing(ctx context.Context) error {
	if !l.leads() || len(l.workingNodes()) > 1 {
		return nil
	}
	var batch pgx.Batch
	l.jobs.Queue(l.statements, &batch)
	defer l.limit().Stop()
	results := l.conn.SendBatch(ctx, &batch)
	err := l.jobs.Read(results)
	err = errors.Join(err, results.Close())
	if err == nil {
		_, err = l.handBack(ctx, l.jobs.Waiting(math.MinInt64), whyAlone)
	}
	return err
}

// handBack releases the tasks of jobs that no node has fetched, and removes the jobs. It returns how many tasks.
func (l *Leader) handBack(ctx context.Context, jobs []int64, why string) (back int, err error) {
	if len(jobs) == 0 {
		return 0, nil
	}
	back, _, err = l.endingSteps(ctx, func(tx pgx.Tx) ([]endedClaim, bool, error) {
		release := func(h taskdb.Claim) taskdb.Settlement { return taskdb.Released(h, why) }
		return l.endJobs(ctx, tx, nil, nobody, jobs, release)
	})
	return back, err
}

// abandonedAfter is from the end of a lease until the claim is taken back. It is so long that everything that takes
// claims back sooner has done so.
const abandonedAfter = time.Minute

// maxAbandoned is how many abandoned claims a round of the walk finds. They are few, because a tick ends them one by
// one if a trigger of the application refuses each.
const maxAbandoned = 20

// AbandonedSQL finds claims whose lease has ended. It steps over rows that an application has locked.
const AbandonedSQL = `
SELECT t.id::text AS id, t.fence, t.revision, t.attempt, '0001-01-01'::timestamptz AS due
FROM tasktable.scheduled_tasks AS t
WHERE t.lease_expires_at < statement_timestamp() - $1::interval AND t.id <> ALL ($3::text[])
ORDER BY t.lease_expires_at LIMIT $2::int FOR NO KEY UPDATE SKIP LOCKED`

// abandoned finds claims that nothing else takes back. A node ends the claims in its own hands when their leases end.
// The leader finds the claims of dead nodes, and those that no node has fetched, through River's jobs. While somebody
// holds an old snapshot, the index on the lease keeps an entry for each task that was ever claimed. To step over
// 300,000 of them takes a tenth of a second. aside are tasks that the leader leaves alone for now. Without it,
// claims that nobody can end would hide all others.
func (w *walk) abandoned(ctx context.Context, aside []string) (claims []taskdb.Claim, err error) {
	err = w.housekeeping.Do(ctx, walkLimit, func(ctx context.Context, tx pgx.Tx) (err error) {
		claims, err = pg.CollectRows[taskdb.Claim](ctx, tx, "read abandoned claims",
			w.statements.Schema.SQL(AbandonedSQL), w.abandonedAfter, maxAbandoned, pg.OrEmpty(aside))
		return err
	})
	return claims, err
}

// endAbandoned takes back the claims that the walk has found. A node that was frozen may have extended a lease since.
// It loses the claim all the same, as if it had been frozen for a moment longer.
func (l *Leader) endAbandoned(ctx context.Context) error {
	var lost []taskdb.Settlement
	for _, claim := range l.abandoned {
		claim.Due = time.Time{} // the row does not say when the task was due
		lost = append(lost, taskdb.Lost(claim, "its lease ended, and nobody held it"))
	}
	if len(lost) == 0 {
		return nil
	}
	var left []int64
	_, _, err := l.endingSteps(ctx, func(tx pgx.Tx) (ended []endedClaim, _ bool, err error) {
		ended, left, err = l.end(ctx, tx, nil, lost)
		return ended, false, err
	})
	if err == nil {
		l.abandoned = slices.DeleteFunc(l.abandoned, func(claim taskdb.Claim) bool {
			return !slices.Contains(left, claim.Fence)
		})
	}
	return err
}
