package rules_test

import (
	"encoding/json"
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/tasktable/tasktable/handlers/notice/rules"
	"github.com/tasktable/tasktable/store"
	"github.com/tasktable/tasktable/store/storetest"
	"github.com/tasktable/tasktable/store/storetest/leaks"
)

func TestMain(m *testing.M) { storetest.Main(m, leaks.Check) }

// What is written is read again, as Go and as JSON.
func TestRulesAreReadAsWritten(t *testing.T) {
	t.Parallel()
	pool, all := storetest.Pool(t), rules.New(rules.Config{})
	recipients := []rules.Recipient{
		{Name: "ann", Email: "ann@example.org", Events: []rules.Event{rules.Failed}},
		{Name: "ops", Target: "pager"},
	}
	for _, one := range recipients {
		for _, want := range []string{rules.Created, rules.Updated} {
			if outcome, err := all.SetRecipient(t.Context(), pool, one); err != nil || outcome != want {
				t.Fatalf("%s: %q, %v", one.Name, outcome, err)
			}
		}
	}
	given := []rules.Rule{
		{Name: "all", Events: rules.Events(), Types: []string{"A1", "B1"}, Queues: []string{"mail"}, Tenants: []string{"acme"},
			Entities: []string{"order:7"}, Recipients: []string{"ann", "ops"}, Digest: time.Hour, After: 26 * time.Hour,
			WithoutDetails: true, Disabled: true},
		{Name: "least", Events: []rules.Event{rules.Lost}, Recipients: []string{"ops"}, Digest: rules.AtOnce,
			After: rules.DefaultAfter},
	}
	for _, one := range given {
		for _, want := range []string{rules.Created, rules.Updated} {
			if outcome, err := all.Set(t.Context(), pool, one); err != nil || outcome != want {
				t.Fatalf("%s: %q, %v", one.Name, outcome, err)
			}
		}
	}
	got, err := all.List(t.Context(), pool)
	if err != nil || !reflect.DeepEqual(got, given) {
		t.Errorf("rules %+v, %v", got, err)
	}
	encoded, _ := json.Marshal(given)
	if err := json.Unmarshal(encoded, &got); err != nil || !reflect.DeepEqual(got, given) {
		t.Errorf("rules %+v, %v", got, err)
	}
	read, err := all.Recipients(t.Context(), pool)
	if err != nil || !reflect.DeepEqual(read, recipients) {
		t.Errorf("recipients %+v, %v", read, err)
	}
	if err := all.RemoveRecipient(t.Context(), pool, "ops"); !errors.Is(err, rules.ErrInUse) {
		t.Errorf("removed a recipient that is in use: %v", err)
	}
	if err := errors.Join(all.Remove(t.Context(), pool, "all"), all.RemoveRecipient(t.Context(), pool, "ann")); err != nil {
		t.Error(err)
	}
	if err := all.Remove(t.Context(), pool, "all"); !errors.Is(err, rules.ErrUnknown) {
		t.Errorf("removed twice: %v", err)
	}
}

// A bad rule is refused, whether by Go or by Postgres, and changes nothing.
func TestABadRuleIsRefused(t *testing.T) {
	t.Parallel()
	pool, all := storetest.Pool(t), rules.New(rules.Config{})
	if _, err := all.SetRecipient(t.Context(), pool, rules.Recipient{Name: "ops", Target: "ops"}); err != nil {
		t.Fatal(err)
	}
	for want, change := range map[string]func(r *rules.Rule){
		"name must be 1 to 63 letters":      func(r *rules.Rule) { r.Name = "a/b" },
		"events must have one or more of":   func(r *rules.Rule) { r.Events = nil },
		"events must be of failed, expired": func(r *rules.Rule) { r.Events = []rules.Event{"dead"} },
		"recipients must have one or more":  func(r *rules.Rule) { r.Recipients = nil },
		"one of them is empty":              func(r *rules.Rule) { r.Recipients = []string{"ops", ""} },
		"there is no nobody":                func(r *rules.Rule) { r.Recipients = []string{"nobody"} },
		"types: ":                           func(r *rules.Rule) { r.Types = []string{"a b"} },
		"queues: ":                          func(r *rules.Rule) { r.Queues = []string{"A"} },
		"tenants must have at most 100":     func(r *rules.Rule) { r.Tenants = []string{""} },
		"tenant_id must be 1 to 512 bytes":  func(r *rules.Rule) { r.Tenants = []string{"a\nb"} },
		"entity must be 1 to 512 bytes":     func(r *rules.Rule) { r.Entities = []string{strings.Repeat("e", 513)} },
		"digest must be whole seconds":      func(r *rules.Rule) { r.Digest = time.Millisecond },
		"digest must be whole seconds from": func(r *rules.Rule) { r.Digest = 169 * time.Hour },
		"after must be whole seconds":       func(r *rules.Rule) { r.After = -time.Second },
	} {
		rule := rules.Rule{Name: "dead", Events: []rules.Event{rules.Failed}, Recipients: []string{"ops"}}
		change(&rule)
		if _, err := all.Set(t.Context(), pool, rule); !errors.Is(err, store.ErrInvalid) || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %s", err, want)
		}
	}
	for want, one := range map[string]rules.Recipient{
		"name must be 1 to 63 letters":   {Name: "", Target: "ops"},
		"must have either an email":      {Name: "a"},
		"must have either an email or a": {Name: "a", Email: "a@b", Target: "ops"},
		"target must be 1 to 63 letters": {Name: "a", Target: "https://example.org/secret"},
		"email must be one address":      {Name: "a", Email: "a@b, c@d"},
		"events must be of failed":       {Name: "a", Email: "a@b", Events: []rules.Event{"x"}},
	} {
		if _, err := all.SetRecipient(t.Context(), pool, one); !errors.Is(err, store.ErrInvalid) ||
			!strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %s", err, want)
		}
	}
	got, err := all.List(t.Context(), pool)
	read, errRead := all.Recipients(t.Context(), pool)
	if len(got) != 0 || len(read) != 1 || err != nil || errRead != nil {
		t.Errorf("rules %+v, recipients %+v, %v, %v", got, read, err, errRead)
	}
}
