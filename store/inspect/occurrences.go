package inspect

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"time"

	"github.com/tasktable/tasktable/store"
	"github.com/tasktable/tasktable/store/internal/check"
	"github.com/tasktable/tasktable/store/internal/query"
)

// Occurrence is the task of one fire of a recurring task.
type Occurrence struct {
	ID          string       `json:"id"`
	ParentID    string       `json:"parent_id"`
	Status      store.Status `json:"status"`
	ScheduledAt time.Time    `json:"scheduled_at"` // the time of the fire
	StartedAt   *time.Time   `json:"started_at,omitempty"`
	FinishedAt  *time.Time   `json:"finished_at,omitempty"`
	// Message is the last error, or the note of the handler. Of a SKIPPED occurrence it is the reason.
	Message *string `json:"message,omitempty"`
}

// The greatest arguments of Occurrences.
const (
	MaxOccurrences       = 10000
	MaxOccurrenceParents = 1000
)

const occurrencesSQL = `
SELECT one.id, parent.id AS parent_id, one.status, one.scheduled_at, one.started_at, one.finished_at, one.message
FROM jsonb_array_elements_text($1::text::jsonb) WITH ORDINALITY AS parent (id, place) CROSS JOIN LATERAL (
    SELECT t.id, t.status, t.scheduled_at, t.started_at, t.finished_at, t.message
    FROM tasktable.scheduled_tasks AS t WHERE t.parent_id = parent.id
    ORDER BY t.scheduled_at DESC LIMIT $2::text::int
) AS one
ORDER BY parent.place, one.scheduled_at DESC, one.id::text COLLATE "C" DESC`

// Occurrences lists the newest occurrences of recurring tasks, at most `most` of each. most times the number of
// parents is at most MaxOccurrences. The list has the tasks in the order of parents, and the newest occurrence of each
// first. Occurrences of a task that is gone are included.
func (i *Inspector) Occurrences(
	ctx context.Context, db store.DB, most int, parents ...string,
) ([]Occurrence, error) {
	if len(parents) == 0 {
		return nil, nil
	}
	if len(parents) > MaxOccurrenceParents || most < 1 || most*len(parents) > MaxOccurrences {
		return nil, fmt.Errorf("occurrences: %w", check.Invalid("most",
			fmt.Sprintf("must be between 1 and %d for all recurring tasks together", MaxOccurrences), most))
	}
	for _, id := range parents {
		if err := check.ID(id); err != nil {
			return nil, fmt.Errorf("occurrences: %w", err)
		}
	}
	encoded, err := json.Marshal(parents)
	if err != nil {
		return nil, fmt.Errorf("occurrences: %w", err)
	}
	return query.Collect[Occurrence](ctx, i.source, db, "list occurrences", occurrencesSQL, string(encoded),
		strconv.Itoa(most))
}
