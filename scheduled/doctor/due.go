package doctor

import (
	"context"
	"slices"
	"strings"

	"github.com/tasktable/tasktable/store"
	"github.com/tasktable/tasktable/store/inspect"
)

// due checks the tasks that should run by now. It goes by the oldest due task of each queue.
func (e *examination) due(ctx context.Context) error {
	work, err := e.listWork(ctx)
	if err != nil {
		return err
	}
	alive, _, err := e.listNodes(ctx)
	if err != nil {
		return err
	}
	queues := map[string]*kind{}
	for _, one := range work.kinds() {
		if one.due == 0 || one.paused || e.explained[[2]string{one.Queue, one.Type}] {
			continue
		}
		sum := queues[one.Queue]
		if sum == nil {
			sum = &kind{}
			queues[one.Queue] = sum
		}
		sum.due, sum.more = sum.due+one.due, sum.more || one.more
		if sum.oldest == nil || one.oldest.Before(*sum.oldest) {
			sum.oldest, sum.Type = one.oldest, one.Type
		}
	}
	total, late := 0, false
	for _, queue := range sorted(queues) {
		sum := queues[queue]
		total += sum.due
		age := work.now.Sub(*sum.oldest)
		if age < e.config.limits.late {
			continue
		}
		late = true
		more := "more slots (--queue " + queue + "=…)"
		if slices.ContainsFunc(alive, func(n inspect.Node) bool { return n.TypeSlots[sum.Type] > 0 }) {
			more += ", more slots of its type (--type-slots " + sum.Type + "=…)"
		}
		e.warn("see nodes and leader; if both are well, the slots are too few or busy: "+more+", more nodes, or\n"+
			e.sql("SELECT type, count(*), min(claimed_at) FROM tasktable.running_tasks WHERE queue = %s GROUP BY type",
				quoted(queue)),
			"%s in queue %s, the oldest, of type %s, for %s (since %s)",
			sum.many(), queue, sum.Type, short(age), instant(*sum.oldest))
	}
	if !late {
		e.ok("%s, none of them for longer than %s", several(total, "due task"), short(e.config.limits.late))
	}
	return nil
}

// pauses reports the pauses of scopes, and how many tasks wait for each. A pause without an end may have been
// forgotten.
func (e *examination) pauses(ctx context.Context) error {
	found, err := e.tasks.Pauses(ctx, e.tx)
	if err != nil {
		return err
	}
	work, err := e.listWork(ctx)
	if err != nil {
		return err
	}
	fires, err := rows[dueFires](ctx, e, dueFiresSQL)
	if err != nil {
		return err
	}
	for _, one := range found {
		waiting, more := 0, false
		for _, kind := range work.kinds() {
			scope, err := store.ParseScope(strings.TrimSuffix(one.Scope+":"+one.Name, ":"))
			if err == nil && scope.Has(kind.Queue, kind.Type) {
				waiting, more = waiting+kind.due, more || kind.more
			}
		}
		what, until, why := one.Scope, "until somebody resumes it", ""
		if one.Name != "" {
			what += " " + one.Name
		}
		if one.EndsAt != nil {
			until = "until " + instant(*one.EndsAt)
		}
		if one.Reason != nil {
			why = ": " + line(*one.Reason)
		}
		level := Info
		if waiting > 0 && one.EndsAt == nil && work.now.Sub(one.PausedAt) > e.config.limits.paused {
			level = Warning
		}
		e.find(level, e.sql("SELECT tasktable.resume_scope(%s, %s)", quoted(one.Scope), quoted(one.Name))+
			"\n"+e.command("queues resume "+word(strings.TrimSuffix(one.Scope+":"+one.Name, ":"))),
			"%s is paused since %s by %s %s, and %s for it%s", what, instant(one.PausedAt), one.PausedBy, until,
			wait(waiting, more, firesOf(fires, one)), why)
	}
	if len(found) == 0 {
		e.ok("no queue or type is paused")
	}
	return nil
}

// wait returns how many tasks and fires wait. It leaves out the fires if there are none.
func wait(tasks int, more bool, fires int) string {
	switch {
	case fires > 0:
		return dueTasks(tasks, more) + " and " + several(fires, "fire") + " of recurring tasks wait"
	case tasks == 1 && !more:
		return "1 due task waits"
	}
	return dueTasks(tasks, more) + " wait"
}

// dueFiresSQL counts the recurring tasks whose next fire is due. Such a fire waits only if something keeps the leader
// from it.
const dueFiresSQL = `
SELECT t.queue::text AS queue, t.type::text AS type, count(*)::int AS fires
FROM tasktable.scheduled_tasks AS t WHERE t.cron IS NOT NULL AND t.next_attempt_at <= statement_timestamp()
	GROUP BY 1, 2`

type dueFires struct {
	Queue string
	Type  string
	Fires int
}

// firesOf counts the fires that wait for a pause.
func firesOf(fires []dueFires, pause store.Pause) (count int) {
	scope, err := store.ParseScope(strings.TrimSuffix(pause.Scope+":"+pause.Name, ":"))
	for _, lane := range fires {
		if err == nil && scope.Has(lane.Queue, lane.Type) {
			count += lane.Fires
		}
	}
	return count
}

const claimsSQL = `
SELECT count(*)::int AS held,
    count(*) FILTER (
        WHERE t.lease_expires_at < statement_timestamp() - $1::float8 * interval '1 second')::int AS lapsed,
    coalesce(extract(epoch FROM statement_timestamp() - min(t.lease_expires_at)), 0)::float8 AS oldest,
    coalesce((array_agg(t.id::text ORDER BY t.lease_expires_at))[1], '') AS id
FROM tasktable.scheduled_tasks AS t WHERE t.lease_expires_at IS NOT NULL`

type claimsRow struct {
	Held   int
	Lapsed int
	Oldest float64
	ID     string
}

// claims checks the leases. A claim is taken back within seconds of the end of its lease, unless another session keeps
// the row locked, or no node leads. If somebody has deleted the claim's job, the leader needs a minute or two.
func (e *examination) claims(ctx context.Context) error {
	found, err := row[claimsRow](ctx, e, claimsSQL, e.config.limits.lapsed.Seconds())
	if err != nil {
		return err
	}
	if found.Lapsed == 0 {
		e.ok("%s held, none of them by a claim whose lease has ended", several(found.Held, "task"))
		return nil
	}
	e.fail("see leader; if one leads, a transaction has locked the rows (see snapshots):\n"+
		e.sql("SELECT * FROM tasktable.running_tasks WHERE stuck"),
		"%s held by claims whose lease has ended, the first %s ago (task %s), and nobody takes them back",
		several(found.Lapsed, "task"), seconds(found.Oldest), line(found.ID))
	return nil
}
