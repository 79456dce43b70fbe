package scheduledtest_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/tasktable/tasktable/handlers"
	"github.com/tasktable/tasktable/scheduled/internal/enginetest"
	"github.com/tasktable/tasktable/scheduled/scheduledtest"
	"github.com/tasktable/tasktable/store"
	"github.com/tasktable/tasktable/store/storetest"
)

var errNoUser = errors.New("user_id must not be empty")

// The three ways to have a method Validate.
type (
	byValue struct {
		UserID string `json:"user_id"`
	}
	byPointer struct {
		UserID string `json:"user_id"`
	} // the payload is a value, and Validate has a pointer
	allPointer struct {
		UserID string `json:"user_id"`
	}
)

func (byValue) TaskType() string     { return "BY_VALUE" }
func (byPointer) TaskType() string   { return "BY_POINTER" }
func (*allPointer) TaskType() string { return "ALL_POINTER" }

func (p byValue) Validate() error     { return validUser(p.UserID) }
func (p *byPointer) Validate() error  { return validUser(p.UserID) }
func (p *allPointer) Validate() error { return validUser(p.UserID) }

func validUser(id string) error {
	if id == "" {
		return errNoUser
	}
	return nil
}

// What schedules a payload asks it, before the database.
func TestPayloadIsAskedWhenItIsScheduled(t *testing.T) {
	t.Parallel()
	tx := begin(t, storetest.Pool(t))
	for _, each := range []struct{ good, bad store.Payload }{
		{byValue{"u"}, byValue{}}, {&byValue{"u"}, &byValue{}}, {byPointer{"u"}, byPointer{}},
		{&byPointer{"u"}, &byPointer{}}, {&allPointer{"u"}, &allPointer{}},
	} {
		task := func(payload store.Payload) store.Task { return store.Task{ID: "a", Payload: payload, At: fivePM} }
		ifDead := store.Task{Payload: reminder{"x"}, IfDead: []store.Task{task(each.bad)}}
		e := &handlers.Execution{ID: "e"}
		e.FollowUp(task(each.good))
		e.FollowUp(task(each.bad))
		_, alone := tasks.Schedule(t.Context(), tx, task(each.bad))
		_, many := tasks.ScheduleMany(t.Context(), tx, []store.Task{task(each.good), task(each.bad)})
		_, synced := tasks.Sync(t.Context(), tx, "event:1", task(each.bad))
		for call, err := range map[string]error{
			"Schedule": alone, "ScheduleMany": many, "Sync": synced, "Check": task(each.bad).Check(),
			"IfDead": ifDead.Check(), "FollowUp": e.Effects().Err,
		} {
			if !errors.Is(err, store.ErrInvalid) ||
				!strings.Contains(err.Error(), " does not validate: user_id must not be empty") ||
				!strings.Contains(err.Error(), "payload of type "+each.bad.TaskType()) {
				t.Errorf("%s of %T: %v", call, each.bad, err)
			}
		}
		if !errors.Is(alone, errNoUser) {
			t.Errorf("%T: the payload's own error is not wrapped in %v", each.bad, alone)
		}
		if _, err := tasks.Schedule(t.Context(), tx, task(each.good)); err != nil {
			t.Errorf("%T: %v", each.good, err)
		}
	}
}

// A field was renamed, so the payloads of waiting tasks decode to zero values. No handler gets these.
func TestPayloadIsAskedBeforeItsHandler(t *testing.T) {
	t.Parallel()
	tx := begin(t, storetest.Pool(t))
	h := scheduledtest.New(t, tx, registry(t, handlers.Handle(forUser[byValue](t)),
		handlers.Handle(forUser[byPointer](t)), handlers.Handle(forUser[*allPointer](t))))
	for _, kind := range []string{"BY_VALUE", "BY_POINTER", "ALL_POINTER"} {
		for id, field := range map[string]string{"new ": "user_id", "old ": "uid"} {
			schedule(t, tx, store.Task{
				ID: id + kind, Payload: store.JSON(`{"type":"` + kind + `","` + field + `":"u"}`), At: fivePM,
			})
		}
	}
	all := h.RunDueAt(t.Context(), fivePM)
	if len(all) != 6 {
		t.Errorf("ran %+v", all)
	}
	for _, ran := range all {
		row, err := tasks.Get(t.Context(), tx, ran.ID)
		enginetest.OK(t, err)
		var permanent *handlers.PermanentError
		switch old := strings.HasPrefix(ran.ID, "old "); {
		case !old && row.Status != store.StatusCompleted:
			t.Errorf("%s is %s: %v", ran.ID, row.Status, ran.Err)
		case old && (row.Status != store.StatusFailed || row.Attempt != 1 || !errors.As(ran.Err, &permanent) ||
			!errors.Is(ran.Err, errNoUser) || row.Message == nil ||
			*row.Message != "payload does not validate: user_id must not be empty"):
			t.Errorf("%s is %s after %d attempts: %v", ran.ID, row.Status, row.Attempt, ran.Err)
		}
	}
}

// forUser makes a handler that must not run for nobody.
func forUser[P store.Payload](t *testing.T) func(context.Context, *handlers.Task[P]) error {
	return func(_ context.Context, task *handlers.Task[P]) error {
		if strings.HasPrefix(task.ID, "old ") {
			t.Errorf("%s ran with %+v", task.ID, task.Payload)
		}
		return nil
	}
}
