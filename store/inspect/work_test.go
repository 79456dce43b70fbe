package inspect_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tasktable/tasktable/store"
	"github.com/tasktable/tasktable/store/inspect"
)

func TestWork(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	got, err := b.Inspector.Work(b.Ctx, b.Pool)
	b.Check(err)
	same(b, "of nobody", got, inspect.Work{InHand: map[int64]int{}, Running: []inspect.RunningTasks{}})
	b.lane("default", "AA", 0, 1, 1, 4)
	b.lane("mail", "BB", 0, 0, 0, 2)
	began := longAgo.UTC()
	b.AsEngine(func(tx pgx.Tx) {
		for id, started := range map[string]string{
			"defaultAA0 2": "7 2", "defaultAA0 3": "7 1", "defaultAA0 4": "8 3", "mailBB0 0": "7 4",
		} {
			var node, hour int
			_, _ = fmt.Sscan(started, &node, &hour)
			b.Exec(tx, `UPDATE tasktable.scheduled_tasks SET node = $2, started_fence = fence, started_at = $3 WHERE id = $1`,
				id, node, began.Add(time.Duration(hour)*time.Hour))
		}
		// This one ran before, and has only been claimed since.
		b.Exec(tx, `UPDATE tasktable.scheduled_tasks SET node = 7, started_fence = fence - 1000, started_at = $1
			WHERE id = 'mailBB0 1'`, began)
	})
	for _, job := range []struct{ state, metadata, by string }{
		{"running", `{"tasks": 3}`, `{"tasktable-7"}`}, {"running", `{"tasks": 2}`, `{"tasktable-6", "tasktable-7"}`},
		{"running", `{"tasks": "many"}`, `{"tasktable-8"}`}, {"running", `{}`, `{"somebody else"}`},
		{"available", `{"tasks": 9}`, `{"tasktable-7"}`},
	} {
		b.Exec(b.Pool, `INSERT INTO tasktable.river_job (state, metadata, attempted_by, kind, args, max_attempts, attempted_at)
			VALUES ($1::text::tasktable.river_job_state, $2::text::jsonb, $3::text::text[], 'TEST', '{}', 1,
				clock_timestamp())`, job.state, job.metadata, job.by)
	}
	at := func(hour int) time.Time { return began.Add(time.Duration(hour) * time.Hour) }
	want := inspect.Work{InHand: map[int64]int{7: 5, 8: 1}, Running: []inspect.RunningTasks{
		{Node: 7, Queue: "default", Count: 2, ID: "defaultAA0 3", Type: "AA", Since: at(1)},
		{Node: 8, Queue: "default", Count: 1, ID: "defaultAA0 4", Type: "AA", Since: at(3)},
		{Node: 7, Queue: "mail", Count: 1, ID: "mailBB0 0", Type: "BB", Since: at(4)},
	}}
	for driver, db := range b.Readers() {
		got, err := b.Inspector.Work(b.Ctx, db)
		b.Check(err)
		for i := range got.Running {
			got.Running[i].Since = got.Running[i].Since.UTC()
		}
		same(b, driver, got, want)
	}
}

func TestComingTasks(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.lane("default", "AA", 0, 2, 2, 1)
	b.lane("mail", "AA", 5, 1, 3, 0)
	b.MakeRecurring("recurs", "planned")
	b.Make("retry", "QUEUED")
	b.Make("paused", "PAUSED")
	for driver, db := range b.Readers() {
		for most, want := range map[int]string{
			1:    "mailAA5 1",
			1000: "mailAA5 1, defaultAA0 2, mailAA5 2, defaultAA0 3, mailAA5 3, retry after 2",
		} {
			tasks, err := b.Inspector.ComingTasks(b.Ctx, db, most)
			b.Check(err)
			var got []string
			for i, task := range tasks {
				one := task.ID
				if task.Attempt > 0 {
					one += fmt.Sprint(" after ", task.Attempt)
				}
				if got = append(got, one); i > 0 && task.At.Before(tasks[i-1].At) {
					t.Errorf("%s is before %s", task.At, tasks[i-1].At)
				}
			}
			same(b, fmt.Sprint(driver, most), strings.Join(got, ", "), want)
		}
	}
	for _, most := range []int{0, 1001} {
		if _, err := b.Inspector.ComingTasks(b.Ctx, noDB(b), most); !errors.Is(err, store.ErrInvalid) {
			t.Errorf("%d: %v", most, err)
		}
	}
}
