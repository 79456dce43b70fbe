package scheduledtest_test

import (
	"testing"
	"time"

	"github.com/tasktable/tasktable/scheduled/internal/enginetest"
	"github.com/tasktable/tasktable/store"
	"github.com/tasktable/tasktable/store/recurrence"
)

// Fires keep out of a calendar, by its days as they are at the time of the test.
func TestRecurringTaskKeepsOutOfACalendar(t *testing.T) {
	t.Parallel()
	h, tx := hourly(t, func(task *store.Task) { task.Recurrence.Cron = "0 17 * * *" })
	closed := func(days ...int) {
		t.Helper()
		calendar := store.Calendar{Name: "company"}
		for _, day := range days {
			date := recurrence.DateOf(fivePM.AddDate(0, 0, day))
			calendar.Days = append(calendar.Days, recurrence.Span{From: date, To: date})
		}
		if _, err := tasks.SetCalendar(t.Context(), tx, calendar); err != nil {
			t.Fatal(err)
		}
	}
	closed(1)
	row, err := tasks.Get(t.Context(), tx, "digest")
	enginetest.OK(t, err)
	task, err := store.TaskOf(row)
	enginetest.OK(t, err)
	task.Recurrence.OutOf = []string{"company"}
	schedule(t, tx, task)
	for day, step := range []struct {
		change func()
		want   string
	}{
		0: {nil, "0 COMPLETED"}, 1: {nil, ""}, 2: {nil, "48 COMPLETED"},
		3: {func() { closed(3, 4) }, ""}, 4: {func() { closed(3) }, "96 COMPLETED"}, 5: {nil, "120 COMPLETED"},
	} {
		if step.change != nil {
			step.change()
		}
		if got := hours(t, h.RunDueAt(t.Context(), fivePM.AddDate(0, 0, day))); got != step.want {
			t.Errorf("day %d: ran %q, want %q", day, got, step.want)
		}
		h.RunDueAt(t.Context(), fivePM.AddDate(0, 0, day).Add(time.Hour))
	}
}
