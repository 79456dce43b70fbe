package cmd

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"text/tabwriter"

	"github.com/jackc/pgx/v5"
)

// question is one of the audit, answered by SQL. With an answer expected, another is a failure of the demo.
type question struct {
	asks    string
	sql     string
	expects string // the rows, cells joined by a space, rows by a comma
}

// questions are those of a team that uses this. $1 is the end of the ids of this run.
func (d *demo) questions() []question {
	return []question{
		{"Did each thing happen, and how often?", `
SELECT type, status, count(*), coalesce(sum(attempt), 0) AS attempts
FROM tasktable_demo.scheduled_tasks WHERE id LIKE '%' || $1 OR tenant_id = 'club' || $1
GROUP BY type, status ORDER BY type, status`,
			"PUBLISH_EVENT COMPLETED 1 1, PUBLISH_SCHEDULED_POST COMPLETED 1 1, SEND_DIRECT_MESSAGE QUEUED 1 0, SEND_EMAIL COMPLETED 1 2, " +
				"SEND_EVENT_REMINDER CANCELLED 1 0, SEND_EVENT_REMINDER COMPLETED 2 2, SEND_EVENT_REMINDER EXPIRED 1 0, SEND_EVENT_REMINDER QUEUED 1 0, WELCOME_MEMBER COMPLETED 1 1"},
		{"Who was reminded of what? (exactly once each)", `
SELECT split_part(event_id, $1, 1) AS event, count(*) AS notifications
FROM community.notifications WHERE event_id LIKE '%' || $1 GROUP BY event_id ORDER BY event_id`,
			"book-club 1, dinner 1, stand-up 1"},
		{"The book club moved; did its reminder move?", `
SELECT verb, outcome, changed_by FROM tasktable_demo.scheduled_task_changes
WHERE task_id = 'task-SEND_EVENT_REMINDER-book-club' || $1 ORDER BY revision`,
			"sync created demo, sync rescheduled demo"},
		{"The dinner was edited while its reminder ran; what became of the two runs?", `
SELECT outcome, attempt FROM tasktable_demo.scheduled_task_executions
WHERE task_id = 'task-SEND_EVENT_REMINDER-dinner' || $1 ORDER BY fence`,
			"SUPERSEDED 1, COMPLETED 1"},
		{"Why did no reminder of the lecture go out?", `
SELECT status, message FROM tasktable_demo.scheduled_tasks WHERE id = 'task-SEND_EVENT_REMINDER-lecture' || $1`,
			"EXPIRED expired before it could start"},
		{"What went wrong with the mail, and was it mended?", `
SELECT e.outcome, e.attempt, e.error FROM tasktable_demo.scheduled_task_executions AS e
JOIN tasktable_demo.scheduled_tasks AS t ON t.id = e.task_id
WHERE t.tenant_id = 'club' || $1 AND t.type = 'SEND_EMAIL' ORDER BY e.fence`,
			"RETRIED 1 451 4.3.2 the mail server is not accepting messages just now, COMPLETED 2 "},
		{"How late did tasks start?", `
SELECT count(e.started_at) AS starts, round(1000 * max(extract(epoch FROM e.started_at - e.due_at)))::int AS most_ms,
    round(1000 * percentile_cont(0.5) WITHIN GROUP (ORDER BY extract(epoch FROM e.started_at - e.due_at)))::int AS median_ms,
    count(*) FILTER (WHERE e.started_at < e.due_at) AS early
FROM tasktable_demo.scheduled_task_executions AS e JOIN tasktable_demo.scheduled_tasks AS t ON t.id = e.task_id
WHERE t.id LIKE '%' || $1 OR t.tenant_id = 'club' || $1`, ""},
	}
}

// audit asks all questions, prints their SQL and answers, and fails if one is not as expected.
func (d *demo) audit(ctx context.Context) error {
	fmt.Fprintf(d.stdout, "\nThe audit. $1 is '-%s', the end of this run's ids.\n", d.run)
	var wrong []error
	for _, q := range d.questions() {
		fmt.Fprintf(d.stdout, "\n-- %s%s;\n\n", q.asks, q.sql)
		answer, err := d.ask(ctx, q.sql)
		if err != nil {
			return err
		}
		if q.expects != "" && answer != q.expects {
			wrong = append(wrong, fmt.Errorf("%q: expected %s; got %s", q.asks, q.expects, answer))
		}
	}
	if err := errors.Join(wrong...); err != nil {
		return fmt.Errorf("not all happened that should have:\n%w", err)
	}
	fmt.Fprintln(d.stdout, "\nAll happened that should have.")
	return nil
}

// ask prints the answer as a table, and returns it in one line.
func (d *demo) ask(ctx context.Context, sql string) (string, error) {
	rows, err := d.d.pool.Query(ctx, sql, "-"+d.run)
	if err != nil {
		return "", fmt.Errorf("audit: %w", err)
	}
	var header []string
	for _, field := range rows.FieldDescriptions() {
		header = append(header, field.Name)
	}
	table := tabwriter.NewWriter(d.stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintf(table, "   %s\n", strings.Join(header, "\t"))
	lines, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (string, error) {
		values, err := row.Values()
		if err != nil {
			return "", err
		}
		cells := make([]string, len(values))
		for i, value := range values {
			if value != nil {
				cells[i] = fmt.Sprint(value)
			}
		}
		fmt.Fprintf(table, "   %s\n", strings.Join(cells, "\t"))
		return strings.Join(cells, " "), nil
	})
	if err != nil {
		return "", fmt.Errorf("audit: %w", err)
	}
	return strings.Join(lines, ", "), table.Flush()
}
