package store_test

import (
	"testing"
	"time"

	"github.com/tasktable/tasktable/store"
)

// RunNow leaves scheduled_at as it was asked, so what it does must outlive the application's next Schedule of the
// same, and end with the next other time.
func TestWhatBecomesOfRunNow(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	stays := time.Time{}
	for _, then := range []struct {
		name  string
		steps []step
		due   time.Time
	}{
		{"identical", []step{does("identical")}, stays},
		{"at zero", []step{does("at_zero")}, stays},
		{"another field", []step{does("other_field")}, stays},
		{"another time", []step{does("other_time")}, far(5)},
		{"rescheduled", []step{does("re_other")}, far(5)},
		{"rescheduled for the same time", []step{does("re_same")}, stays},
		{"paused and resumed", []step{does("pause"), does("resume")}, stays},
		{"paused, moved and resumed", []step{does("pause"), does("other_time"), does("resume")}, far(5)},
		{"cancelled and scheduled", []step{does("cancel"), does("identical")}, far(0)},
		{"completed and moved", []step{sets(`status = 'COMPLETED'`), does("other_time")}, far(5)},
		{"failed and moved back",
			[]step{does("other_time"), does("run_now"), sets(`status = 'FAILED'`), does("identical")}, far(0)},
	} {
		b.each(then.name, func(b *bench) {
			b.Schedule(base(then.name))
			from := b.Now()
			b.do("run_now", then.name)
			asked := b.Get(then.name)
			if asked.RunNowAt == nil || asked.RunNowAt.Before(from) || !asked.ScheduledAt.Equal(far(0)) {
				b.Fatalf("after run now: scheduled_at %v, run_now_at %v", asked.ScheduledAt, asked.RunNowAt)
			}
			for _, step := range then.steps {
				step(b, then.name)
			}
			row := b.Get(then.name)
			want := []any{store.StatusQueued, asked.RunNowAt, asked.RunNowAt}
			if then.due != stays {
				want = []any{store.StatusQueued, nil, then.due}
			}
			same(b, "run now", []any{row.Status, row.RunNowAt, row.NextAttemptAt}, want)
		})
	}
}
