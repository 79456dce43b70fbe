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
	listener, err := b.pool.Acquire(b.ctx)
	b.check(err)
	defer listener.Release()
	b.exec(listener, `LISTEN "tasktable.wake"; LISTEN "tasktable.held"; LISTEN "end"`)
	defer func() { _, _ = listener.Exec(context.Background(), `UNLISTEN *`) }()
	b.make("far", "QUEUED")
	b.make("held", "EXECUTING")
	fence := *b.get("held").Fence
	now := b.now()
	for _, act := range []struct {
		name string
		do   func(*store.Store) error
		want []string
	}{
		{"far", func(s *store.Store) error { _, err := s.Schedule(b.ctx, b.pool, base("later")); return err }, nil},
		{"due", func(s *store.Store) error {
			_, err := s.Schedule(b.ctx, b.pool, store.Task{ID: "due", Payload: payload(1), At: now})
			return err
		}, []string{"tasktable.wake "}},
		{"due, just after one that is far", func(s *store.Store) error {
			if _, err := s.Schedule(b.ctx, b.pool, base("far again")); err != nil {
				return err
			}
			_, err := s.Schedule(b.ctx, b.pool, store.Task{ID: "due again", Payload: payload(1), At: now})
			return err
		}, []string{"tasktable.wake "}},
		{"unchanged", func(s *store.Store) error {
			_, err := s.Schedule(b.ctx, b.pool, store.Task{ID: "due", Payload: payload(1), At: now})
			return err
		}, nil},
		{
			"moved to now",
			func(s *store.Store) error { _, err := s.Reschedule(b.ctx, b.pool, "later", now); return err },
			[]string{"tasktable.wake "},
		},
		{
			"run now", func(s *store.Store) error { _, err := s.RunNow(b.ctx, b.pool, "far"); return err },
			[]string{"tasktable.wake "},
		},
		{"cancel of a running one",
			func(s *store.Store) error { _, err := s.Cancel(b.ctx, b.pool, "held"); return err },
			[]string{"tasktable.held " + pretty(fence)}},
	} {
		b.check(act.do(store.New(store.Config{Service: service}))) // new: its debounce has not begun
		same(b, act.name, b.notified(listener.Conn()), act.want)
	}
	quiet := store.New(store.Config{NoNotify: true})
	_, err = quiet.Schedule(b.ctx, b.pool, store.Task{ID: "quiet", Payload: payload(1), At: now})
	b.check(err)
	same(b, "NoNotify", b.notified(listener.Conn()), nil)
	began := time.Now()
	for i := range 5 {
		b.schedule(store.Task{ID: "burst " + pretty(i), Payload: payload(1), At: now})
	}
	most := 1 + int(time.Since(began)/(10*time.Millisecond)) // a process notifies once in this time
	if heard := len(b.notified(listener.Conn())); heard < 1 || heard > most {
		t.Errorf("a burst of 5 woke %d times, not 1 to %d", heard, most)
	}
}

// notified is what has come since the last call: everything before a notification of its own.
func (b *bench) notified(listener *pgx.Conn) []string {
	b.Helper()
	b.exec(b.pool, `NOTIFY "end"`)
	var heard []string
	for {
		got, err := listener.WaitForNotification(b.ctx)
		b.check(err)
		if got.Channel == "end" {
			return heard
		}
		heard = append(heard, got.Channel+" "+got.Payload)
	}
}
