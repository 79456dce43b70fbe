package form

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/tasktable/tasktable/store"
	rules "github.com/tasktable/tasktable/store/recurrence"
)

var clock = Clock{Now: time.Date(2026, 11, 21, 18, 0, 0, 0, time.UTC), Zone: time.UTC}

// beyond returns a value of the field that is just outside of its limits, as it is in a task, as a text and as JSON.
func beyond(f Field) (set func(*store.Task), text, jsonText string) {
	quoted := func(text string) string {
		encoded, _ := json.Marshal(text)
		return string(encoded)
	}
	switch f.Kind {
	case Number:
		number, _ := json.Marshal(f.Max + 1)
		return func(t *store.Task) { *f.of(t).(*int) = f.Max + 1 }, string(number), string(number)
	case Length:
		length := f.Longest + time.Microsecond
		seconds, _ := json.Marshal(SecondsOf(length))
		return func(t *store.Task) { *f.of(t).(*time.Duration) = length }, length.String(), string(seconds)
	case Text, Choice:
		long := strings.Repeat("x", max(f.Max, 600)+1)
		if f.Name == "days" {
			return func(t *store.Task) { t.At, t.Days = clock.Now, &store.Days{} }, long, quoted(long)
		}
		if f.Name == "cron" {
			long = strings.Repeat("1,", 300) + "1 * * * *"
		}
		return func(t *store.Task) { *f.of(t).(*string) = long }, long, quoted(long)
	case Payload:
		return func(t *store.Task) { t.Payload = store.JSON(`[]`) }, "[]", "[]"
	case Tasks:
		list := strings.Repeat(`{"payload": {"type": "LOG"}},`, f.Max) + `{"payload": {"type": "LOG"}}`
		return func(t *store.Task) {
			t.IfDead = make([]store.Task, f.Max+1)
		}, list, "[" + list + "]"
	}
	year := time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC)
	return func(t *store.Task) { *f.of(t).(*time.Time) = year }, "10000-01-01 00:00", `"10000-01-01T00:00:00Z"`
}

// The store refuses a value beyond the limits with the rule of the list, and the forms refuse it, too: a text, and
// JSON.
func TestLimitsAreThoseOfTheStore(t *testing.T) {
	t.Parallel()
	for _, field := range Fields {
		set, text, jsonText := beyond(field)
		plain := store.Task{ID: "one", Payload: store.JSON(`{"type": "LOG"}`)}
		if field.Recurs {
			plain.Recurrence = &store.Recurrence{Cron: "@daily"}
		}
		task := plain
		set(&task)
		err := task.Check()
		if field.Kind != Payload && (!errors.Is(err, store.ErrInvalid) ||
			!strings.Contains(err.Error(), field.Name+" "+field.Rule)) {
			t.Errorf("the store: %v, want %s %s", err, field.Name, field.Rule)
		}
		task = plain
		if err := field.Read(&task, text, clock); err == nil ||
			field.Kind != Time && !strings.Contains(err.Error(), field.Rule) {
			t.Errorf("%s as a text: %v, want %s", field.Name, err, field.Rule)
		}
		task = plain
		if err := SetJSON(&task, map[string]json.RawMessage{field.Name: json.RawMessage(jsonText)}); err == nil ||
			field.Kind != Time && !strings.Contains(err.Error(), field.Rule) {
			t.Errorf("%s as JSON: %v, want %s", field.Name, err, field.Rule)
		}
	}
}

// full has a value in every field.
func full() store.Task {
	return store.Task{
		ID: "one", Payload: store.JSON(`{"type":"LOG","n":12345678901234567890}`), Entity: "event:1", TenantID: "acme",
		Group: "customer:42", Backoff: "10s x3 max 1h jitter 25%", Timeout: time.Minute, Deadline: clock.Now,
		At: clock.Now, Expiration: 90 * time.Minute, Queue: "mail", Priority: -7,
		ExpectedExecutionTime: 1500 * time.Millisecond, MaxAttempts: 3, Jitter: time.Microsecond,
		Retention: 40 * 24 * time.Hour, IfFinished: store.Keep, IfRunning: store.Again, IfExists: store.Reject, UniqueFor: time.Hour,
		In: time.Minute, Debounce: time.Hour,
		Days:   &store.Days{OutOf: []string{"company"}, KeepTo: []string{"workdays"}, Move: rules.MovePrevious},
		IfDead: []store.Task{{ID: "two", Payload: store.JSON(`{"type":"TELL"}`), Priority: 1, At: clock.Now}},
		Recurrence: &store.Recurrence{
			Cron: "@daily", TimeZone: "Europe/Berlin", Overlap: store.OverlapAllow, CatchUp: store.CatchUpAll,
			CatchUpPaused: store.CatchUpLatest, CatchUpLimit: 7, EndsAt: clock.Now.AddDate(1, 0, 0), MaxOccurrences: 12,
		},
	}
}

// A task that is written field by field and read again is the same, as texts and as JSON. An empty text, and null, are
// the default.
func TestFieldsAreReadAsTheyAreWritten(t *testing.T) {
	t.Parallel()
	want, _ := json.Marshal(full())
	var texts store.Task
	for _, field := range Fields {
		text := field.Text(full(), time.UTC)
		if text == "" {
			t.Errorf("%s: no text", field.Name)
		}
		if err := field.Read(&texts, text, clock); err != nil {
			t.Errorf("%s: %v", field.Name, err)
		}
	}
	if got, _ := json.Marshal(texts); Check(&texts) != nil || string(got) != string(want) {
		t.Errorf("as texts: %s, want %s", got, want)
	}
	encoded, err := json.Marshal(JSON(full()))
	if err != nil {
		t.Fatal(err)
	}
	var given map[string]json.RawMessage
	if err := json.Unmarshal(encoded, &given); err != nil || len(given) != len(Fields) {
		t.Errorf("%d fields of %d, %v", len(given), len(Fields), err)
	}
	var read store.Task
	err = SetJSON(&read, given)
	if got, _ := json.Marshal(read); err != nil || string(got) != string(want) {
		t.Errorf("as JSON: %s, %v, want %s", got, err, want)
	}
	for _, field := range Fields {
		if field.Kind == Payload {
			continue
		}
		given[field.Name] = json.RawMessage("null")
		if err := field.Read(&texts, "", clock); err != nil {
			t.Errorf("%s: %v", field.Name, err)
		}
	}
	plain, _ := json.Marshal(store.Task{Payload: full().Payload})
	if got, _ := json.Marshal(texts); Check(&texts) != nil {
		t.Errorf("empty texts: %s", got)
	}
	err = SetJSON(&read, given)
	for name, task := range map[string]store.Task{"texts": texts, "JSON": read} {
		if got, _ := json.Marshal(task); err != nil || string(got) != string(plain) {
			t.Errorf("defaults as %s: %s, %v, want %s", name, got, err, plain)
		}
	}
}

func TestSetJSONRefuses(t *testing.T) {
	t.Parallel()
	for given, want := range map[string]string{
		`{"due": 1}`:                          `"due" is not a field`,
		`{"payload": null}`:                   "payload is required",
		`{"priority": "1"}`:                   "priority must be a whole number",
		`{"priority": 1.5}`:                   "priority must be a whole number",
		`{"jitter": "5m"}`:                    "jitter must be a number of seconds",
		`{"jitter": 0}`:                       "jitter must be between 1µs and 24h",
		`{"entity": ""}`:                      "entity must be at most 512 bytes",
		`{"queue": 1}`:                        "queue must be a text",
		`{"days": "company"}`:                 "days must name calendars in out_of or keep_to, as in out-of=company",
		`{"days": "every=2 from=2027-01-05"}`: "days must name calendars in out_of or keep_to",
		`{"days": "keep-to=workdays", "overlap": "skip"}`:               "cron is missing: time_zone, overlap",
		`{"overlap": "skip"}`:                                           "cron is missing: time_zone, overlap",
		`{"scheduled_at": "tomorrow 09:00"}`:                            "scheduled_at must be a time such as 2027-01-31T09:30:00Z",
		`{"scheduled_at": "0001-01-01T00:00:00Z"}`:                      "scheduled_at must be after 0001",
		`{"if_dead": [{"payload": {"type": "LOG"}, "cron": "@daily"}]}`: `if_dead: task 1: "cron" is not a field`,
		`{"if_dead": [{"id": "a"}]}`:                                    "if_dead: task 1: payload must be given",
		`{"if_dead": [["secret"]]}`:                                     "if_dead: it must be a JSON array of tasks",
	} {
		var fields map[string]json.RawMessage
		if err := json.Unmarshal([]byte(given), &fields); err != nil {
			t.Fatal(err)
		}
		task := store.Task{Payload: store.JSON(`{"type":"LOG"}`)}
		err := SetJSON(&task, fields)
		if !errors.Is(err, store.ErrInvalid) || !strings.HasPrefix(err.Error(), "invalid: "+want) ||
			strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: %v, want %s", given, err, want)
		}
	}
}

// A cron expression is one text with its options, and the days of a task that does not recur have its zone.
func TestOptionsOfDays(t *testing.T) {
	t.Parallel()
	const cron = "0 9 * * TUE every=2 from=2027-01-05 out-of=company"
	options := store.Recurrence{Cron: "0 9 * * TUE", Every: 2, From: rules.Date{Year: 2027, Month: 1, Day: 5},
		OutOf: []string{"company"}}
	field, _ := Named("cron")
	if got := field.Text(store.Task{Recurrence: &options}, time.UTC); got != cron {
		t.Errorf("the expression is %s", got)
	}
	task := store.Task{Recurrence: &options}
	if err := SetJSON(&task, map[string]json.RawMessage{"cron": json.RawMessage(`"@daily"`)}); err != nil ||
		task.Recurrence.Text() != "@daily" {
		t.Errorf("the new expression is %s, %v", task.Recurrence.Text(), err)
	}
	task = store.Task{}
	if err := SetJSON(&task, map[string]json.RawMessage{"days": json.RawMessage(`"keep-to=workdays"`),
		"time_zone": json.RawMessage(`"Europe/Berlin"`)}); err != nil || task.Recurrence != nil ||
		task.Days.TimeZone != "Europe/Berlin" {
		t.Errorf("the days are %+v, %v", task.Days, err)
	}
}
