//go:build unix

package torture

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"
)

// scheduleSteady schedules the recurring tasks that nobody edits.
func (w *writer) scheduleSteady() {
	if w.work.weight("recur") == 0 {
		return
	}
	for _, task := range steady() {
		w.transact([]string{task.ID}, 0, false, w.scheduling(task))
	}
}

// calm mends everything: nothing is frozen, cut or slow any more, and Postgres and all nodes are there.
func (r *harness) calm() {
	for _, s := range r.slots {
		s.current().signal(syscall.SIGCONT)
	}
	for _, w := range r.allWires() {
		r.must(w.mend(r.address()))
	}
	if r.api != nil {
		r.must(r.api.mend(r.address()))
	}
}

const (
	leftSQL = `
SELECT t.id::text AS id, t.status <> 'PAUSED' AS cancel FROM tasktable.scheduled_tasks AS t
WHERE t.status = 'PAUSED' AND t.paused_until IS NULL OR t.cron IS NOT NULL AND t.status = 'QUEUED'
    OR t.type = 'HTTP_REQUEST' AND t.status = 'QUEUED' AND t.next_attempt_at > clock_timestamp() + interval '5 seconds'
ORDER BY t.id::text`
	busySQL = `
SELECT count(*) FROM tasktable.scheduled_tasks AS t
WHERE (t.fence IS NOT NULL OR t.status IN ('QUEUED', 'EXECUTING', 'PAUSED')) AND t.type <> ALL ($1::text[])
    AND (t.fence IS NOT NULL OR coalesce(t.run_now_at, t.scheduled_at) < clock_timestamp() + interval '10 minutes')`
	unfinishedSQL = `
SELECT format('%s %s %s%s, due since %s', count(*), t.status, t.type, CASE WHEN t.fence IS NOT NULL THEN ', held' END,
    min(coalesce(t.run_now_at, t.scheduled_at)))
FROM tasktable.scheduled_tasks AS t WHERE t.fence IS NOT NULL OR t.status IN ('QUEUED', 'EXECUTING', 'PAUSED')
GROUP BY t.status, t.type, t.fence IS NOT NULL ORDER BY count(*) DESC LIMIT 10`
	jobsSQL = `
SELECT concat_ws(' ', state, kind, attempted_by[array_length(attempted_by, 1)], left(args ->> 'tasks', 200))
FROM tasktable.river_job WHERE state IN ('available', 'running')`
	idleSQL = `
SELECT application_name || ' ' || pid || ' since ' || xact_start FROM pg_stat_activity
WHERE state LIKE 'idle in transaction%' AND xact_start < clock_timestamp() - interval '5 seconds'`
)

const (
	// quietLimit is how long what is left may take once everything is mended: some attempts of some leases each, one
	// after the other. That it suffices is itself a promise: no task hangs.
	quietLimit = 60 * time.Second
	// residueLimit is how long what remains of tasks that have ended may lie about: the leader clears up
	// every ten seconds.
	residueLimit = 25 * time.Second
)

// awaitQuiet ends what would go on for ever, and waits until nothing is left to do. It returns when that was, or zero
// if it is not so in time.
func (r *harness) awaitQuiet(h *history) time.Time {
	ctx, cancel := context.WithTimeout(context.Background(), r.settings.Patience)
	defer cancel()
	unserved := slices.Collect(maps.Keys(h.Unserved))
	for {
		r.resumeAndEnd(ctx)
		var busy int
		if err := r.admin.QueryRow(ctx, busySQL, unserved).Scan(&busy); err == nil && busy == 0 {
			return time.Now()
		}
		if wait(ctx, 200*time.Millisecond) != nil {
			asking, cancel := context.WithTimeout(context.Background(), opLimit)
			defer cancel()
			r.must(collect(asking, r.admin, &h.Unfinished, pgx.RowTo[string], unfinishedSQL))
			return time.Time{}
		}
	}
}

// resumeAndEnd resumes what is paused, and cancels what recurs or waits for a host whose circuit is open, as the first
// writer.
func (r *harness) resumeAndEnd(ctx context.Context) {
	w := r.writers[0]
	type one struct {
		ID     string
		Cancel bool
	}
	var left []one
	if collect(ctx, r.admin, &left, pgx.RowToStructByName[one], leftSQL) != nil {
		return
	}
	for _, found := range left {
		id := found.ID
		recurs := strings.HasPrefix(id, "steady/") || strings.Contains(id, "/recurring/")
		w.transact([]string{id}, 0, false, func(ctx context.Context, tx pgx.Tx) ([]deed, error) {
			verb, do := "resume", w.tasks.Resume
			if recurs && !strings.Contains(id, "@") || found.Cancel {
				verb, do = "cancel", w.tasks.Cancel
			}
			receipt, err := do(ctx, tx, id)
			return []deed{did(verb, id, receipt)}, err
		})
	}
}

// endNodes looks for what is left behind, and stops the nodes.
func (r *harness) endNodes(h *history) {
	ctx, cancel := context.WithTimeout(context.Background(), min(residueLimit, r.settings.Patience))
	defer cancel()
	for {
		errJobs := collect(ctx, r.admin, &h.Jobs, pgx.RowTo[string], jobsSQL)
		errIdle := collect(ctx, r.admin, &h.Sessions, pgx.RowTo[string], idleSQL)
		if errJobs == nil && errIdle == nil && len(h.Jobs)+len(h.Sessions) == 0 ||
			wait(ctx, 200*time.Millisecond) != nil {
			break
		}
	}
	var ending sync.WaitGroup
	processes := r.processes
	if r.api != nil {
		processes = slices.Concat(processes, r.api.processes)
	}
	for _, p := range processes {
		if p.byItself() {
			h.Wrong = append(h.Wrong, fmt.Sprintf("%s (process %d) ended by itself: %s; the end of its log:\n%s",
				p.slot, p.pid, p.cmd.ProcessState, p.log.last(30)))
		} else if p.running() {
			ending.Go(func() { r.stopNode(p) })
		}
	}
	ending.Wait()
	h.Wrong = append(h.Wrong, r.wrong...)
}

// of is what a pointer points to, for reading.
func of[T any](value *T) string {
	if value == nil {
		return "-"
	}
	return fmt.Sprint(*value)
}

func (h *history) instant(at *time.Time) string {
	if at == nil {
		return "-"
	}
	return h.offset(*at)
}

// sortTold sorts lines that begin with seconds.
func sortTold(told []string) {
	seconds := func(text string) float64 {
		before, _, _ := strings.Cut(text, " ")
		at, _ := strconv.ParseFloat(before, 64)
		return at
	}
	slices.SortStableFunc(told, func(a, b string) int { return cmp.Compare(seconds(a), seconds(b)) })
}
