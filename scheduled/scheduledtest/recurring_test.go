package scheduledtest_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tasktable/tasktable/handlers"
	"github.com/tasktable/tasktable/scheduled/internal/enginetest"
	"github.com/tasktable/tasktable/scheduled/scheduledtest"
	"github.com/tasktable/tasktable/store"
	"github.com/tasktable/tasktable/store/inspect"
	"github.com/tasktable/tasktable/store/storetest"
)

// hourly is a harness with a recurring task that begins at five.
func hourly(t *testing.T, change func(*store.Task)) (*scheduledtest.Harness, pgx.Tx) {
	t.Helper()
	tx := begin(t, storetest.Pool(t))
	task := store.Task{
		ID: "digest", Payload: reminder{"digest"}, At: fivePM, Recurrence: &store.Recurrence{Cron: "@hourly"},
	}
	if change != nil {
		change(&task)
	}
	schedule(t, tx, task)
	return scheduledtest.New(
		t, tx, registry(t, handlers.Handle(func(context.Context, *handlers.Task[reminder]) error { return nil })),
	), tx
}

// hours lists which occurrences ran, by the hour after five for which they were, and what came of each.
func hours(t *testing.T, ran []scheduledtest.Ran) string {
	t.Helper()
	var text []string
	for _, one := range ran {
		at, err := time.Parse("digest@"+time.RFC3339, one.ID)
		enginetest.OK(t, err)
		text = append(text, fmt.Sprint(at.Sub(fivePM).Hours(), " ", one.Outcome))
	}
	return strings.Join(text, ", ")
}

// skipped lists the fires that did not run, with the reasons.
func skipped(t *testing.T, tx pgx.Tx) (reasons []string) {
	t.Helper()
	rows, err := inspect.New(store.Config{}).List(t.Context(), tx, inspect.Filter{
		Statuses: []store.Status{store.StatusSkipped},
	})
	enginetest.OK(t, err)
	for _, row := range rows {
		reasons = append(reasons, fmt.Sprint(row.ScheduledAt.Sub(fivePM).Hours(), " ", *row.Message))
	}
	slices.Sort(reasons)
	return reasons
}

func TestRecurringTaskFires(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name    string
		policy  store.CatchUp
		ran     string
		skipped string
	}{
		{"all", store.CatchUpAll, "0 COMPLETED, 1 COMPLETED, 2 COMPLETED, 3 COMPLETED", "[]"},
		{
			"latest", "", "3 COMPLETED",
			"[0 missed, and catch_up runs only the latest 1 missed, and catch_up runs only the latest 2 missed, " +
				"and catch_up runs only the latest]",
		},
		{
			"none", store.CatchUpNone, "",
			"[0 missed, and catch_up is none 1 missed, and catch_up is none 2 missed, and catch_up is none 3 missed, " +
				"and catch_up is none]",
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			h, tx := hourly(t, func(task *store.Task) { task.Recurrence.CatchUp = test.policy })
			runs(t, h, fivePM.Add(-time.Second))
			if got := hours(t, h.RunDueAt(t.Context(), fivePM.Add(3*time.Hour))); got != test.ran {
				t.Errorf("ran %s, want %s", got, test.ran)
			}
			if got := fmt.Sprint(skipped(t, tx)); got != test.skipped {
				t.Errorf("skipped %s, want %s", got, test.skipped)
			}
			runs(t, h, fivePM.Add(3*time.Hour))
			if got := hours(t, h.RunDueAt(t.Context(), fivePM.Add(4*time.Hour))); got != "4 COMPLETED" {
				t.Errorf("an hour later ran %s", got)
			}
		})
	}
}

func TestRecurringTaskHourByHour(t *testing.T) {
	t.Parallel()
	h, tx := hourly(t, func(task *store.Task) { task.Recurrence.MaxOccurrences = 3 })
	for hour, want := range []string{"0 COMPLETED", "1 COMPLETED", "2 COMPLETED", "", ""} {
		if got := hours(t, h.RunDueAt(t.Context(), fivePM.Add(time.Duration(hour)*time.Hour))); got != want {
			t.Errorf("hour %d: ran %s, want %s", hour, got, want)
		}
	}
	row, err := tasks.Get(t.Context(), tx, "digest")
	if err != nil || row.Status != store.StatusCompleted || row.OccurrenceCount != 3 ||
		!row.StartedAt.Equal(fivePM.Add(2*time.Hour)) {
		t.Errorf("the task itself is %+v, %v", row, err)
	}
}

// The test's clock may be years behind the database's, or ahead of it.
func TestRecurringTaskInThePast(t *testing.T) {
	t.Parallel()
	tx := begin(t, storetest.Pool(t))
	h := scheduledtest.New(
		t, tx, registry(t, handlers.Handle(func(context.Context, *handlers.Task[reminder]) error { return nil })),
	)
	start := fivePM.AddDate(-20, 0, 0)
	task := store.Task{
		ID: "digest", Payload: reminder{"digest"}, At: start,
		Recurrence: &store.Recurrence{Cron: "@hourly", CatchUp: store.CatchUpAll},
	}
	ids := func(after time.Duration) string {
		t.Helper()
		var ids []string
		for _, one := range h.RunDueAt(t.Context(), start.Add(after)) {
			ids = append(ids, strings.TrimPrefix(one.ID, "digest@2010-05-01T"))
		}
		return strings.Join(ids, " ")
	}
	for _, step := range []struct {
		edit  func(*store.Task)
		after time.Duration
		want  string
	}{
		{func(*store.Task) {}, -time.Second, ""},
		{func(*store.Task) {}, 0, "17:00:00Z"},
		{func(*store.Task) {}, 2 * time.Hour, "18:00:00Z 19:00:00Z"},
		{func(task *store.Task) { task.Priority = 1 }, 2 * time.Hour, ""},
		{func(*store.Task) {}, 3 * time.Hour, "20:00:00Z"},
		// It had that one to come before the edit.
		{func(task *store.Task) { task.Recurrence.Cron = "@daily" }, 6 * time.Hour, "21:00:00Z"},
		{func(*store.Task) {}, 7 * time.Hour, "digest@2010-05-02T00:00:00Z"},
	} {
		step.edit(&task)
		schedule(t, tx, task)
		if got := ids(step.after); got != step.want {
			t.Errorf("%s after five: ran %s, want %s", step.after, got, step.want)
		}
	}
}

func TestOccurrenceThatExpires(t *testing.T) {
	t.Parallel()
	h, _ := hourly(t, func(task *store.Task) {
		task.Recurrence.CatchUp, task.Expiration = store.CatchUpAll, 90*time.Minute
	})
	if got := hours(t, h.RunDueAt(t.Context(), fivePM.Add(3*time.Hour))); got !=
		"0 EXPIRED, 1 EXPIRED, 2 COMPLETED, 3 COMPLETED" {
		t.Errorf("ran %s", got)
	}
}

func TestPauseAndResume(t *testing.T) {
	t.Parallel()
	h, tx := hourly(t, nil)
	if got := hours(t, h.RunDueAt(t.Context(), fivePM)); got != "0 COMPLETED" {
		t.Errorf("ran %s", got)
	}
	for _, step := range []struct {
		what string
		verb func() error
		at   time.Duration
		want string
	}{
		{"its type is paused", func() error {
			_, err := tasks.PauseScope(t.Context(), tx, store.Type("REMINDER"), time.Time{}, "")
			return err
		}, time.Hour, ""},
		{
			"its type is resumed",
			func() error { _, err := tasks.ResumeScope(t.Context(), tx, store.Type("REMINDER")); return err },
			2 * time.Hour, "2 COMPLETED",
		},
		{"another queue is paused", func() error {
			_, err := tasks.PauseScope(t.Context(), tx, store.Queue("bulk"), time.Time{}, "")
			return err
		}, 3 * time.Hour, "3 COMPLETED"},
		{
			"it is paused", func() error { _, err := tasks.Pause(t.Context(), tx, "digest"); return err },
			4 * time.Hour, "",
		},
		{
			"it is resumed", func() error { _, err := tasks.Resume(t.Context(), tx, "digest"); return err },
			5 * time.Hour, "5 COMPLETED",
		},
	} {
		enginetest.OK(t, step.verb())
		if got := hours(t, h.RunDueAt(t.Context(), fivePM.Add(step.at))); got != step.want {
			t.Errorf("%s: ran %s, want %s", step.what, got, step.want)
		}
	}
}

// A pause until a time, of a task and of everything, ends at that time of the test's.
func TestPauseUntil(t *testing.T) {
	t.Parallel()
	h, tx := hourly(t, nil)
	schedule(t, tx, store.Task{Payload: reminder{"one-off"}, At: fivePM})
	if _, err := tasks.PauseUntil(t.Context(), tx, "task-REMINDER-one-off", fivePM.Add(30*time.Minute)); err != nil {
		t.Fatal(err)
	}
	ids := func(after time.Duration) (ids []string) {
		for _, one := range h.RunDueAt(t.Context(), fivePM.Add(after)) {
			ids = append(ids, one.ID)
		}
		return ids
	}
	for _, step := range []struct {
		after time.Duration
		want  string
	}{
		{0, "[digest@2030-05-01T17:00:00Z]"}, {30*time.Minute - time.Microsecond, "[]"},
		{30 * time.Minute, "[task-REMINDER-one-off]"}, {time.Hour, "[digest@2030-05-01T18:00:00Z]"},
	} {
		if got := fmt.Sprint(ids(step.after)); got != step.want {
			t.Errorf("%s after five: ran %s, want %s", step.after, got, step.want)
		}
	}
	if _, err := tasks.PauseScope(
		t.Context(), tx, store.Everything(), fivePM.Add(150*time.Minute), "a long move",
	); err != nil {
		t.Fatal(err)
	}
	if got := ids(2 * time.Hour); len(got) != 0 {
		t.Errorf("ran %v", got)
	}
	if got := fmt.Sprint(ids(3 * time.Hour)); got != "[digest@2030-05-01T20:00:00Z]" {
		t.Errorf("after the pause ran %s", got)
	}
	if got := fmt.Sprint(skipped(t, tx)); got != "[2 missed while paused, and catch_up_paused is none]" {
		t.Errorf("skipped %s", got)
	}
}
