package statement_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tasktable/tasktable/handlers"
	"github.com/tasktable/tasktable/handlers/statement"
	"github.com/tasktable/tasktable/handlers/statement/contract"
	"github.com/tasktable/tasktable/scheduled/scheduledtest"
	"github.com/tasktable/tasktable/store"
	"github.com/tasktable/tasktable/store/storetest"
)

func TestNewRefuses(t *testing.T) {
	t.Parallel()
	age := map[string]string{"age": "interval"}
	for _, test := range []struct {
		given statement.Statement
		want  string
	}{
		{statement.Statement{}, "sql must be one statement"},
		{statement.Statement{SQL: " \n"}, "sql must be one statement"},
		{statement.Statement{SQL: "-- why\n/* so */ Commit"}, "sql must not begin with COMMIT"},
		{statement.Statement{SQL: "VACUUM sessions"}, "sql must not begin with VACUUM, which Postgres refuses"},
		{statement.Statement{SQL: "copy a from stdin"}, "sql must not begin with COPY"},
		{statement.Statement{SQL: "SELECT @age"}, "params must have the type of each @name in sql, which has @age"},
		{statement.Statement{SQL: "SELECT 1", Params: age}, "params.age is not in sql, where it would be @age"},
		{statement.Statement{SQL: "SELECT '@age'", Params: age}, "params.age is not in sql"},
		{statement.Statement{SQL: "SELECT @age", Params: map[string]string{"age": "varchar"}},
			"params.age must be one of bigint, bigint[], boolean, date, interval"},
		{statement.Statement{SQL: "SELECT 1", Role: strings.Repeat("a", 64)}, "role must be a name of at most 63 bytes"},
		{statement.Statement{SQL: "SELECT 1", Timeout: time.Millisecond}, "timeout must be from 100ms to 24h0m0s"},
		{statement.Statement{SQL: "SELECT 1", Rows: 1001}, "rows must be from 0 to 1000"},
	} {
		_, err := statement.New(statement.Config{Statements: map[string]statement.Statement{"test": test.given}})
		if err == nil || !errors.Is(err, store.ErrInvalid) || !strings.Contains(err.Error(), ": statements.test."+test.want) {
			t.Errorf("%+v: %v, want %s", test.given, err, test.want)
		}
	}
	for want, config := range map[string]statement.Config{
		"statements must be 1 to 500":      {},
		`statements: "Old" must be a name`: {Statements: map[string]statement.Statement{"Old": {SQL: "SELECT 1"}}},
	} {
		if _, err := statement.New(config); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %s", err, want)
		}
	}
}

func TestCheckJSON(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		`{"type": "RUN_SQL", "statement": "old", "params": {"age": "7 days"}}`: "",
		`{"type": "RUN_SQL:old"}`:                       "",
		`{"type": "RUN_SQL:old", "statement": "other"}`: "payload field statement must be absent or",
		`{"type": "RUN_SQL"}`:                           "payload field statement must be a name",
		`{"statement": "DROP TABLE"}`:                   "payload field statement must be a name",
		`{"statement": "old", "params": []}`:            "payload field params must not be a JSON array",
		`{"statement": "old", "sql": "DROP"}`:           `payload field "sql" is not known; the fields are params, statement`,
		`7`:                                             "payload must be a JSON object",
	} {
		if err := contract.CheckJSON([]byte(text)); (err == nil) != (want == "") ||
			err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
	task := store.Task{Payload: contract.RunSQL{Statement: "DROP TABLE"}}
	if err := task.Check(); !errors.Is(err, store.ErrInvalid) || !strings.Contains(err.Error(), "payload field statement") {
		t.Errorf("got %v", err)
	}
}

// Each type takes its values as Postgres means them, and refuses others before anything runs.
func TestParams(t *testing.T) {
	t.Parallel()
	tx, err := storetest.Pool(t).Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tx.Rollback(t.Context()) }()
	for _, test := range []struct {
		kind, value string
		want        string // as Postgres writes it; "": refused
	}{
		{"text", `"it's; -- ü"`, "it's; -- ü"}, {"text", `5`, ""}, {"text", `"\u0000"`, ""}, {"text", `null`, ""},
		{"bigint", `9007199254740993`, "9007199254740993"}, {"bigint", `1.5`, ""}, {"bigint", `"1"`, ""},
		{"bigint", `1e3`, "1000"}, {"bigint", `9223372036854775808`, ""},
		{"numeric", `1234567890.0123456789`, "1234567890.0123456789"}, {"numeric", `"1"`, ""}, {"numeric", `true`, ""},
		{"boolean", `true`, "true"}, {"boolean", `false`, "false"}, {"boolean", `"true"`, ""}, {"boolean", `1`, ""},
		{"timestamptz", `"2027-01-31T09:30:00+02:00"`, "2027-01-31 07:30:00+00"}, {"timestamptz", `"yesterday"`, ""},
		{"date", `"2027-01-31"`, "2027-01-31"}, {"date", `"2027-02-31"`, ""}, {"date", `"today"`, ""},
		{"interval", `"30 days"`, "30 days"}, {"interval", `"1 hour 30 minutes"`, "01:30:00"}, {"interval", `"1 hours"`, "01:00:00"},
		{"interval", `"-1 day"`, ""}, {"interval", `30`, ""}, {"interval", `"1d"`, ""},
		{"uuid", `"7b7cf2b6-7d0c-4ff0-9d3c-0a3b2b1a4c5d"`, "7b7cf2b6-7d0c-4ff0-9d3c-0a3b2b1a4c5d"}, {"uuid", `"7"`, ""},
		{"jsonb", `{"a": [1, "ü"]}`, `{"a": [1, "ü"]}`}, {"jsonb", `"\u0000"`, ""},
		{"text[]", `["a", "b,\"}", ""]`, `{a,"b,\"}",""}`}, {"text[]", `[1]`, ""}, {"text[]", `"a"`, ""}, {"text[]", `[]`, "{}"},
		{"text[]", `["\u0000"]`, ""}, {"bigint[]", `[1, -2]`, "{1,-2}"}, {"bigint[]", `[1.5]`, ""},
	} {
		variant, err := statement.Variant(statement.Config{Statements: map[string]statement.Statement{"test": {
			SQL: "SELECT @value::text AS text, pg_typeof(@value)::text AS kind", Rows: 1, Params: map[string]string{"value": test.kind},
		}}})
		if err != nil {
			t.Fatal(err)
		}
		got, err := runInline(t, tx, variant, `{"value": `+test.value+`}`)
		kind := strings.Replace(test.kind, "timestamptz", "timestamp with time zone", 1)
		switch {
		case test.want == "" && (err == nil || !strings.HasPrefix(err.Error(), "statement test: payload field params.value must be ") ||
			!permanent(err)):
			t.Errorf("%s %s: %v, %v", test.kind, test.value, got, err)
		case test.want != "" && (err != nil || got.First[0]["text"] != test.want || got.First[0]["kind"] != kind):
			t.Errorf("%s %s: %v, %v", test.kind, test.value, got, err)
		}
	}
}

func TestParamsAreComplete(t *testing.T) {
	t.Parallel()
	tx, err := storetest.Pool(t).Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tx.Rollback(t.Context()) }()
	variant, err := statement.Variant(statement.Config{Statements: map[string]statement.Statement{"test": {
		SQL: "SELECT @a, @b, @a", Params: map[string]string{"a": "bigint", "b": "text"},
	}}})
	if err != nil {
		t.Fatal(err)
	}
	for params, want := range map[string]string{
		`{"a": 1, "b": ""}`:         "",
		`{"a": 1}`:                  "payload field params.b is missing; it must be a string without NUL",
		`{"a": 1, "b": "", "c": 1}`: `payload field params must not have "c"; statement test has the parameters a, b`,
	} {
		if _, err := runInline(t, tx, variant, params); (err == nil) != (want == "") ||
			err != nil && (!strings.Contains(err.Error(), want) || !permanent(err)) {
			t.Errorf("%s: %v, want %q", params, err, want)
		}
	}
}

func permanent(err error) bool {
	var target *handlers.PermanentError
	return errors.As(err, &target)
}

// runInline runs statement test.
func runInline(t *testing.T, tx pgx.Tx, variant handlers.Part, params string) (result contract.Result, err error) {
	t.Helper()
	registry, err := handlers.NewRegistry(variant)
	if err != nil {
		t.Fatal(err)
	}
	task := store.Task{Payload: store.JSON(`{"type": "RUN_SQL", "statement": "test", "params": ` + params + `}`), MaxAttempts: 1}
	if strings.Contains(params, `\u0000`) { // no payload can have it, but a sealed one
		e := (&handlers.Execution{Payload: []byte(`{"statement": "test", "params": ` + params + `}`)})
		return result, registry.Variant("RUN_SQL").RunTx(t.Context(), tx, e)
	}
	if _, err := tasks.Schedule(t.Context(), tx, task); err != nil {
		t.Fatal(err)
	}
	ran := scheduledtest.New(t, tx, registry).RunDueAt(t.Context(), time.Now().Add(time.Hour))
	if len(ran) != 1 {
		t.Fatalf("ran %+v", ran)
	}
	if ran[0].Err != nil {
		return result, ran[0].Err
	}
	return result, json.Unmarshal(ran[0].Result, &result)
}
