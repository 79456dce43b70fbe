package leader

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tasktable/tasktable/scheduled/internal/pg"
	"github.com/tasktable/tasktable/scheduled/internal/riverjobs"
	"github.com/tasktable/tasktable/scheduled/internal/taskdb"
)

// The janitor ends River jobs that no node works, and the claims in them. There are four kinds:
//
//   - jobs of a node that died: the leader records their claims as lost (reclaimNode)
//   - jobs that a node fetched after the leader had declared it dead: the same (reclaimStrays)
//   - jobs that no node has fetched in time, or that River has finished: the leader releases or removes them (sweep)
//   - jobs that River fetched for a node that never received them: the node itself releases them (Worker.Release)
//
// If somebody has deleted the job of a claim, the walk through the table finds the claim (maintenance/abandoned.go).
const whyUnfetched = "no node had a slot for it in time"

// nudgeAfter is how long a job that could begin waits in River until the leader tells River of it once more.
const nudgeAfter = time.Second

// maxUnfetched is how long a job that could begin may wait in River before its tasks go back to the queue.
const maxUnfetched = 2 * time.Second

// maxReclaimed is how many jobs, or claims, are ended in one step. The next tick ends the rest.
const maxReclaimed = 500

// nobody is the client of jobs that River runs on no node.
const nobody = ""

// The statement leaves out jobs that are no longer with the client with which the leader saw them.
const lockJobsSQL = `
SELECT j.id, j.state::text AS state, coalesce(j.args ->> 'tasks', '') AS tasks FROM tasktable.river_job AS j
WHERE j.id = ANY ($2::bigint[])
    AND CASE WHEN j.state = 'running' THEN j.attempted_by[array_length(j.attempted_by, 1)] ELSE '' END = $1::text
ORDER BY j.id LIMIT $3::int FOR UPDATE SKIP LOCKED`

type jobRow struct {
	ID    int64
	State string
	Tasks string
}

// endJobs ends the claims in a client's jobs, and removes the jobs. node is the node that had the jobs, or nil if no
// node had them. endJobs reports whether any are left, because there are many or because others have locked rows.
func (l *Leader) endJobs(
	ctx context.Context, tx pgx.Tx, node *int64, client string, ids []int64,
	ending func(taskdb.Claim) taskdb.Settlement,
) (left bool, err error) {
	sent := time.Now()
	jobs, err := pg.CollectRows[jobRow](ctx, tx, "lock River jobs to be ended",
		l.statements.Schema.SQL(lockJobsSQL), client, pg.OrEmpty(ids), maxReclaimed)
	l.session.Heard(sent, err)
	if err != nil {
		return false, err
	}
	left = len(jobs) == maxReclaimed
	jobOf := map[int64]int64{} // the job of each fence
	ended := map[int64]bool{}
	var settlements []taskdb.Settlement
	for _, job := range jobs {
		ended[job.ID] = true
		if job.State != riverjobs.Running && job.State != riverjobs.Available {
			continue // River has finished it, and nobody reads it again
		}
		holds, err := taskdb.DecodeClaims(job.Tasks)
		if err != nil {
			l.log.Error("River job is not one of ours; removed", "job", job.ID, "error", err)
		}
		for _, h := range holds {
			jobOf[h.Fence] = job.ID
			settlements = append(settlements, ending(h))
		}
	}
	settlements, later, err := l.thisStep(ctx, tx, settlements)
	if err != nil {
		return false, err
	}
	held, err := l.end(ctx, tx, node, settlements)
	if err != nil {
		return false, err
	}
	for _, fence := range slices.Concat(held, later) {
		left = true
		delete(ended, jobOf[fence])
	}
	if _, err := tx.Exec(
		ctx, l.statements.Schema.SQL(taskdb.DeleteJobsSQL), slices.Collect(maps.Keys(ended)),
	); err != nil {
		return false, fmt.Errorf("remove jobs whose claims are ended: %w", err)
	}
	return left, nil
}

const fencesSQL = `
SELECT t.fence FROM tasktable.scheduled_tasks AS t WHERE t.id = ANY ($1::text[]) AND t.fence = ANY ($2::bigint[])`

// thisStep picks the settlements that this step makes. later has the fences of the others. It picks all settlements,
// unless a step has run into its time limit. A step does that if, for example, a trigger of the application makes
// each row slow. Then thisStep picks a few of the claims that earlier steps have not ended.
func (l *Leader) thisStep(
	ctx context.Context, tx pgx.Tx, settlements []taskdb.Settlement,
) (now []taskdb.Settlement, later []int64, err error) {
	aside := l.quarantinedIDs()
	if l.maxEnded == maxReclaimed && len(aside) == 0 {
		return settlements, nil, nil
	}
	var ids []string
	var fences []int64
	for _, one := range settlements {
		ids, fences = append(ids, one.ID), append(fences, one.Fence)
	}
	left, err := pg.CollectColumn[int64](ctx, tx, "look which claims are left", l.statements.Schema.SQL(fencesSQL),
		pg.OrEmpty(ids), pg.OrEmpty(fences))
	if err != nil {
		return nil, nil, err
	}
	isLeft := map[int64]bool{}
	for _, fence := range left {
		isLeft[fence] = true
	}
	for _, one := range settlements {
		switch {
		case !isLeft[one.Fence]: // an earlier step has ended it
		case len(now) == l.maxEnded || slices.Contains(aside, one.ID):
			later = append(later, one.Fence)
		default:
			now = append(now, one)
		}
	}
	return now, later, nil
}

// endingStep runs a step that ends claims, in a transaction. If a step runs into its time limit, the next step ends
// half as many claims. If a single claim takes too long, it is left alone for a while, and the others are ended.
func (l *Leader) endingStep(ctx context.Context, step func(pgx.Tx) error) error {
	err := l.Transaction(ctx, step)
	switch {
	case err == nil:
		l.maxEnded = min(2*l.maxEnded, maxReclaimed)
	case pg.IsTimeout(err):
		l.maxEnded = max(l.maxEnded/2, 1)
	}
	return err
}

// reclaimStrays takes back the running jobs of nodes that the leader had declared dead before they fetched the jobs.
func (l *Leader) reclaimStrays(ctx context.Context) (err error) {
	live := l.numbers()
	for _, client := range l.jobs.Clients() {
		number, parseErr := strconv.ParseInt(strings.TrimPrefix(client, taskdb.ClientPrefix), 10, 64)
		if parseErr != nil || slices.Contains(live, number) {
			continue
		}
		if l.session.Conn.IsClosed() {
			break
		}
		_, reclaimErr := l.reclaimAll(ctx, number)
		err = errors.Join(err, reclaimErr)
	}
	return err
}

// renotifyRiver tells River once more of the queues in which jobs wait. It does not disturb nodes that are full.
func (l *Leader) renotifyRiver(ctx context.Context) error {
	waiting := l.jobs.Waiting(nudgeAfter)
	if len(waiting) == 0 {
		return nil
	}
	return riverjobs.Nudge(ctx, l.session.Conn, l.statements, waiting)
}

// sweep removes the jobs that River has finished. It also releases the tasks of jobs that could have begun but that
// no node has fetched, because the nodes have no free slot after all, or are gone. These tasks use up no attempt. The
// leader claims them again when there is room for them. Meanwhile more urgent tasks go first, and the released tasks
// may expire, or be paused or edited.
func (l *Leader) sweep(ctx context.Context) error {
	ids := slices.Concat(l.jobs.Ended(), l.jobs.Waiting(maxUnfetched))
	if len(ids) == 0 {
		return nil
	}
	back := 0
	err := l.endingStep(ctx, func(tx pgx.Tx) error {
		release := func(h taskdb.Claim) taskdb.Settlement { return taskdb.Released(h, whyUnfetched) }
		_, err := l.endJobs(ctx, tx, nil, nobody, ids, release)
		back = len(l.lines)
		return err
	})
	if err == nil && back > 0 {
		l.log.Info("claimed tasks went back to the queue, because no node had a slot for them in time", "tasks", back)
	}
	return err
}
