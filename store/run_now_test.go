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
	schedule := func(change func(*store.Task)) func(*bench, string) {
		return func(b *bench, id string) {
			task := base(id)
			change(&task)
			b.Schedule(task)
		}
	}
	do := func(verb string) func(*bench, string) {
		return func(b *bench, id string) { b.do(verb, id) }
	}
	end := func(status string) func(*bench, string) {
		return func(b *bench, id string) {
			b.Exec(b.Pool, `UPDATE tasktable.scheduled_tasks SET status = $2 WHERE id = $1`, id, status)
		}
	}
	for _, then := range []struct {
		name  string
		steps []func(*bench, string)
		stays bool
		due   time.Time // when it does not
	}{
		{"identical", []func(*bench, string){do("identical")}, true, time.Time{}},
		{"at zero", []func(*bench, string){do("at_zero")}, true, time.Time{}},
		{"another field", []func(*bench, string){do("other_field")}, true, time.Time{}},
		{"another time", []func(*bench, string){do("other_time")}, false, far(5)},
		{"rescheduled", []func(*bench, string){do("re_other")}, false, far(5)},
		{"rescheduled for the same time", []func(*bench, string){do("re_same")}, true, time.Time{}},
		{"paused and resumed", []func(*bench, string){do("pause"), do("resume")}, true, time.Time{}},
		{
			"paused, moved and resumed", []func(*bench, string){do("pause"), do("other_time"), do("resume")}, false,
			far(5),
		},
		{"cancelled and scheduled", []func(*bench, string){do("cancel"), do("identical")}, false, far(0)},
		{"completed and moved", []func(*bench, string){end("COMPLETED"), do("other_time")}, false, far(5)},
		{
			"failed and moved back",
			[]func(*bench, string){
				do("other_time"), do("run_now"), end("FAILED"), schedule(func(t *store.Task) { t.At = far(0) }),
			},
			false, far(0),
		},
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
			want := state{Row: &store.Row{Status: "QUEUED", RunNowAt: asked.RunNowAt, NextAttemptAt: asked.RunNowAt}}
			if !then.stays {
				want.Row.RunNowAt, want.Row.NextAttemptAt = nil, &then.due
			}
			same(
				b, "run now",
				state{Row: &store.Row{Status: row.Status, RunNowAt: row.RunNowAt, NextAttemptAt: row.NextAttemptAt}},
				want,
			)
		})
	}
}
