package handlers_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/tasktable/tasktable/handlers"
)

// FuzzDecode: whatever the payload, it is decoded or the task fails for good, with a text that shows no value. The
// value stands in each field in turn.
func FuzzDecode(f *testing.F) {
	for _, seed := range []struct{ payload, value string }{
		{`{}`, ``}, {`null`, `"`}, {`[]`, `\`}, {`{"count":1e400}`, `\"`}, {`{"at":"2030-01-01T00:00:00Z"}`, `""`},
		{`{"quoted":"\"1\""}`, "\x00\n"},
		{`{"nested":{"a":1,"a":"b"}}`, `" as "`}, {`{"count":`, `"` + "\xff"}, {`{"COUNT":1,"Count":"x"}`, "7e7"},
		{`{"bytes":[256]}`, "…"},
	} {
		f.Add([]byte(seed.payload), seed.value)
	}
	registry := registryOf(f, part[strict]())
	variant := registry.Variant("STRICT")
	const mark = "cAnAry"
	f.Fuzz(func(t *testing.T, payload []byte, value string) {
		if err := variant.Run(context.Background(), &handlers.Execution{Payload: payload}); err != nil {
			var permanent *handlers.PermanentError
			if !errors.As(err, &permanent) || !strings.HasPrefix(err.Error(), "payload does not decode: ") {
				t.Errorf("%q: %v", payload, err)
			}
		}
		for _, field := range []string{"count", "at", "quoted", "number", "bytes", "byte", "nested", "own"} {
			for _, text := range []string{mark + value, value + mark, `"` + mark + value + `"`} {
				encoded, err := json.Marshal(map[string]any{field: text})
				if err != nil {
					t.Fatal(err)
				}
				err = variant.Run(context.Background(), &handlers.Execution{Payload: encoded})
				if err != nil && (strings.Contains(err.Error(), mark) || !utf8.ValidString(err.Error())) {
					t.Errorf("%s shows the value, or no UTF-8: %q", encoded, err.Error())
				}
			}
		}
	})
}
