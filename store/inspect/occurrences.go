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
	Message   *string   `json:"message,omitempty"`
	CreatedAt time.Time `json:"-"`
}

// The greatest arguments of Occurrences.
const (
	MaxOccurrences       = 10000
	MaxOccurrenceParents = 1000
)

const occurrenceSQL = `
    SELECT t.id, t.parent_id, t.status, t.scheduled_at, t.started_at, t.finished_at, t.message, t.created_at
    FROM tasktable.scheduled_tasks AS t `

const occurrencesSQL = `
SELECT one.*
FROM jsonb_array_elements_text($1::text::jsonb) WITH ORDINALITY AS parent (id, place) CROSS JOIN LATERAL (` +
	occurrenceSQL + `WHERE t.parent_id = parent.id
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

// Beside has the occurrences next to a given one. A field is nil if there is none.
type Beside struct {
	Previous *Occurrence `json:"previous,omitempty"`
	Next     *Occurrence `json:"next,omitempty"`
}

const besideSQL = `
(` + occurrenceSQL + `WHERE t.parent_id = $1::text AND t.scheduled_at <= $2::text::timestamptz
        AND (t.scheduled_at::timestamptz, t.id::text COLLATE "C") < ($2::text::timestamptz, $3::text)
    ORDER BY t.scheduled_at DESC, t.id::text COLLATE "C" DESC LIMIT 1)
UNION ALL
(` + occurrenceSQL + `WHERE t.parent_id = $1::text AND t.scheduled_at >= $2::text::timestamptz
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
