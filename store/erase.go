package store

import (
	"context"
	"fmt"

	"github.com/tasktable/tasktable/store/internal/check"
	"github.com/tasktable/tasktable/store/internal/query"
)

// Erasure counts the rows that EraseEntity or EraseTenant removed.
type Erasure struct {
	Tasks      int64 // removed from scheduled_tasks
	Executions int64 // removed from scheduled_task_executions
	Changes    int64 // removed from scheduled_task_changes
	Running    int64 // tasks that were cancelled, but not removed, because a claim holds them
}

const eraseSQL = `SELECT tasks, executions, changes, running FROM tasktable.erase($1::text, $2::text)`

// EraseEntity removes all tasks of an entity and their history. It also removes the history of tasks that were
// deleted or given to another entity before. It cancels running tasks and does not remove them. If Erasure.Running is
// not 0, erase again when these tasks have ended.
func (s *Store) EraseEntity(ctx context.Context, db DB, entity string) (Erasure, error) {
	return s.erase(ctx, db, "entity", entity, &entity, nil)
}

// EraseTenant is EraseEntity for all tasks of a tenant.
func (s *Store) EraseTenant(ctx context.Context, db DB, tenantID string) (Erasure, error) {
	return s.erase(ctx, db, "tenant_id", tenantID, nil, &tenantID)
}

func (s *Store) erase(ctx context.Context, db DB, field, value string, entity, tenantID *string) (Erasure, error) {
	if err := check.Text(field, value); err != nil {
		return Erasure{}, fmt.Errorf("erase: %w", err)
	}
	if value == "" {
		return Erasure{}, fmt.Errorf("erase: %w", check.Invalid(field, "must be given", "an empty one"))
	}
	return query.One[Erasure](ctx, s.source, db, "erase "+field+" "+value, eraseSQL, entity, tenantID)
}
