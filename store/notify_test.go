package store_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tasktable/tasktable/store"
	"github.com/tasktable/tasktable/store/inspect"
)

// What makes tasks due at once wakes the leader, unless nobody is to be notified.
func TestNotifications(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	listener, err := b.Pool.Acquire(b.Ctx)
	b.Check(err)
	defer listener.Release()
	b.MakeRecurring("planned", "planned")
	b.Exec(listener, `LISTEN "tasktable.wake"; LISTEN "tasktable.held"; LISTEN "end"`)
	defer func() { _, _ = listener.Exec(context.Background(), `UNLISTEN *`) }()
	round := 0
	due := func(id string) store.Task {
		return store.Task{ID: fmt.Sprint(id, round), Payload: payload(1), At: past(0)}
	}
	again := func(id, kind string) {
		b.Exec(b.Pool, `DELETE FROM tasktable.scheduled_tasks WHERE id = $1`, id)
		b.Make(id, kind)
	}
	for _, act := range []struct {
		name  string
		do    func(*store.Store, *inspect.Inspector) (any, error)
		wakes bool // unless NoNotify
	}{
		{"far", func(s *store.Store, _ *inspect.Inspector) (any, error) {
			return s.Schedule(b.Ctx, b.Pool, base(fmt.Sprint("far", round)))
		}, false},
		{"due", func(s *store.Store, _ *inspect.Inspector) (any, error) {
			return s.Schedule(b.Ctx, b.Pool, due("due"))
		}, true},
		{"due, just after one that is far", func(s *store.Store, _ *inspect.Inspector) (any, error) {
			if _, err := s.Schedule(b.Ctx, b.Pool, base(fmt.Sprint("far again", round))); err != nil {
				return nil, err
			}
			return s.Schedule(b.Ctx, b.Pool, due("due again"))
		}, true},
		{"unchanged", func(s *store.Store, _ *inspect.Inspector) (any, error) {
			return s.Schedule(b.Ctx, b.Pool, due("due"))
		}, false},
		{"moved to now", func(s *store.Store, _ *inspect.Inspector) (any, error) {
			return s.Reschedule(b.Ctx, b.Pool, fmt.Sprint("far", round), past(0))
		}, true},
		{"run now", func(s *store.Store, _ *inspect.Inspector) (any, error) {
			return s.RunNow(b.Ctx, b.Pool, fmt.Sprint("far again", round))
		}, true},
		{"a recurring task", func(s *store.Store, _ *inspect.Inspector) (any, error) {
			return s.Schedule(b.Ctx, b.Pool, recurs(fmt.Sprint("new", round)))
		}, true},
		{"the same", func(s *store.Store, _ *inspect.Inspector) (any, error) {
			return s.Schedule(b.Ctx, b.Pool, recurs("planned"))
		}, false},
		{"run now of a recurring task", func(s *store.Store, _ *inspect.Inspector) (any, error) {
			return s.RunNow(b.Ctx, b.Pool, "planned")
		}, true},
		{"backfill", func(s *store.Store, _ *inspect.Inspector) (any, error) {
			return s.Backfill(b.Ctx, b.Pool, "planned", past(0), past(round*24*60), round)
		}, true},
		{"retry of dead ones", func(_ *store.Store, i *inspect.Inspector) (any, error) {
			again("dead", "FAILED")
			return i.Do(b.Ctx, b.Pool, inspect.Action{Verb: inspect.Retry},
				inspect.Targets{Filter: new(inspect.DeadLetters())})
		}, true},
		{"archive", func(s *store.Store, _ *inspect.Inspector) (any, error) {
			again("dead", "FAILED")
			return s.Archive(b.Ctx, b.Pool, "dead", "")
		}, false},
		{"pause of a queue", func(s *store.Store, _ *inspect.Inspector) (any, error) {
			return s.PauseScope(b.Ctx, b.Pool, store.Queue("mail"), time.Time{}, "")
		}, false},
	} {
		for round = 1; round <= 2; round++ {
			config := store.Config{Service: service, NoNotify: round == 1}
			b.succeeds(act.do(store.New(config), inspect.New(config))) // new: its debounce has not begun
			heard := b.notified(listener.Conn())
			if woken := strings.Join(heard, ","); woken != map[bool]string{true: "tasktable.wake "}[act.wakes && round == 2] {
				t.Errorf("%s, NoNotify %t: %q", act.name, config.NoNotify, woken)
			}
		}
	}
	b.succeeds(b.Tasks.ResumeScope(b.Ctx, b.Pool, store.Queue("mail")))
	same(b, "resume of a queue", b.notified(listener.Conn()), []string{"tasktable.wake "})
	b.Make("held", "EXECUTING")
	fence := pretty(*b.Get("held").Fence)
	b.do("cancel", "held")
	same(b, "cancel of a running one", b.notified(listener.Conn()), []string{"tasktable.held " + fence})
	began := time.Now()
	for i := range 5 {
		b.Schedule(store.Task{ID: "burst " + pretty(i), Payload: payload(1)})
	}
	most := 1 + int(time.Since(began)/(10*time.Millisecond)) // a process notifies once in this time
	if heard := len(b.notified(listener.Conn())); heard < 1 || heard > most {
		t.Errorf("a burst of 5 woke %d times, not 1 to %d", heard, most)
	}
}

// notified is what has come since the last call: everything before a notification of its own.
func (b *bench) notified(listener *pgx.Conn) []string {
	b.Helper()
	b.Exec(b.Pool, `NOTIFY "end"`)
	var heard []string
	for {
		got, err := listener.WaitForNotification(b.Ctx)
		b.Check(err)
		if got.Channel == "end" {
			return heard
		}
		heard = append(heard, got.Channel+" "+got.Payload)
	}
}
