package scheduledtest_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tasktable/tasktable/handlers"
	"github.com/tasktable/tasktable/scheduled/internal/enginetest"
	"github.com/tasktable/tasktable/scheduled/scheduledtest"
	"github.com/tasktable/tasktable/store"
	"github.com/tasktable/tasktable/store/storetest"
)

// Whatever is asked for "now" under the harness is due at the test's time, however far that is from the real one:
// follow-ups, and tasks that the application schedules, one or many, or runs now, in a handler and between the runs.
func TestNowIsTheTestsTime(t *testing.T) {
	t.Parallel()
	for _, year := range []int{2014, 2044} {
		t.Run(fmt.Sprint(year), func(t *testing.T) {
			t.Parallel()
			tx := begin(t, storetest.Pool(t))
			at := time.Date(year, 5, 1, 17, 0, 0, 0, time.UTC)
			addAll := func(ctx context.Context, tx pgx.Tx, names ...string) error {
				var many []store.Task
				for _, name := range names {
					many = append(many, store.Task{Payload: reminder{name}})
				}
				_, err := tasks.ScheduleMany(ctx, tx, many)
				return err
			}
			many := make([]string, 25)
			for i := range many {
				many[i] = fmt.Sprintf("many %02d", i)
			}
			h := scheduledtest.New(t, tx, registry(t,
				handlers.HandleTx(func(ctx context.Context, tx pgx.Tx, task *handlers.Task[reminder]) error {
					if task.Payload.Event != "first" {
						return nil
					}
					task.FollowUp(store.Task{Payload: reminder{"follow-up"}})
					if _, err := tasks.RunNow(ctx, tx, "task-REMINDER-next year"); err != nil {
						return err
					}
					return addAll(ctx, tx, "in the handler")
				}),
			))
			ran := func(at time.Time) (events []string) {
				for _, one := range h.RunDueAt(t.Context(), at) {
					if one.Outcome != "COMPLETED" {
						t.Errorf("%s: %s, %v", one.ID, one.Outcome, one.Err)
					}
					events = append(events, one.ID[len("task-REMINDER-"):])
				}
				slices.Sort(events)
				return events
			}
			h.SetNow(t.Context(), at)
			schedule(t, tx, store.Task{Payload: reminder{"next year"}, At: at.AddDate(1, 0, 0)})
			enginetest.OK(t, addAll(t.Context(), tx, "first"))
			if got := ran(at.Add(-time.Second)); len(got) != 0 {
				t.Errorf("before its time ran %v", got)
			}
			if got := ran(at); fmt.Sprint(got) != "[first follow-up in the handler next year]" {
				t.Errorf("ran %v", got)
			}
			enginetest.OK(t, addAll(t.Context(), tx, many...))
			if got := ran(at); !slices.Equal(got, many) {
				t.Errorf("of many, scheduled between two runs, ran %v", got)
			}
		})
	}
}
