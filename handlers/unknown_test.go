package handlers_test

import (
	"context"
	"testing"

	"github.com/tasktable/tasktable/handlers"
)

type spelt struct {
	Message string `json:"message"`
	Inner   struct {
		Count int `json:"count"`
	} `json:"inner"`
}

func (spelt) TaskType() string { return "SPELT" }

func TestUnknownField(t *testing.T) {
	t.Parallel()
	registry := registryOf(t,
		part[spelt](),
		handlers.Func("BARE", func(context.Context) error { return nil }))
	for _, c := range []struct{ taskType, payload, want string }{
		{"SPELT", `{"type": "SPELT", "message": "hi", "inner": {"count": 1}}`, ""},
		{"SPELT", `{"type": "SPELT", "mesage": "hi"}`, "mesage"},
		{"SPELT", `{"type": "SPELT", "inner": {"counts": 1}}`, "counts"},
		{"SPELT", `{"type": "SPELT", "message": 7}`, ""}, // another mistake, which the handler tells
		{"SPELT", `[]`, ""},
		{"BARE", `{"type": "BARE", "anything": 1}`, ""},
		{"OTHER", `{"type": "OTHER", "anything": 1}`, ""},
	} {
		if got := registry.UnknownField(c.taskType, []byte(c.payload)); got != c.want {
			t.Errorf("%s: %q, want %q", c.payload, got, c.want)
		}
	}
}
