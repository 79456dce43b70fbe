package handlers_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/tasktable/tasktable/handlers"
	"github.com/tasktable/tasktable/store"
)

func TestIdempotencyKey(t *testing.T) {
	t.Parallel()
	e := handlers.Execution{ID: "task-MAIL-7", Revision: 42, AskedRevision: 41, Attempt: 1, Fence: 43}
	again := handlers.Execution{ID: "task-MAIL-7", Revision: 45, AskedRevision: 41, Attempt: 2, Fence: 44}
	if e.IdempotencyKey() != "task-MAIL-7:41" || again.IdempotencyKey() != e.IdempotencyKey() {
		t.Errorf("keys %s and %s", e.IdempotencyKey(), again.IdempotencyKey())
	}
}

func TestEffects(t *testing.T) {
	t.Parallel()
	e := &handlers.Execution{ID: "a"}
	if got := e.Effects(); got.Again != nil || got.FollowUps != nil || got.Result != nil || got.Note != "" ||
		got.Err != nil {
		t.Errorf("nothing was asked for: %+v", got)
	}
	at := time.Date(2030, 1, 1, 12, 0, 0, 0, time.UTC)
	e.Again(at.Add(-time.Hour))
	e.Again(at) // the last call counts
	e.Result(1)
	e.Result(map[string]any{"n": 2})
	e.Note("first")
	e.Note("%d of %s", 2, "two")
	got := e.Effects()
	if !got.Again.Equal(at) || string(got.Result) != `{"n":2}` || got.Note != "2 of two" {
		t.Errorf("effects %+v", got)
	}
	e.Result(nil)
	if got := e.Effects().Result; string(got) != "null" {
		t.Errorf("result %s", got)
	}
}

// Postgres keeps microseconds, and Schedule cuts the rest off: Again must mean the same time.
func TestAgainIsCutToMicroseconds(t *testing.T) {
	t.Parallel()
	at := time.Date(2030, 1, 1, 12, 0, 0, 0, time.FixedZone("", 3600))
	for _, test := range []struct{ given, want time.Duration }{
		{0, 0}, {1, 0}, {999, 0}, {time.Microsecond, time.Microsecond}, {time.Microsecond + 1, time.Microsecond},
	} {
		var e handlers.Execution
		e.Again(at.Add(test.given))
		if got := e.Effects().Again.Sub(at); got != test.want {
			t.Errorf("%d ns later: %s", test.given, got)
		}
	}
}

// A follow-up is what it was when it was asked for, whatever becomes later of what its payload points to.
func TestFollowUpIsFixed(t *testing.T) {
	t.Parallel()
	e := &handlers.Execution{ID: "a"}
	box := &parcel{Weight: 1}
	e.FollowUp(store.Task{Payload: box, Entity: "box:1"})
	box.Weight = 2
	e.FollowUp(store.Task{ID: "box", Payload: box})
	e.FollowUp(store.Task{Payload: SendEventReminder{EventID: "7"}})
	got := e.Effects()
	if got.Err != nil || len(got.FollowUps) != 3 {
		t.Fatalf("effects %+v", got)
	}
	for i, want := range []string{
		`{"type":"PARCEL","weight":1}`, `{"type":"PARCEL","weight":2}`, `{"type":"SEND_EVENT_REMINDER","event_id":"7"}`,
	} {
		encoded, err := json.Marshal(got.FollowUps[i].Payload)
		if err != nil || string(encoded) != want {
			t.Errorf("follow-up %d is %s, %v; want %s", i+1, encoded, err, want)
		}
	}
	if ids := []string{got.FollowUps[0].ID, got.FollowUps[1].ID, got.FollowUps[2].ID}; len(ids[0]) != 36 ||
		ids[1] != "box" || ids[2] != "task-SEND_EVENT_REMINDER-7" {
		t.Errorf("ids %q", ids)
	}
	if got.FollowUps[0].Entity != "box:1" {
		t.Errorf("follow-up %+v", got.FollowUps[0])
	}
}

// Erasure and the tasks of an entity find a follow-up by these fields.
func TestFollowUpInheritsEntityAndTenant(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		from           handlers.Execution
		given          store.Task
		entity, tenant string
	}{
		"neither is set": {
			from: handlers.Execution{Entity: "visit:1", TenantID: "clinic"}, entity: "visit:1", tenant: "clinic",
		},
		"both are set": {
			handlers.Execution{Entity: "visit:1", TenantID: "clinic"}, store.Task{Entity: "mail:2", TenantID: "ward"},
			"mail:2", "ward",
		},
		"the entity alone is set": {
			handlers.Execution{Entity: "visit:1", TenantID: "clinic"}, store.Task{Entity: "mail:2"}, "mail:2", "clinic",
		},
		"the tenant alone is set": {
			handlers.Execution{Entity: "visit:1", TenantID: "clinic"}, store.Task{TenantID: "ward"}, "visit:1", "ward",
		},
		"the task has neither": {},
	} {
		e := test.from
		test.given.Payload = mail{}
		e.FollowUp(test.given)
		if got := e.Effects().FollowUps[0]; got.Entity != test.entity || got.TenantID != test.tenant {
			t.Errorf(
				"%s: entity %q and tenant %q, want %q and %q", name, got.Entity, got.TenantID, test.entity, test.tenant,
			)
		}
	}
}

func TestFollowUpThatScheduleWouldRefuse(t *testing.T) {
	t.Parallel()
	for name, task := range map[string]store.Task{
		"payload":  {},
		"id":       {Payload: SendEventReminder{}},
		"priority": {Payload: mail{}, Priority: 1000},
		"type":     {Payload: short{}},
	} {
		e := &handlers.Execution{ID: "a"}
		e.FollowUp(store.Task{Payload: mail{}})
		e.FollowUp(task)
		e.FollowUp(store.Task{Payload: mail{}})
		err := e.Effects().Err
		if !errors.Is(err, store.ErrInvalid) || !strings.HasPrefix(err.Error(), "follow-up 2: ") ||
			!strings.Contains(err.Error(), name) {
			t.Errorf("bad %s: %v", name, err)
		}
	}
}

func TestResultThatCannotBeEncoded(t *testing.T) {
	t.Parallel()
	defer func() {
		err, ok := recover().(error)
		var unsupported *json.UnsupportedTypeError
		if !ok || !errors.As(err, &unsupported) || !strings.HasPrefix(err.Error(), "result of task a: ") {
			t.Errorf("panic with %v", err)
		}
	}()
	(&handlers.Execution{ID: "a"}).Result(make(chan int))
}

func TestExtend(t *testing.T) {
	t.Parallel()
	var asked []time.Duration
	errLost := errors.New("lost")
	e := (&handlers.Execution{ID: "a"}).WithExtend(func(_ context.Context, d time.Duration) error {
		asked = append(asked, d)
		if d > time.Hour {
			return errLost
		}
		return nil
	})
	if err := e.Extend(t.Context(), time.Minute); err != nil {
		t.Error(err)
	}
	if err := e.Extend(t.Context(), 2*time.Hour); !errors.Is(err, errLost) {
		t.Errorf("error %v", err)
	}
	for _, d := range []time.Duration{0, -1} {
		if err := e.Extend(t.Context(), d); !errors.Is(err, store.ErrInvalid) ||
			!strings.Contains(err.Error(), "task a") {
			t.Errorf("extended by %s: %v", d, err)
		}
	}
	if len(asked) != 2 {
		t.Errorf("asked for %v", asked)
	}
	if err := (&handlers.Execution{}).Extend(t.Context(), time.Second); err == nil {
		t.Error("a task that nobody runs was extended")
	}
}
