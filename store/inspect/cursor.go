package inspect

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"time"

	"github.com/tasktable/tasktable/store"
	"github.com/tasktable/tasktable/store/internal/check"
)

// cursor is the place at which a page ended.
type cursor struct {
	ID          string     `json:"i"`
	ScheduledAt time.Time  `json:"s"`
	FinishedAt  *time.Time `json:"f,omitempty"`
}

// EncodeCursor writes the place after a task in a list as one word, so that a client can continue the list without
// knowing its fields.
func EncodeCursor(row store.Row) string {
	encoded, err := json.Marshal(cursor{row.ID, row.ScheduledAt, row.FinishedAt})
	if err != nil {
		return "" // a year beyond 9999, which the database refuses
	}
	return base64.RawURLEncoding.EncodeToString(encoded)
}

// DecodeCursor reads a word of EncodeCursor. It returns the Filter.After with which the list continues. The error wraps
// store.ErrInvalid.
func DecodeCursor(text string) (*store.Row, error) {
	var at cursor
	decoded, err := base64.RawURLEncoding.DecodeString(text)
	if err == nil {
		err = json.Unmarshal(decoded, &at)
	}
	if err == nil && at.ID != "" {
		err = check.Text("id", at.ID)
	}
	if err != nil || at.ID == "" {
		return nil, fmt.Errorf("read a cursor: %w",
			check.Invalid("cursor", "must be that of a page before", "another text"))
	}
	return &store.Row{ID: at.ID, ScheduledAt: at.ScheduledAt, FinishedAt: at.FinishedAt}, nil
}
