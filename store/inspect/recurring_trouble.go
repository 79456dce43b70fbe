package inspect

import (
	"cmp"
	"context"
	"slices"
	"strconv"

	"github.com/tasktable/tasktable/store"
	"github.com/tasktable/tasktable/store/internal/query"
)

// maxJudged is how many recurring tasks RecurringTrouble judges. To judge one takes Postgres about 0.05 ms.
const maxJudged = 500

// troubleSQL looks only as far back as the last success of each task, because more is not needed to judge it. It
// leaves out a task whose newest occurrence has succeeded and whose next fire is still to come: no fire is missed then.
// It reads the tasks in the order of the index of their next fires.
const troubleSQL = recurringColumnsSQL + `
FROM (
    SELECT * FROM tasktable.scheduled_tasks AS t WHERE t.cron IS NOT NULL AND t.next_attempt_at IS NOT NULL
    ORDER BY t.queue, t.type, t.next_attempt_at LIMIT $1::text::int
) AS t
LEFT JOIN LATERAL (
    SELECT o.status, o.finished_at FROM tasktable.scheduled_tasks AS o
    WHERE o.parent_id = t.id ORDER BY o.scheduled_at DESC LIMIT 1
) AS newest ON true
CROSS JOIN LATERAL tasktable.recurring_health(t.id::text, t.revision, t.queue::text, t.type::text, true) AS h
WHERE (newest.status = 'COMPLETED' AND newest.finished_at >= t.started_at AND t.planned_revision = t.revision
    AND t.planned_zone_data <> '' AND t.next_attempt_at > clock_timestamp()) IS NOT TRUE`

// RecurringTrouble lists the recurring tasks that are failing or overdue, in the order of their ids. It judges 500
// tasks at most, and says nothing of others. It leaves out tasks that are paused or have ended.
func (i *Inspector) RecurringTrouble(ctx context.Context, db store.DB) (found []RecurringTask, err error) {
	tasks, err := query.Collect[RecurringTask](ctx, i.source, db, "judge recurring tasks", troubleSQL,
		strconv.Itoa(maxJudged))
	if err == nil {
		err = i.readCalendars(ctx, db, tasks)
	}
	for _, task := range tasks {
		task.Health = task.health()
		if task.Health == HealthFailing || task.Health == HealthOverdue {
			found = append(found, task)
		}
	}
	slices.SortFunc(found, func(a, b RecurringTask) int { return cmp.Compare(a.ID, b.ID) })
	return found, err
}
