package inspect

import (
	"cmp"
	"context"
	"slices"
	"strconv"

	"github.com/tasktable/tasktable/store"
	"github.com/tasktable/tasktable/store/internal/query"
)

// maxJudged is how many recurring tasks RecurringTrouble judges. To judge one takes Postgres about 0.1 ms.
const maxJudged = 500

// troubleSQL looks only as far back as the last success of each task, because more is not needed to judge it. It
// reads the tasks in the order of the index of their next fires.
const troubleSQL = recurringColumnsSQL + `
FROM (
    SELECT * FROM tasktable.scheduled_tasks AS t WHERE t.cron IS NOT NULL AND t.next_attempt_at IS NOT NULL
    ORDER BY t.queue, t.type, t.next_attempt_at LIMIT $1::text::int
) AS t
CROSS JOIN LATERAL tasktable.recurring_health(t.id::text, t.revision, t.queue::text, t.type::text, true) AS h`

// RecurringTrouble lists the recurring tasks that are failing or overdue, in the order of their ids. It judges 500
// tasks at most. more tells that there are more tasks than these. It leaves out tasks that are paused or have ended.
func (i *Inspector) RecurringTrouble(ctx context.Context, db store.DB) (found []RecurringTask, more bool, err error) {
	tasks, err := query.Collect[RecurringTask](ctx, i.source, db, "judge recurring tasks", troubleSQL,
		strconv.Itoa(maxJudged+1))
	if len(tasks) > maxJudged {
		tasks, more = tasks[:maxJudged], true
	}
	for _, task := range tasks {
		task.Health = task.health()
		if task.Health == HealthFailing || task.Health == HealthOverdue {
			found = append(found, task)
		}
	}
	slices.SortFunc(found, func(a, b RecurringTask) int { return cmp.Compare(a.ID, b.ID) })
	return found, more, err
}
