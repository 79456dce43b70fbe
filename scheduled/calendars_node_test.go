package scheduled

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/tasktable/tasktable/handlers"
	"github.com/tasktable/tasktable/scheduled/internal/enginetest"
	"github.com/tasktable/tasktable/store"
	"github.com/tasktable/tasktable/store/recurrence"
)

// spansOf reads spans such as 2027-12-24..2027-12-31.
func spansOf(t *testing.T, texts ...string) (days []recurrence.Span) {
	t.Helper()
	for _, text := range texts {
		span, err := recurrence.ParseSpan(text)
		enginetest.OK(t, err)
		span.Note = "closed"
		days = append(days, span)
	}
	return days
}

// A change of a calendar has its tasks planned anew within seconds, without a fire, and their history says so. A task
// that no day is left for rests until the calendar changes.
func TestChangedCalendars(t *testing.T) {
	s := newBench(t)
	s.node(nil, handlers.Handle(s.Handle))
	noon := s.Now().Truncate(24 * time.Hour).Add(36 * time.Hour) // of tomorrow
	day := func(days int) string { return noon.AddDate(0, 0, days).Format(time.DateOnly) }
	set := func(tenant string, texts ...string) {
		t.Helper()
		s.Did(s.Tasks.ForTenant(tenant).SetCalendar(t.Context(), s.Pool,
			store.Calendar{Name: "company", Days: spansOf(t, texts...)}))
	}
	set("", "2020-01-01")
	for move, tenant := range map[recurrence.Move]string{"skip": "", "next": "", "previous": "", "own": "acme"} {
		task := store.Task{ID: string(move), Payload: enginetest.Job{Name: string(move)}, TenantID: tenant,
			At: noon.Add(-time.Hour), Recurrence: &store.Recurrence{Cron: "0 12 * * *", OutOf: []string{"company"}}}
		if move != "own" {
			task.Recurrence.Move = move
		}
		s.Did(s.Tasks.Schedule(t.Context(), s.Pool, task))
	}
	fires := func(what string, want map[string]int) { // days after tomorrow
		t.Helper()
		for id, days := range want {
			s.Sees(fmt.Sprintf("%s: %s fires in %d days", what, id, days), `SELECT count(*) = 1 FROM tasktable.recurring_tasks
				WHERE id = $1 AND next_fire = $2`, id, noon.AddDate(0, 0, days))
		}
	}
	fires("planned", map[string]int{"skip": 0, "next": 0, "previous": 0, "own": 0})
	set("", day(0)+".."+day(1))
	fires("two days out", map[string]int{"skip": 2, "next": 2, "own": 2})
	line := s.lineOf("skip")
	if !strings.Contains(line, "moved by ") || !strings.Contains(line, day(0)+" is out (company: closed)") {
		t.Errorf("the history says %s", line)
	}
	set("acme", day(5))
	fires("the tenant's own", map[string]int{"skip": 2, "own": 0})
	set("", "2020-01-01..2029-12-31", "2030-01-01..2039-12-31", "2040-01-01..2049-12-31", "2050-01-01..2059-12-31",
		"2060-01-01..2069-12-31", "2070-01-01..2079-12-31", "2080-01-01..2089-12-31", "2090-01-01..2099-12-31")
	s.Sees("it rests", `SELECT count(*) = 1 FROM tasktable.scheduled_tasks
		WHERE id = 'skip' AND status = 'QUEUED' AND planned_revision IS NULL AND message LIKE 'no fire within%'`)
	set("", day(3))
	fires("goes on", map[string]int{"skip": 0, "next": 0, "own": 0})
	s.Counts("occurrences, although none was due", 0,
		`SELECT count(*) FROM tasktable.scheduled_tasks WHERE parent_id IS NOT NULL`)
}

// lineOf is the newest line of the history that a change of a calendar has written.
func (b *bench) lineOf(id string) (line string) {
	b.T.Helper()
	b.OK(b.Pool.QueryRow(b.T.Context(), `SELECT concat_ws(' ', outcome, 'by', changed_by, old, new)
		FROM tasktable.scheduled_task_changes WHERE task_id = $1 AND verb = 'calendar'
		ORDER BY revision DESC LIMIT 1`, id).Scan(&line))
	return line
}

// Thousands of tasks are planned anew within seconds after one change, and other tasks start meanwhile.
func TestManyTasksOfOneCalendar(t *testing.T) {
	s := newBench(t)
	limit := enginetest.Limits(t, s.Pool)
	s.node(nil, handlers.Handle(func(context.Context, *handlers.Task[enginetest.Job]) error { return nil }))
	const many = 4000
	next := s.Now().Truncate(24*time.Hour).AddDate(0, 0, 3)
	set := func(text string) {
		t.Helper()
		s.Did(s.Tasks.SetCalendar(t.Context(), s.Pool, store.Calendar{Name: "company", Days: spansOf(t, text)}))
	}
	set("2020-01-01")
	s.Exec(`INSERT INTO tasktable.scheduled_tasks (id, payload, cron, scheduled_at)
		SELECT 'daily ' || i, '{"type": "JOB"}', '@daily out-of=company', $1 FROM generate_series(1, $2::int) AS i`,
		next.Add(-time.Hour), many)
	planned := func(what string, at time.Time) (took time.Duration) {
		t.Helper()
		began := time.Now()
		s.SeesWithin(patience, what, `SELECT count(*) = $1 FROM tasktable.scheduled_tasks
			WHERE cron IS NOT NULL AND planned_revision = revision AND next_attempt_at = $2`, many, at)
		return time.Since(began)
	}
	planned("all are planned", next)
	began := time.Now()
	set(next.Format(time.DateOnly))
	written := time.Since(began)
	worst, done := time.Duration(0), make(chan time.Duration)
	go func() { done <- planned("all are planned anew", next.AddDate(0, 0, 1)) }()
	for n := 0; ; n++ {
		id := fmt.Sprint("plain ", n)
		s.Add(id, nil)
		row := enginetest.Await(t, s.Pool, id, patience, store.StatusCompleted)
		worst = max(worst, row.StartedAt.Sub(row.ScheduledAt))
		select {
		case took := <-done:
			t.Logf("%d tasks: written in %s, planned anew in %s; a plain task started %s late at most", many, written, took, worst)
			if took > limit(5*time.Second) || worst > limit(2*time.Second) {
				t.Errorf("planned anew in %s, and a plain task was %s late", took, worst)
			}
			s.Counts("lines of history", many,
				`SELECT count(*) FROM tasktable.scheduled_task_changes WHERE outcome = 'moved'`)
			return
		default:
		}
	}
}
