package store_test

import (
	"context"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tasktable/tasktable/store"
)

func TestNotifications(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	listener, err := b.Pool.Acquire(b.Ctx)
	b.Check(err)
	defer listener.Release()
	b.Exec(listener, `LISTEN "tasktable.wake"; LISTEN "tasktable.held"; LISTEN "end"`)
	defer func() { _, _ = listener.Exec(context.Background(), `UNLISTEN *`) }()
	b.Make("far", "QUEUED")
	b.Make("held", "EXECUTING")
	fence := *b.Get("held").Fence
	now := b.Now()
	for _, act := range []struct {
		name string
		do   func(*store.Store) error
		want []string
	}{
		{"far", func(s *store.Store) error { _, err := s.Schedule(b.Ctx, b.Pool, base("later")); return err }, nil},
		{"due", func(s *store.Store) error {
			_, err := s.Schedule(b.Ctx, b.Pool, store.Task{ID: "due", Payload: payload(1), At: now})
			return err
		}, []string{"tasktable.wake "}},
		{"due, just after one that is far", func(s *store.Store) error {
			if _, err := s.Schedule(b.Ctx, b.Pool, base("far again")); err != nil {
				return err
			}
			_, err := s.Schedule(b.Ctx, b.Pool, store.Task{ID: "due again", Payload: payload(1), At: now})
			return err
		}, []string{"tasktable.wake "}},
		{"unchanged", func(s *store.Store) error {
			_, err := s.Schedule(b.Ctx, b.Pool, store.Task{ID: "due", Payload: payload(1), At: now})
			return err
		}, nil},
		{
			"moved to now",
			func(s *store.Store) error { _, err := s.Reschedule(b.Ctx, b.Pool, "later", now); return err },
			[]string{"tasktable.wake "},
		},
		{
			"run now", func(s *store.Store) error { _, err := s.RunNow(b.Ctx, b.Pool, "far"); return err },
			[]string{"tasktable.wake "},
		},
		{"cancel of a running one",
			func(s *store.Store) error { _, err := s.Cancel(b.Ctx, b.Pool, "held"); return err },
			[]string{"tasktable.held " + pretty(fence)}},
	} {
		b.Check(act.do(store.New(store.Config{Service: service}))) // new: its debounce has not begun
		same(b, act.name, b.notified(listener.Conn()), act.want)
	}
	quiet := store.New(store.Config{NoNotify: true})
	_, err = quiet.Schedule(b.Ctx, b.Pool, store.Task{ID: "quiet", Payload: payload(1), At: now})
	b.Check(err)
	same(b, "NoNotify", b.notified(listener.Conn()), nil)
	began := time.Now()
	for i := range 5 {
		b.Schedule(store.Task{ID: "burst " + pretty(i), Payload: payload(1), At: now})
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
