package inspect_test

import (
	"encoding/base64"
	"errors"
	"testing"
	"time"

	"github.com/tasktable/tasktable/store"
	"github.com/tasktable/tasktable/store/inspect"
)

func TestCursor(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 11, 21, 18, 0, 0, 123456000, time.UTC)
	for _, row := range []store.Row{{ID: "a", ScheduledAt: at}, {ID: "ä/?#", ScheduledAt: at, FinishedAt: &at}} {
		got, err := inspect.DecodeCursor(inspect.EncodeCursor(row))
		if err != nil || got.ID != row.ID || !got.ScheduledAt.Equal(at) || (got.FinishedAt == nil) != (row.FinishedAt == nil) {
			t.Errorf("%+v becomes %+v, %v", row, got, err)
		}
	}
	for _, text := range []string{"", "x", "%", base64.RawURLEncoding.EncodeToString([]byte(`{"s": "2026-11-21T18:00:00Z"}`)),
		base64.RawURLEncoding.EncodeToString([]byte(`{"i": "a\u0000"}`))} {
		if got, err := inspect.DecodeCursor(text); !errors.Is(err, store.ErrInvalid) {
			t.Errorf("%q: %+v, %v", text, got, err)
		}
	}
}
