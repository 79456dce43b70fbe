package inspect

import (
	"context"
	"fmt"

	"github.com/tasktable/tasktable/store"
	"github.com/tasktable/tasktable/store/internal/check"
	"github.com/tasktable/tasktable/store/internal/query"
)

// Beside has the occurrences next to a given one. A field is nil if there is none.
type Beside struct {
	Previous *Occurrence `json:"previous,omitempty"`
	Next     *Occurrence `json:"next,omitempty"`
}

const besideSQL = `
(SELECT t.id, t.parent_id, t.status, t.scheduled_at, t.started_at, t.finished_at, t.message
    FROM tasktable.scheduled_tasks AS t
    WHERE t.parent_id = $1::text AND t.scheduled_at <= $2::text::timestamptz
        AND (t.scheduled_at::timestamptz, t.id::text COLLATE "C") < ($2::text::timestamptz, $3::text)
    ORDER BY t.scheduled_at DESC, t.id::text COLLATE "C" DESC LIMIT 1)
UNION ALL
(SELECT t.id, t.parent_id, t.status, t.scheduled_at, t.started_at, t.finished_at, t.message
    FROM tasktable.scheduled_tasks AS t
    WHERE t.parent_id = $1::text AND t.scheduled_at >= $2::text::timestamptz
        AND (t.scheduled_at::timestamptz, t.id::text COLLATE "C") > ($2::text::timestamptz, $3::text)
    ORDER BY t.scheduled_at, t.id::text COLLATE "C" LIMIT 1)`

// Beside finds the occurrences before and after an occurrence, by their scheduled_at. For a task that is no occurrence
// it finds none.
func (i *Inspector) Beside(ctx context.Context, db store.DB, row store.Row) (beside Beside, err error) {
	if row.ParentID == nil {
		return beside, nil
	}
	at, err := check.TimeText("scheduled_at", row.ScheduledAt)
	if err != nil {
		return beside, fmt.Errorf("occurrences beside %s: %w", row.ID, err)
	}
	found, err := query.Collect[Occurrence](ctx, i.source, db, "find the occurrences beside "+row.ID, besideSQL,
		*row.ParentID, at, row.ID)
	for _, one := range found {
		if one.ScheduledAt.Before(row.ScheduledAt) || one.ScheduledAt.Equal(row.ScheduledAt) && one.ID < row.ID {
			beside.Previous = &one
		} else {
			beside.Next = &one
		}
	}
	return beside, err
}
