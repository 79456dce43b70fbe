package inspect_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/tasktable/tasktable/store"
	"github.com/tasktable/tasktable/store/inspect"
)

func TestAttention(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	got, err := b.Inspector.Attention(b.Ctx, b.Pool)
	b.Check(err)
	got.At = time.Time{}
	same(b, "an empty table", got, inspect.Attention{Pauses: []store.Pause{}})
	for _, kind := range []string{"QUEUED", "EXECUTING", "COMPLETED", "CANCELLED", "PAUSED", "FAILED", "EXPIRED"} {
		for i := range 2 {
			b.Make(fmt.Sprint(kind, i), kind)
		}
	}
	_, err = b.Tasks.Archive(b.Ctx, b.Pool, "FAILED0", "")
	b.Check(err)
	now := b.Now()
	for i, ago := range []string{"2 hours", "3 hours", "30 seconds"} {
		task := base(fmt.Sprint("late", i))
		b.Schedule(task)
		b.Exec(b.Pool, `UPDATE tasktable.scheduled_tasks SET scheduled_at = $2::text::timestamptz - $3::text::interval,
			expiration = NULL WHERE id = $1`, task.ID, now.Format(time.RFC3339Nano), ago)
	}
	b.Exec(b.Pool, `UPDATE tasktable.scheduled_tasks
		SET lease_expires_at = $1::text::timestamptz - interval '1 hour' WHERE id = 'EXECUTING1'`,
		now.Format(time.RFC3339Nano))
	_, err = b.Tasks.PauseScope(b.Ctx, b.Pool, store.Queue("mail"), time.Time{}, "")
	b.Check(err)
	failed, paused := b.Get("FAILED1"), b.Get("PAUSED0")
	for driver, db := range b.Readers() {
		got, err := b.Inspector.Attention(b.Ctx, db)
		b.Check(err)
		if got.At.Before(now) || len(got.Pauses) != 1 || got.Pauses[0].Name != "mail" {
			t.Errorf("%s: %s", driver, pretty(got))
		}
		for what, c := range map[string]struct {
			got  inspect.Several
			want int
			id   string
			at   time.Time
		}{
			"late": {got.Late, 2, "late1", now.Add(-3 * time.Hour)}, "dead": {got.Dead, 3, "FAILED1", *failed.FinishedAt},
			"paused": {got.Paused, 2, "PAUSED0", paused.LastStatusUpdate},
			"stuck":  {got.Stuck, 1, "EXECUTING1", now.Add(-time.Hour)},
		} {
			if c.got.Count != c.want || c.got.More || c.got.OldestID == nil || *c.got.OldestID != c.id ||
				!c.got.OldestAt.Equal(c.at) {
				t.Errorf("%s, %s: %s instead of %d, %s, %s", driver, what, pretty(c.got), c.want, c.id, c.at)
			}
		}
	}
}

// What a pause holds back is not late, because somebody wants that. A pause that has ended holds nothing back.
func TestLateIsNotPaused(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	for _, id := range []string{"mail", "other"} {
		b.Schedule(store.Task{ID: id, Payload: payload(1), Queue: id, At: b.Now().Add(-time.Hour)})
	}
	for _, c := range []struct {
		pause store.Scope
		until time.Duration
		want  int
	}{
		{store.Queue("mail"), 0, 1}, {store.Type("TEST"), time.Hour, 0}, {store.Everything(), 0, 0},
		{store.Queue("mail"), time.Millisecond, 2},
	} {
		var until time.Time
		if c.until > 0 {
			until = b.Now().Add(c.until)
		}
		_, err := b.Tasks.PauseScope(b.Ctx, b.Pool, c.pause, until, "")
		b.Check(err)
		if c.until == time.Millisecond {
			b.Exec(b.Pool, `SELECT pg_sleep(0.01)`)
		}
		got, err := b.Inspector.Attention(b.Ctx, b.Pool)
		b.Check(err)
		same(b, c.pause.String(), got.Late.Count, c.want)
		_, err = b.Tasks.ResumeScope(b.Ctx, b.Pool, c.pause)
		b.Check(err)
	}
}

func TestCountUpTo(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	for i := range 5 {
		b.Schedule(base(fmt.Sprint(i)))
	}
	for driver, db := range b.Readers() {
		for most, want := range map[int]string{4: "4 true", 5: "5 false", 6: "5 false"} {
			n, more, err := b.Inspector.CountUpTo(b.Ctx, db, inspect.Filter{Entity: "event:1"}, most)
			b.Check(err)
			same(b, fmt.Sprint(driver, most), fmt.Sprint(n, more), want)
		}
	}
	for _, most := range []int{0, inspect.MaxCountUpTo + 1} {
		if _, _, err := b.Inspector.CountUpTo(b.Ctx, noDB(b), inspect.Filter{}, most); !errors.Is(err, store.ErrInvalid) {
			t.Errorf("up to %d: %v", most, err)
		}
	}
}

func TestSearchGoesPageByPage(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	for i := range 5 {
		b.Schedule(base(fmt.Sprint(i)))
	}
	for _, latest := range []bool{false, true} {
		var got string
		filter := inspect.Filter{Limit: 2, LatestFirst: latest}
		for pages := 0; ; pages++ {
			page, err := b.Inspector.Search(b.Ctx, b.Pool, filter)
			b.Check(err)
			for _, row := range page.Rows {
				got += row.ID
			}
			if filter.After = page.After; page.After == nil {
				same(b, "pages before the last", pages, 2)
				break
			}
		}
		same(b, "tasks", got, map[bool]string{false: "01234", true: "43210"}[latest])
	}
}
