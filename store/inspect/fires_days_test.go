package inspect_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/tasktable/tasktable/store"
	"github.com/tasktable/tasktable/store/inspect"
	"github.com/tasktable/tasktable/store/recurrence"
)

// onDays schedules a task that fires at 09:00 from 2099-12-30 on, which is a Wednesday, and has its next fire planned.
func (b *bench) onDays(id string, r store.Recurrence, next time.Time) {
	b.Helper()
	r.Cron = "0 9 * * *"
	b.must(b.Tasks.Schedule(b.Ctx, b.Pool, store.Task{ID: id, Payload: store.JSON(`{"type":"TEST"}`),
		At: time.Date(2099, 12, 30, 0, 0, 0, 0, time.UTC), Recurrence: &r}))
	b.Exec(b.Pool, `UPDATE tasktable.scheduled_tasks SET planned_revision = revision, next_attempt_at = $2
		WHERE id = $1`, id, next)
}

// company makes a calendar, which has days before the tasks of onDays begin, too.
func (b *bench) company() {
	b.Helper()
	span, err := recurrence.ParseSpan("2099-12-31..2100-01-03")
	b.Check(err)
	span.Note = "closed"
	before, err := recurrence.ParseSpan("2099-12-01..2099-12-29")
	b.Check(err)
	b.must(b.Tasks.AddDays(b.Ctx, b.Pool, "company", span, before))
}

// forecastText writes fires and the days that are left out.
func forecastText(f inspect.Forecast) string {
	var text []string
	for _, fire := range f.Fires {
		line := fire.At.Format("2006-01-02")
		if fire.MovedFrom != nil {
			line += " from " + fire.MovedFrom.Format("2006-01-02") + ": " + fire.Why
		}
		text = append(text, line)
	}
	for _, day := range f.LeftOut {
		text = append(text, "not "+day.At.Format("2006-01-02")+": "+day.Why)
	}
	return fmt.Sprint(strings.Join(text, "; "), f.LeftOutMore, f.Ended)
}

func TestForecastsTellWhatCalendarsDo(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.company()
	first := time.Date(2099, 12, 30, 9, 0, 0, 0, time.UTC)
	b.onDays("out", store.Recurrence{OutOf: []string{"company"}}, first)
	b.onDays("moved", store.Recurrence{OutOf: []string{"company"}, Move: recurrence.MoveNext, Every: 3,
		From: recurrence.Date{Year: 2099, Month: 12, Day: 31}}, time.Date(2100, 1, 4, 9, 0, 0, 0, time.UTC))
	b.onDays("plain", store.Recurrence{}, first)
	for id, want := range map[string]string{
		"plain": "2099-12-30; 2099-12-31false",
		"out": "2099-12-30; 2100-01-04; not 2099-12-31: 2099-12-31 is out (company: closed); " +
			"not 2100-01-01: 2100-01-01 is out (company: closed); " +
			"not 2100-01-02: 2100-01-02 is out (company: closed); not 2100-01-03: 2100-01-03 is out (company: closed)false",
		"moved": "2100-01-04 from 2100-01-03: 2100-01-03 is out (company: closed); 2100-01-06; not 2099-12-31: " +
			"2099-12-31 is out (company: closed), and 2100-01-04 has a fire at this time anywayfalse",
	} {
		forecast, err := b.Inspector.NextFires(b.Ctx, b.Pool, id, 2)
		b.Check(err)
		if got := forecastText(forecast); got != want {
			b.Errorf("%s:\n%s, want\n%s", id, got, want)
		}
	}
}

func TestWhyTellsWhatCalendarsDo(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.company()
	first := time.Date(2099, 12, 30, 9, 0, 0, 0, time.UTC)
	b.onDays("out", store.Recurrence{OutOf: []string{"company"}}, first)
	var next []string
	for _, one := range b.why("out").Next {
		next = append(next, one.At.Format("2006-01-02 ")+one.Text)
	}
	const want = "2099-12-30 it fires; 2099-12-31 it does not fire: 2099-12-31 is out (company: closed); " +
		"2100-01-01 it does not fire: 2100-01-01 is out (company: closed); "
	got := strings.Join(next, "; ")
	if !strings.HasPrefix(got, want) || !strings.Contains(got, "; 2100-01-04 it fires") {
		b.Errorf("why tells %s", got)
	}
	b.because("out@2100-01-01T09:00:00Z", "no_fire", "recurring task out does not fire at that time, by 0 9 * * * "+
		"out-of=company in UTC, because 2100-01-01 is out (company: closed), the next is at T")
}
