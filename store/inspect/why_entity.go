package inspect

import (
	"context"
	"fmt"
	"slices"

	"github.com/tasktable/tasktable/store"
	"github.com/tasktable/tasktable/store/internal/check"
)

// WhyEntity is Why for the tasks of an entity. The explanations are sorted by scheduled_at, the earliest first. If
// the entity has more tasks than limit, they are those of the latest tasks. limit is from 1 to 100, because each task
// costs as many queries as Why does. Deleted tasks are not among them. If an entity has no tasks, WhyEntity returns
// an empty list and no error.
func (i *Inspector) WhyEntity(ctx context.Context, db store.DB, entity string, limit int) ([]Explanation, error) {
	switch {
	case entity == "":
		return nil, fmt.Errorf("why: %w", check.Invalid("entity", "must be given", "an empty one"))
	case limit < 1 || limit > maxExplained:
		return nil, fmt.Errorf("why: %w", check.Invalid("limit", fmt.Sprintf("must be between 1 and %d", maxExplained),
			limit))
	}
	rows, err := i.List(ctx, db, Filter{Entity: entity, LatestFirst: true, Limit: limit})
	if err != nil {
		return nil, err
	}
	explained := make([]Explanation, 0, len(rows))
	for _, row := range slices.Backward(rows) {
		e, err := i.Why(ctx, db, row.ID)
		if err != nil {
			return nil, fmt.Errorf("why, of entity %s: %w", entity, err)
		}
		explained = append(explained, e)
	}
	return explained, nil
}

// maxExplained is the greatest number of tasks that WhyEntity explains at once.
const maxExplained = 100
