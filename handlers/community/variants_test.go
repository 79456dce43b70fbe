package community_test

import (
	"slices"
	"testing"

	"github.com/tasktable/tasktable/handlers"
	"github.com/tasktable/tasktable/handlers/community"
	"github.com/tasktable/tasktable/handlers/community/contract"
	"github.com/tasktable/tasktable/handlers/email"
	"github.com/tasktable/tasktable/store"
)

// A variant added to the contract fails this until it has a handler, and one removed until its handler is removed.
func TestEachVariantHasAHandler(t *testing.T) {
	t.Parallel()
	mail, err := email.Variant(email.Config{Host: "smtp.example.org", From: "events@example.org"})
	if err != nil {
		t.Fatal(err)
	}
	for name, part := range map[string]handlers.Part{"SMTP": mail, "outbox": community.Outbox()} {
		registry, err := handlers.NewRegistry(community.Variants(community.New(store.New(store.Config{})), part)...)
		if err != nil {
			t.Fatal(err)
		}
		var types []string
		for _, payload := range contract.All() {
			types = append(types, payload.TaskType())
		}
		slices.Sort(types)
		if got := registry.Types(); !slices.Equal(got, types) {
			t.Errorf("%s: handlers for %q, the contract has %q", name, got, types)
		}
	}
}
