package store_test

import (
	"testing"
	"time"

	"github.com/tasktable/tasktable/store"
)

// The idempotency key of an attempt is made of asked_revision. It stays while what is asked stays, so that no service
// sees a retry of a dead letter as another wish. It changes with the wish.
func TestAskedRevision(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	retry, runNow, pause := does("retry"), does("run_now"), does("pause")
	priority := schedules(func(task *store.Task) { task.Priority = 7 })
	payloadEdit, move := does("other_field"), does("other_time")
	for _, c := range []struct {
		name, kind string
		do         step
		draws      bool
	}{
		{"retry of a dead letter", "FAILED", retry, false},
		{"retry of an expired task", "EXPIRED", retry, false},
		{"run now of a dead letter", "FAILED", runNow, false},
		{"run now of a cancelled task", "CANCELLED", runNow, false},
		{"run now of a waiting task", "QUEUED", runNow, false},
		{"run now of a completed task", "COMPLETED", runNow, true},
		{"pause", "QUEUED", pause, false},
		{"rearm of a cancelled task", "CANCELLED", schedules(func(*store.Task) {}), false},
		{"rearm of a completed task", "COMPLETED", schedules(func(task *store.Task) {
			task.At, task.IfFinished = time.Time{}, store.Rearm
		}), true},
		{"priority", "QUEUED", priority, false},
		{"priority of a running task", "EXECUTING", priority, false},
		{"priority of a task that is to run once more", "EXECUTING", func(b *bench, id string) {
			runNow(b, id)
			priority(b, id)
		}, true},
		{"queue", "QUEUED", schedules(func(task *store.Task) { task.Queue = "other" }), false},
		{"retention", "QUEUED", schedules(func(task *store.Task) { task.Retention = 1e9 }), false},
		{"attempts", "QUEUED", schedules(func(task *store.Task) { task.MaxAttempts = 9 }), false},
		{"expected time", "QUEUED", schedules(func(task *store.Task) { task.ExpectedExecutionTime = 1e9 }), false},
		{"expiration", "QUEUED", schedules(func(task *store.Task) { task.Expiration = 1e9 }), false},
		{"tenant", "QUEUED", schedules(func(task *store.Task) { task.TenantID = "other" }), false},
		{"entity", "EXECUTING", schedules(func(task *store.Task) { task.Entity = "other" }), false},
		{"payload", "QUEUED", payloadEdit, true},
		{"payload of a running task", "EXECUTING", payloadEdit, true},
		{"payload of a dead letter by SQL", "FAILED", sets(`payload = payload || '{"n": 3}'`), true},
		{"time", "QUEUED", move, true},
		{"time of a dead letter", "FAILED", move, true},
		{"delete and insert", "QUEUED", func(b *bench, id string) {
			b.do("delete", id)
			b.do("identical", id)
		}, true},
	} {
		b.each(c.name, func(b *bench) {
			b.Make(c.name, c.kind)
			before := b.Get(c.name)
			c.do(b, c.name)
			after := b.Get(c.name)
			want := before.AskedRevision
			if c.draws {
				want = after.Revision
			}
			if after.AskedRevision != want || after.Revision == before.Revision {
				b.Errorf("asked_revision went from %d to %d, and revision from %d to %d", before.AskedRevision,
					after.AskedRevision, before.Revision, after.Revision)
			}
		})
	}
}
