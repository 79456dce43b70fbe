package store_test

import (
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tasktable/tasktable/store"
)

// What does not change anything draws no revision: the value that is there, and null for what has a default.
func TestRecurringEditOfNothing(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	for _, kind := range recurringKinds[1:] {
		b.MakeRecurring(kind, kind)
		before := b.state(kind)
		for _, set := range []string{
			`cron = cron, time_zone = time_zone, overlap = overlap, catch_up = catch_up, ends_at = ends_at, ` +
				`jitter = jitter, paused_until = paused_until`,
			`time_zone = NULL, overlap = NULL, catch_up = NULL, catch_up_paused = NULL, catch_up_limit = NULL`,
		} {
			b.Exec(b.Pool, `UPDATE tasktable.scheduled_tasks SET `+set+` WHERE id = $1`, kind)
			after := b.state(kind)
			after.Version = before.Version
			same(b, kind+": "+set, after, before)
		}
	}
}

// owed says whether the fire that was planned is still to come, or else the leader is asked to plan, from now or from
// an earlier edit on.
func (b *bench) owed(id string, before *store.Row, from time.Time) string {
	b.Helper()
	row := b.Get(id)
	switch {
	case row.NextAttemptAt == nil:
		return "waits for nothing"
	case row.PlannedRevision != nil && *row.PlannedRevision == row.Revision &&
		row.NextAttemptAt.Equal(*before.NextAttemptAt):
		return "owed"
	case before.NextAttemptAt != nil && row.NextAttemptAt.Equal(*before.NextAttemptAt) && before.PlannedRevision == nil:
		return "to be planned" // from the earlier edit on
	case !row.NextAttemptAt.Before(from) && !row.NextAttemptAt.After(b.Now()) &&
		(row.PlannedRevision == nil || *row.PlannedRevision < row.Revision):
		return "to be planned"
	}
	return pretty(row)
}

// A fire that has come before the edit, and that the leader has not got to yet, is not lost by it, nor
// is one made of it.
func TestAFireThatWasDueBeforeAnEditStaysOwed(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	for name, c := range map[string]struct {
		kind  string
		edits []string
		want  string
	}{
		"edited":             {"due", []string{`overlap = 'allow'`}, "owed"},
		"another expression": {"due", []string{`cron = '@daily'`}, "owed"},
		"edited twice":       {"due", []string{`overlap = 'allow'`, `priority = 3`}, "owed"},
		"moved":              {"due", []string{`scheduled_at = '2100-01-01 00:05Z'`}, "to be planned"},
		"moved, then edited": {
			"due", []string{`scheduled_at = '2100-01-01 00:05Z'`, `priority = 3`}, "to be planned",
		},
		"paused":                       {"due", []string{`status = 'PAUSED'`}, "waits for nothing"},
		"paused and edited":            {"due", []string{`status = 'PAUSED', priority = 3`}, "waits for nothing"},
		"paused and resumed":           {"due", []string{`status = 'PAUSED'`, `status = 'QUEUED'`}, "to be planned"},
		"cancelled and queued":         {"due", []string{`status = 'CANCELLED'`, `status = 'QUEUED'`}, "to be planned"},
		"plain and recurring":          {"due", []string{nothingRecurs, `cron = '@daily'`}, "to be planned"},
		"not planned, edited":          {"unplanned", []string{`overlap = 'allow'`}, "to be planned"},
		"planned for later, edited":    {"planned", []string{`overlap = 'allow'`}, "to be planned"},
		"a run_now_at by hand":         {"planned", []string{`run_now_at = '2000-01-01'`}, "to be planned"},
		"due, and a run_now_at":        {"due", []string{`run_now_at = '2000-01-01'`}, "owed"},
		"paused, and edited meanwhile": {"PAUSED", []string{`overlap = 'allow'`}, "waits for nothing"},
	} {
		b.each(name, func(b *bench) {
			b.MakeRecurring(name, c.kind)
			before, from := b.Get(name), b.Now()
			for _, set := range c.edits {
				b.Exec(b.Pool, `UPDATE tasktable.scheduled_tasks SET `+set+` WHERE id = $1`, name)
			}
			if got := b.owed(name, before, from); got != c.want {
				b.Errorf("it is %s, instead of %s", got, c.want)
			}
			if row := b.Get(name); row.RunNowAt != nil {
				b.Errorf("run_now_at is %v", row.RunNowAt)
			}
		})
	}
}

// liveFrom is where the look for occurrences that have not ended begins.
func (b *bench) liveFrom(id string) *time.Time {
	b.Helper()
	return one[*time.Time](b, b.Pool, `SELECT open_occurrences_from FROM tasktable.scheduled_tasks WHERE id = $1`, id)
}

func TestARecurringTaskMadePlainAndBack(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.MakeRecurring("one", "planned")
	b.Exec(b.Pool, `UPDATE tasktable.scheduled_tasks SET `+nothingRecurs+`, jitter = '1 hour' WHERE id = 'one'`)
	row := b.Get("one")
	due := one[time.Time](b, b.Pool, `SELECT tasktable.due_of('one', '2100-01-01Z', NULL, '1 hour')`)
	if row.Cron != nil || row.PlannedRevision != nil || b.liveFrom("one") != nil || !row.NextAttemptAt.Equal(due) {
		t.Errorf("plain: %s", pretty(row))
	}
	from := b.Now()
	b.Exec(b.Pool, `UPDATE tasktable.scheduled_tasks SET cron = '@hourly' WHERE id = 'one'`)
	row = b.Get("one")
	if *row.TimeZone != "UTC" || *row.Overlap != "skip" || row.PlannedRevision != nil ||
		row.NextAttemptAt.Before(from) || row.NextAttemptAt.After(b.Now()) {
		t.Errorf("recurring again: %s", pretty(row))
	}
	role := b.Role()
	same(b, "lines", b.Lines("one"), []string{
		"schedule created " + service, "sql rescheduled " + role, "sql rescheduled " + role,
	})

	// A running task that is made recurring runs to its end, and is planned after that.
	b.Make("held", "EXECUTING")
	b.Exec(b.Pool, `UPDATE tasktable.scheduled_tasks SET cron = '@hourly' WHERE id = 'held'`)
	if row := b.Get("held"); row.Status != "QUEUED" || row.Fence == nil || row.NextAttemptAt != nil ||
		*row.Overlap != "skip" {
		t.Errorf("held: %s", pretty(row))
	}
}

// The count begins anew with another time, and only for a task that had ended.
func TestCountOfOccurrencesWhenRearmed(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	for name, c := range map[string]struct {
		kind, set string
		count     int
	}{
		"another time":            {"COMPLETED", `status = 'QUEUED', scheduled_at = '2100-01-01 00:05Z'`, 0},
		"the same time":           {"COMPLETED", `status = 'QUEUED'`, 3},
		"another expression":      {"COMPLETED", `status = 'QUEUED', cron = '@daily'`, 3},
		"a cancelled one":         {"CANCELLED", `status = 'QUEUED', scheduled_at = '2100-01-01 00:05Z'`, 0},
		"a waiting one":           {"planned", `scheduled_at = '2100-01-01 00:05Z'`, 3},
		"one that stays as it is": {"COMPLETED", `scheduled_at = '2100-01-01 00:05Z'`, 3},
	} {
		b.MakeRecurring(name, c.kind)
		b.Exec(b.Pool, `UPDATE tasktable.scheduled_tasks SET `+c.set+` WHERE id = $1`, name)
		if row := b.Get(name); row.OccurrenceCount != c.count {
			t.Errorf("%s: %d occurrences instead of %d", name, row.OccurrenceCount, c.count)
		}
	}
}

func TestViewOfRecurringTasks(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.Schedule(base("plain"))
	for _, kind := range recurringKinds[1:] {
		b.MakeRecurring(kind, kind)
	}
	rows, err := b.Pool.Query(b.Ctx, `SELECT concat_ws(' ', id, status, cron, next_fire = '2100-01-01 09:00Z', last_fire
		IS NOT NULL, occurrence_count, paused_until IS NOT NULL)
		FROM tasktable.recurring_tasks ORDER BY id COLLATE "C"`)
	b.Check(err)
	lines, err := pgx.CollectRows(rows, pgx.RowTo[string])
	b.Check(err)
	same(b, "view", lines, []string{
		"CANCELLED CANCELLED 0 9 * * * t 3 f", "COMPLETED COMPLETED 0 9 * * * t 3 f", "FAILED FAILED 0 9 * * * t 3 f",
		"PAUSED PAUSED 0 9 * * * t 3 t", "due QUEUED 0 9 * * * f t 3 f", "planned QUEUED 0 9 * * * t t 3 f",
		"unplanned QUEUED 0 9 * * * f 0 f",
	})
}
