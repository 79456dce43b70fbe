package inspect_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/tasktable/tasktable/store"
	"github.com/tasktable/tasktable/store/inspect"
	"github.com/tasktable/tasktable/store/internal/testbench"
	"github.com/tasktable/tasktable/store/recurrence"
)

// TestForecastByOtherZoneData: a fire that the leader planned with other zone data is shown as planned,
// and not once more.
func TestForecastByOtherZoneData(t *testing.T) {
	t.Parallel()
	rule, err := recurrence.Parse("0 9 * * *", "Europe/Berlin") // 08:00 in UTC
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		planned time.Time
		data    string
		differ  bool
		want    string
	}{
		{day(8, 0), rule.ZoneData(), false, "08:00 2030-01-02T08:00"},
		{day(7, 0), "other", true, "07:00 2030-01-02T08:00"},
		{day(9, 0), "other", true, "09:00 2030-01-02T08:00"},
	} {
		task := inspect.RecurringTask{ID: "r", Type: "TEST", Queue: "mail", Status: store.StatusQueued,
			Cron: "0 9 * * *", TimeZone: "Europe/Berlin", StartsAt: day(0, 30), NextFire: &c.planned,
			PlannedZoneData: &c.data, PlannedWall: new(day(9, 0))}
		forecast, err := task.Forecast(day(1, 0), nil, 2)
		if err != nil || said(forecast) != c.want || forecast.ZoneDataDiffer != c.differ {
			t.Errorf(
				"planned for %s: %s, %t, %v; want %s", c.planned, said(forecast), forecast.ZoneDataDiffer, err, c.want,
			)
		}
	}
}

// day is a time of 2030-01-01, a Tuesday, in UTC.
func day(hour, minute int) time.Time { return time.Date(2030, 1, 1, hour, minute, 0, 0, time.UTC) }

// said writes a forecast in a line: "15:04" for each fire, "!" behind one that is overdue, and what it is paused by.
func said(f inspect.Forecast) string {
	var fires []string
	for _, fire := range f.Fires {
		text := fire.At.Format("15:04")
		if fire.At.YearDay() != 1 || fire.At.Year() != 2030 {
			text = fire.At.Format("2006-01-02T15:04")
		}
		if fire.Overdue {
			text += "!"
		}
		if len(fire.Paused) > 0 {
			text += "(" + strings.Join(fire.Paused, ",") + ")"
		}
		fires = append(fires, text)
	}
	if f.Ended != "" {
		fires = append(fires, "then "+f.Ended)
	}
	return strings.Join(fires, " ")
}

func TestForecast(t *testing.T) {
	t.Parallel()
	now := day(12, 0)
	hourly := func(change func(*inspect.RecurringTask)) inspect.RecurringTask {
		task := inspect.RecurringTask{ID: "r", Type: "TEST", Queue: "mail", Status: store.StatusQueued,
			Cron: "0 * * * *", TimeZone: "UTC", StartsAt: day(0, 30), NextFire: new(day(13, 0)),
			LastFire: new(day(12, 0)), OccurrenceCount: 12}
		change(&task)
		return task
	}
	until := func(scope, name string, at time.Time) store.Pause {
		return store.Pause{Scope: scope, Name: name, EndsAt: &at}
	}
	for name, c := range map[string]struct {
		change func(*inspect.RecurringTask)
		pauses []store.Pause
		most   int
		want   string
	}{
		"planned":     {func(*inspect.RecurringTask) {}, nil, 3, "13:00 14:00 15:00"},
		"one":         {func(*inspect.RecurringTask) {}, nil, 1, "13:00"},
		"overdue":     {func(r *inspect.RecurringTask) { r.NextFire = new(day(9, 0)) }, nil, 3, "09:00! 13:00 14:00"},
		"due now":     {func(r *inspect.RecurringTask) { r.NextFire = &now }, nil, 2, "12:00! 13:00"},
		"not as cron": {func(r *inspect.RecurringTask) { r.NextFire = new(day(12, 20)) }, nil, 2, "12:20 13:00"},
		"to be planned": {
			func(r *inspect.RecurringTask) { r.NextFire, r.PlanFrom = nil, new(day(11, 59)) }, nil, 2,
			"13:00 14:00",
		},
		"planned late": {
			func(r *inspect.RecurringTask) { r.NextFire, r.PlanFrom, r.LastFire = nil, new(day(10, 59)), nil },
			nil, 2, "11:00! 13:00",
		},
		"in the future": {func(r *inspect.RecurringTask) {
			r.NextFire, r.PlanFrom, r.LastFire, r.StartsAt = nil, &now, nil, day(18, 0)
		}, nil, 2, "18:00 19:00"},
		"in its zone": {func(r *inspect.RecurringTask) {
			r.NextFire, r.PlanFrom, r.Cron, r.TimeZone = nil, &now, "0 9 * * *", "Asia/Tokyo"
		}, nil, 2, "2030-01-02T00:00 2030-01-03T00:00"},
		"every": {
			func(r *inspect.RecurringTask) { r.NextFire, r.PlanFrom, r.Cron = nil, &now, "@every 7h" }, nil, 3,
			"14:30 21:30 2030-01-02T04:30",
		},

		"ends": {
			func(r *inspect.RecurringTask) { r.EndsAt = new(day(14, 0)) }, nil, 5,
			"13:00 14:00 then it ends at 2030-01-01T14:00:00Z",
		},
		"ends just then": {
			func(r *inspect.RecurringTask) { r.EndsAt = new(day(14, 0)) }, nil, 2,
			"13:00 14:00 then it ends at 2030-01-01T14:00:00Z",
		},
		"ends later": {func(r *inspect.RecurringTask) { r.EndsAt = new(day(15, 0)) }, nil, 2, "13:00 14:00"},
		"two are left": {
			func(r *inspect.RecurringTask) { r.MaxOccurrences = new(14) }, nil, 5,
			"13:00 14:00 then it ends after 14 occurrences; skipped ones do not count",
		},
		"no further fire": {
			func(r *inspect.RecurringTask) { r.NextFire = new(time.Date(9999, 12, 31, 23, 0, 0, 0, time.UTC)) },
			nil, 5, "9999-12-31T23:00 then the expression has no further fire",
		},
		"ended": {func(r *inspect.RecurringTask) {
			r.Status, r.NextFire, r.Message = store.StatusCompleted, nil, new("ended after 12 occurrences")
		}, nil, 5, "then it is COMPLETED: ended after 12 occurrences"},
		"cancelled": {
			func(r *inspect.RecurringTask) { r.Status, r.NextFire = store.StatusCancelled, nil }, nil, 5,
			"then it is CANCELLED",
		},
		"unreadable": {
			func(r *inspect.RecurringTask) { r.Status, r.NextFire, r.Cron = store.StatusFailed, nil, "no" }, nil, 5,
			"then it is FAILED",
		},

		"paused": {
			func(r *inspect.RecurringTask) { r.Status, r.NextFire = store.StatusPaused, nil }, nil, 2,
			"13:00(task) 14:00(task)",
		},
		"paused until": {func(r *inspect.RecurringTask) {
			r.Status, r.NextFire, r.PausedUntil = store.StatusPaused, nil, new(day(14, 0))
		}, nil, 3, "13:00(task) 14:00 15:00"},
		"paused before it starts": {func(r *inspect.RecurringTask) {
			r.Status, r.NextFire, r.StartsAt, r.LastFire = store.StatusPaused, nil, day(20, 0), nil
		}, nil, 2, "20:00(task) 21:00(task)"},
		"paused ones do not count": {func(r *inspect.RecurringTask) {
			r.Status, r.NextFire, r.PausedUntil, r.MaxOccurrences = store.StatusPaused, nil, new(day(14, 0)),
				new(14)
		}, nil, 9, "13:00(task) 14:00 15:00 then it ends after 14 occurrences; skipped ones do not count"},
		"scopes": {
			func(*inspect.RecurringTask) {},
			[]store.Pause{until("all", "", day(13, 30)), until("queue", "mail", day(14, 0)),
				until("queue", "other", day(20, 0)), until("type", "TEST", day(15, 30)),
				until("type", "OTHER", day(20, 0))},
			4, "13:00(all,queue:mail,type:TEST) 14:00(type:TEST) 15:00(type:TEST) 16:00",
		},
		"for good": {func(*inspect.RecurringTask) {}, []store.Pause{{Scope: "all"}}, 1, "13:00(all)"},
		"overdue and paused": {
			func(r *inspect.RecurringTask) { r.NextFire = new(day(9, 0)) },
			[]store.Pause{until("all", "", day(12, 30))}, 2, "09:00!(all) 13:00",
		},
	} {
		forecast, err := hourly(c.change).Forecast(now, c.pauses, c.most)
		if err != nil || said(forecast) != c.want {
			t.Errorf("%s: %s instead of %s, %v", name, said(forecast), c.want, err)
		}
		if forecast.Fires == nil || !forecast.Now.Equal(now) || forecast.Task.ID != "r" {
			t.Errorf("%s: %+v", name, forecast)
		}
	}
	_, err := hourly(func(r *inspect.RecurringTask) { r.Cron = "no" }).Forecast(now, nil, 1)
	if !errors.Is(err, store.ErrInvalid) || !errors.Is(err, recurrence.ErrInvalid) {
		t.Errorf("an expression that cannot be read: %v", err)
	}
}

func TestListRecurring(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	for _, kind := range testbench.RecurringKinds {
		b.MakeRecurring(kind, kind)
	}
	b.Make("plain", "QUEUED")
	full := recurs("full")
	full.Queue, full.Entity, full.Payload, full.Jitter = "mail", "member:7", typed("OTHER"), time.Minute
	full.Recurrence = &store.Recurrence{Cron: "@every 90s", TimeZone: "Europe/Berlin", Overlap: store.OverlapAllow,
		CatchUp: store.CatchUpAll, CatchUpPaused: store.CatchUpLatest, CatchUpLimit: 7, EndsAt: far(600),
		MaxOccurrences: 9}
	b.Schedule(full)
	b.Plan("full", "'2100-01-01 09:00Z'")
	b.Exec(b.Pool, `UPDATE tasktable.scheduled_tasks SET declared_by = 'shop' WHERE id = 'full'`)
	b.must(b.Tasks.PauseScope(b.Ctx, b.Pool, store.Queue("mail"), time.Time{}, ""))

	basic := inspect.RecurringTask{Type: "TEST", Queue: "default", Status: store.StatusQueued,
		TenantID: new("acme"), Cron: "0 9 * * *", TimeZone: "UTC", StartsAt: far(0), OccurrenceCount: 3,
		Health:  inspect.HealthNew,
		Overlap: store.OverlapSkip, CatchUp: store.CatchUpLatest, CatchUpPaused: store.CatchUpNone, CatchUpLimit: 100,
		Message: new("as planned")}
	of := func(id string, change func(*inspect.RecurringTask)) inspect.RecurringTask {
		task := basic
		task.ID, task.Entity = id, new("of "+id)
		change(&task)
		return task
	}
	nine := new(far(540))
	wanted := map[string]inspect.RecurringTask{
		"unplanned": of("unplanned", func(r *inspect.RecurringTask) { r.OccurrenceCount, r.Message = 0, nil }),
		"planned":   of("planned", func(r *inspect.RecurringTask) { r.NextFire = nine }),
		"due":       of("due", func(*inspect.RecurringTask) {}),
		"PAUSED": of("PAUSED", func(r *inspect.RecurringTask) {
			r.Status, r.PausedUntil, r.Health = store.StatusPaused, new(far(60)), inspect.HealthPaused
		}),
		"CANCELLED": of("CANCELLED", func(r *inspect.RecurringTask) {
			r.Status, r.Health = store.StatusCancelled, inspect.HealthEnded
		}),
		"COMPLETED": of("COMPLETED", func(r *inspect.RecurringTask) {
			r.Status, r.Health = store.StatusCompleted, inspect.HealthEnded
		}),
		"FAILED": of("FAILED", func(r *inspect.RecurringTask) {
			r.Status, r.Health = store.StatusFailed, inspect.HealthEnded
		}),
		"full": {ID: "full", Type: "OTHER", Queue: "mail", Status: store.StatusQueued, Entity: new("member:7"),
			TenantID: new("acme"), Cron: "@every 90s", TimeZone: "Europe/Berlin", StartsAt: far(0),
			NextFire: nine, OccurrenceCount: 3, Overlap: store.OverlapAllow, CatchUp: store.CatchUpAll,
			CatchUpPaused: store.CatchUpLatest, CatchUpLimit: 7, Jitter: new(time.Minute),
			EndsAt: new(far(600)), MaxOccurrences: new(9), IsPaused: true, Health: inspect.HealthPaused,
			DeclaredBy: new("shop"),
			Message:    new("as planned")},
	}
	for name, c := range map[string]struct {
		filter inspect.RecurringFilter
		ids    string
	}{
		"all":        {inspect.RecurringFilter{}, "CANCELLED COMPLETED FAILED PAUSED due full planned unplanned"},
		"type":       {inspect.RecurringFilter{Type: "OTHER"}, "full"},
		"queue":      {inspect.RecurringFilter{Queue: "mail"}, "full"},
		"status":     {inspect.RecurringFilter{Status: store.StatusQueued}, "due full planned unplanned"},
		"entity":     {inspect.RecurringFilter{Entity: "of due"}, "due"},
		"tenant":     {inspect.RecurringFilter{TenantID: "other"}, ""},
		"declared":   {inspect.RecurringFilter{DeclaredBy: "shop"}, "full"},
		"first page": {inspect.RecurringFilter{Limit: 3}, "CANCELLED COMPLETED FAILED"},
		"next page":  {inspect.RecurringFilter{After: "FAILED", Limit: 3}, "PAUSED due full"},
	} {
		for driver, db := range b.Readers() {
			tasks, err := b.Inspector.ListRecurring(b.Ctx, db, c.filter)
			b.Check(err)
			want := []inspect.RecurringTask{}
			for id := range strings.FieldsSeq(c.ids) {
				want = append(want, wanted[id])
			}
			for i := range tasks {
				tidyRecurring(b, &tasks[i])
			}
			same(b, name+": "+driver, tasks, want)
			c.filter.WithoutHealth = true
			plain, err := b.Inspector.ListRecurring(b.Ctx, db, c.filter)
			b.Check(err)
			for i := range plain {
				plain[i].ExpectedSince = &plain[i].ReadAt // not read
				tidyRecurring(b, &plain[i])
				want[i].Health = ""
			}
			same(b, name+" without health: "+driver, plain, want)
			c.filter.WithoutHealth = false
		}
	}
	one, err := b.Inspector.GetRecurring(b.Ctx, b.Pool, "full")
	b.Check(err)
	tidyRecurring(b, &one)
	same(b, "one", one, wanted["full"])
	for _, filter := range []inspect.RecurringFilter{
		{Limit: -1}, {Limit: 10001}, {Type: "a\x00"}, {After: "a\x00"}, {Status: "\xff"},
	} {
		if _, err := b.Inspector.ListRecurring(b.Ctx, noDB(b), filter); !errors.Is(err, store.ErrInvalid) {
			t.Errorf("%+v: %v", filter, err)
		}
	}
}

// tidyRecurring takes out of a task what no test can know, and makes its times comparable.
func tidyRecurring(b *bench, task *inspect.RecurringTask) {
	b.Helper()
	planned := task.Status == store.StatusQueued && task.ID != "unplanned"
	if planned != (task.NextFire != nil) || (task.PlanFrom != nil) != (task.ID == "unplanned") {
		b.Errorf("%s: next fire %v, plan from %v", task.ID, task.NextFire, task.PlanFrom)
	}
	if task.ID == "due" {
		task.NextFire = nil
	}
	if task.ReadAt.IsZero() || task.ExpectedSince == nil || task.Allowance < 5*time.Minute {
		b.Errorf("%s: health is judged by %+v", task.ID, task.HealthBasis)
	}
	task.LastFire, task.StartsAt, task.HealthBasis = nil, task.StartsAt.UTC(), inspect.HealthBasis{}
	for _, at := range []**time.Time{&task.NextFire, &task.EndsAt, &task.PausedUntil} {
		if *at != nil {
			*at = new((*at).UTC())
		}
	}
}

// The fires that are left out count for the end, and the end is told even if all are left out.
func TestForecastAfter(t *testing.T) {
	t.Parallel()
	first := time.Date(2100, 1, 1, 9, 0, 0, 0, time.UTC)
	task := inspect.RecurringTask{
		Cron: "0 9 * * *", TimeZone: "UTC", Status: store.StatusQueued, StartsAt: first, NextFire: &first,
	}
	for _, c := range []struct {
		after time.Time
		most  *int
		want  string
	}{
		{time.Time{}, nil, "2100-01-01T09:00 2100-01-02T09:00"},
		{first, nil, "2100-01-02T09:00 2100-01-03T09:00"},
		{first.AddDate(900, 0, 0).Add(-1), nil, "3000-01-01T09:00 3000-01-02T09:00"},
		{first.AddDate(0, 0, 1), new(3), "2100-01-03T09:00 then it ends after 3 occurrences; skipped ones do not count"},
		{first.AddDate(0, 0, 9), new(3), "then it ends after 3 occurrences; skipped ones do not count"},
	} {
		task.MaxOccurrences = c.most
		forecast, err := task.ForecastAfter(c.after, first.Add(-time.Hour), nil, 2)
		if err != nil || said(forecast) != c.want {
			t.Errorf("after %s: %s, %v", c.after, said(forecast), err)
		}
	}
}

func TestNextFires(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	for _, kind := range []string{"planned", "PAUSED", "COMPLETED"} {
		b.MakeRecurring(kind, kind)
	}
	b.Make("plain", "QUEUED")
	for driver, db := range b.Readers() {
		for id, want := range map[string]string{
			"planned":   "2100-01-01T09:00 2100-01-02T09:00",
			"PAUSED":    "2100-01-01T09:00 2100-01-02T09:00",
			"COMPLETED": "then it is COMPLETED: as planned",
		} {
			forecast, err := b.Inspector.NextFires(b.Ctx, db, id, 2)
			b.Check(err)
			for i := range forecast.Fires {
				forecast.Fires[i].At = forecast.Fires[i].At.UTC()
			}
			if said(forecast) != want {
				t.Errorf("%s, %s: %s", driver, id, said(forecast))
			}
		}
	}
	b.must(b.Tasks.PauseScope(b.Ctx, b.Pool, store.Type("TEST"), time.Time{}, ""))
	forecast, err := b.Inspector.NextFires(b.Ctx, b.Pool, "planned", 1)
	if err != nil || fmt.Sprint(forecast.Fires[0].Paused) != "[type:TEST]" || !forecast.Task.IsPaused {
		t.Errorf("paused: %+v, %v", forecast, err)
	}
	for id, want := range map[string]error{
		"nobody": store.ErrNotFound, "plain": store.ErrNotRecurring, "": store.ErrInvalid,
	} {
		if _, err := b.Inspector.NextFires(b.Ctx, b.Pool, id, 1); !errors.Is(err, want) {
			t.Errorf("%q: %v", id, err)
		}
	}
	for _, most := range []int{0, -1, 10001} {
		if _, err := b.Inspector.NextFires(b.Ctx, noDB(b), "planned", most); !errors.Is(err, store.ErrInvalid) {
			t.Errorf("%d: %v", most, err)
		}
	}
}
