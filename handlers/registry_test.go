package handlers_test

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tasktable/tasktable/handlers"
	"github.com/tasktable/tasktable/store"
)

type mail struct {
	To   string `json:"to"`
	Tags []int  `json:"tags"`
}

func (mail) TaskType() string { return "MAIL" }

// parcel is a payload by pointer.
type parcel struct {
	Weight float64 `json:"weight"`
}

func (*parcel) TaskType() string { return "PARCEL" }

// named has a name that depends on its value, which no zero value can tell.
type named struct{ Name *string }

func (n named) TaskType() string { return *n.Name }

type short struct{}

func (short) TaskType() string { return "x" }

func send(context.Context, *handlers.Task[mail]) error { return nil }

func nothing(context.Context) error { return nil }

// part is a handler that does nothing.
func part[P store.Payload](options ...handlers.Option) handlers.Part {
	return handlers.Handle(func(context.Context, *handlers.Task[P]) error { return nil }, options...)
}

func registryOf(t testing.TB, parts ...handlers.Part) *handlers.Registry {
	t.Helper()
	registry, err := handlers.NewRegistry(parts...)
	if err != nil {
		t.Fatal(err)
	}
	return registry
}

func TestRegistryRefuses(t *testing.T) {
	t.Parallel()
	var noVariant *handlers.Variant
	for name, test := range map[string]struct {
		parts []handlers.Part
		want  []string
	}{
		"nothing":          {nil, []string{"needs at least one variant"}},
		"middleware alone": {[]handlers.Part{handlers.Use()}, []string{"needs at least one variant"}},
		"a duplicate": {[]handlers.Part{part[mail](), handlers.Func("OTHER", nothing), handlers.Func("MAIL", nothing)},
			[]string{`type "MAIL" has two handlers`}},
		"an empty type": {[]handlers.Part{handlers.Func("", nothing)},
			[]string{`type must be 2 to 127 letters`, `got ""`}},
		"a short type":        {[]handlers.Part{part[short]()}, []string{`got "x"`}},
		"a type with a space": {[]handlers.Part{handlers.Func("TWO WORDS", nothing)}, []string{`got "TWO WORDS"`}},
		"a long type": {[]handlers.Part{handlers.Func(strings.Repeat("X", 128), nothing)},
			[]string{"type must be 2 to 127 letters"}},
		"a type without a name":    {[]handlers.Part{part[named]()}, []string{`got ""`}},
		"an interface for payload": {[]handlers.Part{part[store.Payload]()}, []string{`got ""`}},
		"nil":                      {[]handlers.Part{handlers.Handle(send), nil}, []string{"argument 2 is nil"}},
		"a nil variant":            {[]handlers.Part{noVariant}, []string{"argument 1 is nil"}},
		"a nil handler": {[]handlers.Part{handlers.Handle[mail](nil)},
			[]string{`handler of type "MAIL" is nil`}},
		"a nil HandleTx": {[]handlers.Part{handlers.HandleTx[mail](nil)},
			[]string{`handler of type "MAIL" is nil`}},
		"a nil HandleSQLTx": {[]handlers.Part{handlers.HandleSQLTx[mail](nil)},
			[]string{`handler of type "MAIL" is nil`}},
		"a nil Func": {[]handlers.Part{handlers.Func("CLEANUP", nil)}, []string{`handler of type "CLEANUP" is nil`}},
		"nil middleware": {[]handlers.Part{handlers.Handle(send), handlers.Use(nil)},
			[]string{"middleware 1 is nil"}},
		"nil middleware of one": {[]handlers.Part{handlers.Handle(send, handlers.Use(nil))},
			[]string{`type "MAIL"`, "middleware 1 is nil"}},
		"several at once": {
			[]handlers.Part{handlers.Func("", nothing), part[mail](), part[mail](), handlers.Func("?", nothing)},
			[]string{`got ""`, `"MAIL" has two`, `got "?"`},
		},
	} {
		registry, err := handlers.NewRegistry(test.parts...)
		if registry != nil || !errors.Is(err, store.ErrInvalid) {
			t.Errorf("%s: %v, %v", name, registry, err)
			continue
		}
		for _, want := range test.want {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("%s: %v, want %q", name, err, want)
			}
		}
	}
}

func TestRegistryKnowsItsTypes(t *testing.T) {
	t.Parallel()
	registry := registryOf(t, handlers.Handle(send), handlers.Func("a.b/c:d+e-[f]<g>", nothing),
		handlers.HandleTx(func(context.Context, pgx.Tx, *handlers.Task[*parcel]) error { return nil }))
	if got := fmt.Sprint(registry.Types()); got != "[MAIL PARCEL a.b/c:d+e-[f]<g>]" {
		t.Errorf("types %s", got)
	}
	if registry.Variant("UNKNOWN") != nil || registry.Variant("") != nil {
		t.Error("a variant of a type that nobody handles")
	}
	if got := registry.Missing(
		mail{}, short{}, &parcel{}, store.JSON(`{"type":"OTHER"}`),
	); !reflect.DeepEqual(got, []string{"x", "OTHER"}) {
		t.Errorf("missing %q", got)
	}
	if got := registry.Missing(); got != nil {
		t.Errorf("missing %q of nothing", got)
	}
}

func TestPayloadIsDecoded(t *testing.T) {
	t.Parallel()
	var got mail
	var seen *handlers.Execution
	var weight float64
	registry := registryOf(t,
		handlers.Handle(func(_ context.Context, task *handlers.Task[mail]) error {
			got, seen = task.Payload, task.Execution
			task.Payload.Tags = append(task.Payload.Tags, 7) // the next attempt has its own
			return nil
		}),
		handlers.Handle(func(_ context.Context, task *handlers.Task[*parcel]) error {
			weight = task.Payload.Weight
			return nil
		}))
	run := func(kind, payload string) error {
		t.Helper()
		got, weight = mail{}, 0
		return registry.Variant(kind).Run(t.Context(), &handlers.Execution{
			ID: "a", Type: kind, Payload: json.RawMessage(payload),
		})
	}
	for _, payload := range []string{
		`{"type":"MAIL","to":"you","tags":[1,2]}`,
		`{"type":"MAIL","to":"you","tags":[1,2],"from another version":{"of":"the program"}}`,
		`{"TO":"you","tags":[1,2]}`,
	} {
		if err := run("MAIL", payload); err != nil || !reflect.DeepEqual(got, mail{"you", []int{1, 2}}) ||
			seen.ID != "a" {
			t.Errorf("%s: %+v, %v", payload, got, err)
		}
	}
	if err := run("PARCEL", `{"type":"PARCEL","weight":1.5}`); err != nil || weight != 1.5 {
		t.Errorf("weight %v, %v", weight, err)
	}
	for _, payload := range []string{`{"to":7}`, `{"tags":"none"}`, `[]`, `7`, `{"to":`, ``} {
		err := run("MAIL", payload)
		var permanent *handlers.PermanentError
		if !errors.As(err, &permanent) || !strings.HasPrefix(err.Error(), "payload does not decode: ") {
			t.Errorf("%s: %v, want a permanent error", payload, err)
		}
	}
}

// Each kind of handler gets its transaction, and its error comes back as it is.
func TestKinds(t *testing.T) {
	t.Parallel()
	errNo := errors.New("no")
	registry := registryOf(t,
		handlers.Handle(func(context.Context, *handlers.Task[mail]) error { return errNo }),
		handlers.HandleTx(func(_ context.Context, tx pgx.Tx, task *handlers.Task[*parcel]) error {
			return fmt.Errorf("%v %v: %w", tx, task.Payload.Weight, errNo)
		}),
		handlers.HandleSQLTx(func(_ context.Context, tx *sql.Tx, _ *handlers.Task[SendEventReminder]) error {
			return fmt.Errorf("%t: %w", tx == nil, errNo)
		}),
		handlers.Func("CLEANUP", func(context.Context) error { return errNo }))
	ran := func(kind string) *handlers.Execution {
		return &handlers.Execution{ID: "a", Type: kind, Payload: json.RawMessage(`{"weight":2}`)}
	}
	for name, test := range map[string]struct {
		kind handlers.Kind
		err  error
		text string
	}{
		"MAIL":    {handlers.KindPlain, registry.Variant("MAIL").Run(t.Context(), ran("MAIL")), "no"},
		"CLEANUP": {handlers.KindPlain, registry.Variant("CLEANUP").Run(t.Context(), ran("CLEANUP")), "no"},
		"PARCEL":  {handlers.KindTx, registry.Variant("PARCEL").RunTx(t.Context(), nil, ran("PARCEL")), "<nil> 2: no"},
		"SEND_EVENT_REMINDER": {
			handlers.KindSQLTx,
			registry.Variant("SEND_EVENT_REMINDER").RunSQLTx(t.Context(), nil, ran("SEND_EVENT_REMINDER")), "true: no",
		},
	} {
		if variant := registry.Variant(name); variant.Kind != test.kind || variant.Type != name {
			t.Errorf("%s: kind %d of %s", name, variant.Kind, variant.Type)
		}
		if !errors.Is(test.err, errNo) || test.err.Error() != test.text {
			t.Errorf("%s: %v, want %s", name, test.err, test.text)
		}
	}
}

func TestMiddlewareOrder(t *testing.T) {
	t.Parallel()
	var said []string
	say := func(word string) handlers.Middleware {
		return func(next handlers.Handler) handlers.Handler {
			return func(ctx context.Context, e *handlers.Execution) error {
				said = append(said, word)
				err := next(ctx, e)
				said = append(said, "/"+word)
				return err
			}
		}
	}
	note := func(context.Context) error { said = append(said, "handler"); return nil }
	shared := handlers.Func("SHARED", note, handlers.Use(say("own 1")), handlers.Use(say("own 2")))
	first := registryOf(
		t, handlers.Use(say("all 1"), say("all 2")), shared, handlers.Func("OTHER", note), handlers.Use(say("all 3")),
	)
	second := registryOf(t, shared) // the same variant, without what the first lays around it
	for _, test := range []struct {
		registry *handlers.Registry
		kind     string
		want     string
	}{
		{first, "SHARED", "all 1 all 2 all 3 own 1 own 2 handler /own 2 /own 1 /all 3 /all 2 /all 1"},
		{first, "OTHER", "all 1 all 2 all 3 handler /all 3 /all 2 /all 1"},
		{second, "SHARED", "own 1 own 2 handler /own 2 /own 1"},
		{first, "SHARED", "all 1 all 2 all 3 own 1 own 2 handler /own 2 /own 1 /all 3 /all 2 /all 1"},
	} {
		said = nil
		if err := test.registry.Variant(test.kind).Run(t.Context(), &handlers.Execution{}); err != nil {
			t.Fatal(err)
		}
		if got := strings.Join(said, " "); got != test.want {
			t.Errorf("%s: %s, want %s", test.kind, got, test.want)
		}
	}
}

// Middleware sees each kind of handler alike, and may change the context, the payload and the error.
func TestMiddlewareChangesWhatItPasses(t *testing.T) {
	t.Parallel()
	type key struct{}
	change := func(next handlers.Handler) handlers.Handler {
		return func(ctx context.Context, e *handlers.Execution) error {
			e.Payload = json.RawMessage(`{"to":"the middleware"}`)
			if err := next(context.WithValue(ctx, key{}, "value"), e); err != nil {
				return fmt.Errorf("changed: %w", err)
			}
			return errors.New("not even an error")
		}
	}
	check := func(ctx context.Context, to string) error {
		if ctx.Value(key{}) == "value" && to == "the middleware" {
			return errors.New("as changed")
		}
		return nil
	}
	registry := registryOf(t, handlers.Use(change),
		handlers.Handle(func(ctx context.Context, task *handlers.Task[mail]) error {
			return check(ctx, task.Payload.To)
		}))
	if err := registry.Variant("MAIL").Run(
		t.Context(), &handlers.Execution{Payload: json.RawMessage(`{}`)},
	); err == nil || err.Error() != "changed: as changed" {
		t.Errorf("error %v", err)
	}
}

func TestWithBackoff(t *testing.T) {
	t.Parallel()
	registry := registryOf(
		t, handlers.Handle(send),
		handlers.Func("SLOW", nothing, handlers.WithBackoff(func(attempt int, err error) time.Duration {
			return time.Duration(attempt) * time.Duration(len(err.Error()))
		})),
	)
	if registry.Variant("MAIL").Backoff != nil {
		t.Error("a backoff that nobody gave")
	}
	if got := registry.Variant("SLOW").Backoff(3, errors.New("four")); got != 12 {
		t.Errorf("backoff %d", got)
	}
}

// defaulting is a payload with defaults.
type defaulting struct{ N int }

func (*defaulting) TaskType() string             { return "DEFAULTING" }
func (*defaulting) TaskDefaults() store.Defaults { return store.Defaults{MaxAttempts: 3} }

// wrongDefaults is a payload whose defaults break a rule.
type wrongDefaults struct{}

func (wrongDefaults) TaskType() string             { return "WRONG" }
func (wrongDefaults) TaskDefaults() store.Defaults { return store.Defaults{Backoff: "soon"} }

// A registry knows the defaults of its payloads, for each alias, too. It refuses wrong ones.
func TestDefaultsOfHandlers(t *testing.T) {
	t.Parallel()
	renamed := part[*defaulting](handlers.Alias("ALSO"))
	registry := registryOf(t, renamed, handlers.Func("OTHER", nothing))
	if got := fmt.Sprint(registry.Defaults()); got != fmt.Sprint([]store.Defaults{
		{Type: "ALSO", MaxAttempts: 3}, {Type: "DEFAULTING", MaxAttempts: 3}}) {
		t.Errorf("defaults %s", got)
	}
	_, err := handlers.NewRegistry(part[wrongDefaults]())
	if !errors.Is(err, store.ErrInvalid) || !strings.Contains(err.Error(), `TaskDefaults of type "WRONG": invalid: backoff must be`) {
		t.Errorf("wrong defaults: %v", err)
	}
}
