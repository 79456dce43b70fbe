package store

import (
	"context"
	"fmt"

	"github.com/tasktable/tasktable/store/internal/check"
	"github.com/tasktable/tasktable/store/internal/query"
)

// Erasure is what Erase removed.
type Erasure struct {
	Tasks      int64
	Executions int64
	Changes    int64
	Running    int64 // tasks that were cancelled but still run: erase again when they have ended
}

const eraseSQL = `SELECT tasks, executions, changes, running FROM tasktable.erase($1::text, $2::text)`

// EraseEntity removes all tasks of an entity with their history, also that of tasks that were deleted, or became
// another's, before. Running ones are cancelled and left: erase again when they have ended.
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
	rows, err := query.Collect[Erasure](ctx, s.source, db, "erase "+field+" "+value, eraseSQL, entity, tenantID)
	if err != nil {
		return Erasure{}, err
	}
	return rows[0], nil
}
