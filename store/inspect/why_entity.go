package inspect

import (
	"context"
	"fmt"
	"slices"

	"github.com/tasktable/tasktable/store"
	"github.com/tasktable/tasktable/store/internal/check"
)

// WhyEntity is Why for the tasks of an entity, by scheduled_at, the earliest first. Of more than limit tasks it tells
// the latest. The limit is 1 to 100, because each task costs as many queries as Why does. A deleted task is not among
// them. An entity without tasks has an empty list and no error.
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

// maxExplained is how many tasks of an entity are explained at once.
const maxExplained = 100
