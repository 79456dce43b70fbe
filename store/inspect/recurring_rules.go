package inspect

import (
	"context"

	"github.com/tasktable/tasktable/store"
	"github.com/tasktable/tasktable/store/calendars"
	"github.com/tasktable/tasktable/store/internal/query"
	"github.com/tasktable/tasktable/store/recurrence"
)

// readCalendars reads the days of the calendars of all tasks, by one statement.
func (i *Inspector) readCalendars(ctx context.Context, db store.DB, tasks []RecurringTask) error {
	of := make([]calendars.Of, len(tasks))
	for at, task := range tasks {
		of[at] = task.rulesOf()
	}
	book, err := calendars.Read(ctx, db, i.source.Schema, of...)
	for at := range tasks {
		tasks[at].book = book
	}
	return err
}

func (t RecurringTask) rulesOf() calendars.Of {
	return calendars.Of{Cron: t.Cron, TimeZone: t.TimeZone, TenantID: query.OrEmpty(t.TenantID)}
}

// Rule returns the task's rule with the days that its calendars had when the task was read. The error wraps
// recurrence.ErrInvalid if the expression or the zone cannot be read.
func (t RecurringTask) Rule() (*recurrence.Rule, error) { return t.book.Rule(t.rulesOf(), nil) }

// ruleOf returns the rule of a task's row, with the days of its calendars.
func (i *Inspector) ruleOf(ctx context.Context, db store.DB, row store.Row) (*recurrence.Rule, error) {
	return i.tasks.ForTenant(query.OrEmpty(row.TenantID)).Rule(ctx, db, *row.Cron, query.OrEmpty(row.TimeZone))
}
