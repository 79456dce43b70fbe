package scheduledtest_test

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/tasktable/tasktable/handlers"
	"github.com/tasktable/tasktable/scheduled/internal/enginetest"
	"github.com/tasktable/tasktable/scheduled/scheduledtest"
	"github.com/tasktable/tasktable/store"
	"github.com/tasktable/tasktable/store/seal"
	"github.com/tasktable/tasktable/store/storetest"
)

// What a handler asks for with FollowUpIfDead is scheduled if the attempt is the last, and only then. What the task has
// in IfDead is scheduled then, too, and runs. Both are encoded.
func TestFollowUpIfDead(t *testing.T) {
	t.Parallel()
	codec, err := seal.New(seal.Key{ID: "1", Secret: bytes.Repeat([]byte{1}, 32)})
	enginetest.OK(t, err)
	sealed := store.New(store.Config{Codec: codec})
	for name, c := range map[string]struct {
		err  error
		ends bool
		ask  func(*handlers.Task[reminder])
		want store.AttemptOutcome
	}{
		"completed": {nil, false, nil, "COMPLETED"},
		"retried":   {errors.New("oh"), false, nil, "RETRIED"},
		"snoozed":   {handlers.Snooze(0), false, nil, "SNOOZED"},
		"permanent": {handlers.Permanent(errors.New("oh")), true, nil, "FAILED"},
		"panicked": {errors.New("oh"), true,
			func(task *handlers.Task[reminder]) { task.MaxAttempts = task.Attempt; panic("oh") }, "FAILED"},
		"the task itself": {nil, true, func(task *handlers.Task[reminder]) {
			task.FollowUpIfDead(store.Task{ID: task.ID, Payload: reminder{"again"}})
		}, "FAILED"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pool := storetest.Pool(t)
			tx := begin(t, pool)
			h := scheduledtest.New(t, tx, registry(t,
				handlers.Handle(func(_ context.Context, task *handlers.Task[reminder]) error {
					if task.Payload.Event != "one" {
						return nil
					}
					task.FollowUpIfDead(store.Task{Payload: reminder{"asked"}, Entity: "order:1"})
					if c.ask != nil {
						c.ask(task)
					}
					return c.err
				})), scheduledtest.WithCodec(codec))
			if _, err := sealed.Schedule(t.Context(), tx, store.Task{Payload: reminder{"one"}, At: fivePM, Entity: "event:1",
				IfDead: []store.Task{{Payload: reminder{"planned"}}}}); err != nil {
				t.Fatal(err)
			}
			var ran []string
			for _, one := range h.RunDueAt(t.Context(), fivePM) {
				if len(ran) == 0 && one.Outcome != c.want {
					t.Errorf("outcome %s, want %s", one.Outcome, c.want)
				}
				ran = append(ran, one.ID)
			}
			slices.Sort(ran)
			want := []string{"task-REMINDER-one"}
			if c.ends {
				want = []string{"task-REMINDER-asked", "task-REMINDER-one", "task-REMINDER-planned"}
			}
			if !slices.Equal(slices.Compact(ran), want) {
				t.Fatalf("ran %v, want %v", ran, want)
			}
			if !c.ends {
				return
			}
			for id, entity := range map[string]string{"task-REMINDER-asked": "order:1", "task-REMINDER-planned": "event:1"} {
				row, err := tasks.Get(t.Context(), tx, id)
				if err != nil || *row.SpawnedBy != "task-REMINDER-one" || *row.Entity != entity ||
					!strings.Contains(string(row.Payload), "$codec") {
					t.Errorf("%+v, %v", row, err)
				}
			}
		})
	}
}
