package leader

import (
	"context"
	"errors"
	"math"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tasktable/tasktable/scheduled/internal/taskdb"
)

// The janitor ends River jobs that no node works, and the claims in them. There are four kinds:
//
//   - jobs of a node that died: the leader records their claims as lost (reclaimNode in reclaim.go)
//   - jobs that a node fetched after the leader had declared it dead: the same (reclaimStrays)
//   - jobs that no node has fetched in time, or that River has finished: the leader releases or removes them (sweep)
//   - jobs that River fetched for a node that never received them: the node itself releases them (Worker.Release)
//
// For the first three kinds, endJobs in reclaim.go ends the claims and removes the jobs. If somebody has deleted the
// job of a claim, maintenance/abandoned.go finds the claim.

// maxUnfetched is how long a job that could begin may wait in River before its tasks go back to the queue.
const maxUnfetched = 2 * time.Second

// nobody is the client of jobs that River runs on no node.
const nobody = ""

// reclaimStrays takes back the running jobs of nodes that the leader had declared dead before they fetched the jobs.
func (l *Leader) reclaimStrays(ctx context.Context) (err error) {
	live := l.numbers()
	for _, number := range l.jobs.Nodes() {
		if slices.Contains(live, number) {
			continue
		}
		if l.conn.IsClosed() {
			break
		}
		_, reclaimErr := l.reclaimAll(ctx, number)
		err = errors.Join(err, reclaimErr)
	}
	return err
}

const whyUnfetched = "no node had a slot for it in time"

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
	return l.endingStep(ctx, func(tx pgx.Tx) ([]endedClaim, error) {
		release := func(h taskdb.Claim) taskdb.Settlement { return taskdb.Released(h, why) }
		ended, _, err := l.endJobs(ctx, tx, nil, nobody, jobs, release)
		return ended, err
	})
}
