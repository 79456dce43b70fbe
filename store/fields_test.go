package store_test

import (
	"testing"
	"time"

	"github.com/tasktable/tasktable/store"
)

// full is a task with a value in every field.
func full(id string) store.Task {
	return store.Task{
		ID: id, Payload: payload(1), At: far(0), Expiration: time.Hour, ExpectedExecutionTime: time.Minute,
		MaxAttempts: 3, Priority: 7, Queue: "mail", Entity: "event:1", TenantID: "acme", Group: "customer:1",
		Backoff: "1m", Timeout: 30 * time.Second,
	}
}

// Every field of the content makes a revision and is recorded as it was and as it became; a zero field
// asks for its default.
func TestScheduleWithAnotherValueInOneField(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	for _, field := range []struct {
		name     string
		change   func(*store.Task)
		old, new string
	}{
		{
			"payload", func(t *store.Task) { t.Payload = payload(2) }, `{"payload": {"n": 1, "type": "TEST"}}`,
			`{"payload": {"n": 2, "type": "TEST"}}`,
		},
		{"type", func(t *store.Task) { t.Payload = store.JSON(`{"type":"OTHER","n":1}`) },
			`{"payload": {"n": 1, "type": "TEST"}}`, `{"payload": {"n": 1, "type": "OTHER"}}`},
		{
			"at", func(t *store.Task) { t.At = far(5) }, `{"scheduled_at": "2100-01-01T00:00:00Z"}`,
			`{"scheduled_at": "2100-01-01T00:05:00Z"}`,
		},
		{"two microseconds", func(t *store.Task) { t.At = far(0).Add(2999 * time.Nanosecond) },
			`{"scheduled_at": "2100-01-01T00:00:00Z"}`, `{"scheduled_at": "2100-01-01T00:00:00.000002Z"}`},
		{
			"expiration", func(t *store.Task) { t.Expiration = 90 * time.Minute }, `{"expiration": "01:00:00"}`,
			`{"expiration": "01:30:00"}`,
		},
		{
			"no expiration", func(t *store.Task) { t.Expiration = 0 }, `{"expiration": "01:00:00"}`,
			`{"expiration": null}`,
		},
		{"expected_execution_time", func(t *store.Task) { t.ExpectedExecutionTime = 0 },
			`{"expected_execution_time": "00:01:00"}`, `{"expected_execution_time": "00:05:00"}`},
		{"max_attempts", func(t *store.Task) { t.MaxAttempts = 0 }, `{"max_attempts": 3}`, `{"max_attempts": 10}`},
		{"priority", func(t *store.Task) { t.Priority = 0 }, `{"priority": 7}`, `{"priority": 0}`},
		{"queue", func(t *store.Task) { t.Queue = "" }, `{"queue": "mail"}`, `{"queue": "default"}`},
		{"entity", func(t *store.Task) { t.Entity = "event:2" }, `{"entity": "event:1"}`, `{"entity": "event:2"}`},
		{"no entity", func(t *store.Task) { t.Entity = "" }, `{"entity": "event:1"}`, `{"entity": null}`},
		{"no group", func(t *store.Task) { t.Group = "" }, `{"group_key": "customer:1"}`, `{"group_key": null}`},
		{"backoff", func(t *store.Task) { t.Backoff = "1m x2" }, `{"backoff": "1m"}`, `{"backoff": "1m x2"}`},
		{"no backoff", func(t *store.Task) { t.Backoff = "" }, `{"backoff": "1m"}`, `{"backoff": null}`},
		{"timeout", func(t *store.Task) { t.Timeout = time.Minute }, `{"timeout": "00:00:30"}`, `{"timeout": "00:01:00"}`},
		{"no timeout", func(t *store.Task) { t.Timeout = 0 }, `{"timeout": "00:00:30"}`, `{"timeout": null}`},
		{"deadline", func(t *store.Task) { t.Deadline = far(70) }, `{"deadline": "2100-01-01T01:00:00Z"}`,
			`{"deadline": "2100-01-01T01:10:00Z"}`},
		{"no deadline", func(t *store.Task) { t.Deadline = time.Time{} }, `{"deadline": "2100-01-01T01:00:00Z"}`,
			`{"deadline": null}`},
		{"tenant", func(t *store.Task) { t.TenantID = "" }, `{"tenant_id": "acme"}`, `{"tenant_id": null}`},
	} {
		b.each(field.name, func(b *bench) {
			task := full(field.name)
			task.Deadline = far(60)
			first := b.Schedule(task)
			field.change(&task)
			second := b.Schedule(task)
			if second.Outcome != store.Rescheduled || second.Revision <= first.Revision {
				b.Errorf("got %+v after %+v", second, first)
			}
			changes := b.state(field.name).Changes
			if len(changes) != 2 {
				b.Fatalf("%d change lines instead of two", len(changes))
			}
			same(b, "old", b.recorded(changes[1].Old), b.recorded([]byte(field.old)))
			same(b, "new", b.recorded(changes[1].New), b.recorded([]byte(field.new)))
			if again := b.Schedule(task); again.Outcome != store.Unchanged || again.Revision != second.Revision {
				b.Errorf("scheduled the same again: %+v after %+v", again, second)
			}
		})
	}
}

// What is the same to Postgres is the same task, however the client writes it.
func TestScheduleWrittenOtherwiseIsUnchanged(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	first := b.Schedule(full("one"))
	for name, change := range map[string]func(*store.Task){
		"order and space":  func(t *store.Task) { t.Payload = store.JSON("{ \"n\" : 1,\n\"type\": \"TEST\" }") },
		"a struct":         func(t *store.Task) { t.Payload = counted{N: 1} },
		"another zone":     func(t *store.Task) { t.At = t.At.In(time.FixedZone("", -5*3600)) },
		"a microsecond":    func(t *store.Task) { t.At = t.At.Add(-time.Microsecond) },
		"no time":          func(t *store.Task) { t.At = time.Time{} },
		"the other policy": func(t *store.Task) { t.IfFinished = store.Keep },
	} {
		task := full("one")
		change(&task)
		if receipt := b.Schedule(task); receipt != (store.Receipt{
			ID: "one", Revision: first.Revision, Outcome: store.Unchanged,
		}) {
			t.Errorf("%s: %+v", name, receipt)
		}
	}
}

// counted is a variant whose id is its type and its key.
type counted struct {
	N   int    `json:"n"`
	key string // unexported: not in the JSON
}

func (counted) TaskType() string  { return "TEST" }
func (c counted) TaskKey() string { return c.key }

// plain is a variant without a key.
type plain struct{ Name string }

func (plain) TaskType() string { return "PLAIN" }

func TestIDComesFromTheTaskOrThePayloadOrIsNew(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	if got := b.Schedule(store.Task{Payload: counted{key: "42"}, At: far(0)}); got.ID != "task-TEST-42" ||
		store.IDOf(counted{key: "42"}) != got.ID {
		t.Errorf("id of a keyed payload: %s", got.ID)
	}
	if got := b.Schedule(store.Task{ID: "mine", Payload: counted{key: "42"}, At: far(0)}); got.ID != "mine" {
		t.Errorf("id of the task: %s", got.ID)
	}
	first, second := b.Schedule(store.Task{
		Payload: plain{}, At: far(0),
	}), b.Schedule(store.Task{Payload: plain{}, At: far(0)})
	if first.Outcome != store.Created || second.Outcome != store.Created || first.ID >= second.ID ||
		store.IDOf(plain{}) != "" {
		t.Errorf("a payload without a key: %+v, %+v", first, second)
	}
}
