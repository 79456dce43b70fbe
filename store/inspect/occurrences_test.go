package inspect_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/tasktable/tasktable/store"
	"github.com/tasktable/tasktable/store/inspect"
)

func TestOccurrences(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	for _, parent := range []string{"first", "second"} {
		b.Schedule(recurs(parent))
		for _, fire := range []string{"2026-01-01 00:00Z", "2026-01-03 00:00Z", "2026-01-02 00:00Z"} {
			b.Exec(b.Pool, `SELECT tasktable.fork_occurrence($1::text, $2::text::timestamptz,
				CASE WHEN $2::text = '2026-01-02 00:00Z' THEN 'an earlier one runs' END)`, parent, fire)
		}
	}
	for name, c := range map[string]struct {
		most    int
		parents []string
		want    string
	}{
		"one":       {10, []string{"first"}, "first 03 QUEUED, first 02 SKIPPED, first 01 QUEUED"},
		"newest":    {2, []string{"second", "first"}, "second 03 QUEUED, second 02 SKIPPED, first 03 QUEUED, first 02 SKIPPED"},
		"not there": {2, []string{"third"}, ""},
		"nobody":    {2, nil, ""},
	} {
		for driver, db := range b.Readers() {
			found, err := b.Inspector.Occurrences(b.Ctx, db, c.most, c.parents...)
			b.Check(err)
			var lines []string
			for _, one := range found {
				if one.ID != one.ParentID+"@"+one.ScheduledAt.UTC().Format("2006-01-02T15:04:05Z") ||
					(one.Message != nil) != (one.Status == store.StatusSkipped) {
					t.Errorf("%s: %s", name, pretty(one))
				}
				lines = append(lines, one.ParentID+" "+one.ScheduledAt.UTC().Format("02")+" "+string(one.Status))
			}
			if got := strings.Join(lines, ", "); got != c.want {
				t.Errorf("%s, %s: %s\ninstead of %s", driver, name, got, c.want)
			}
		}
	}
	for name, c := range map[string]struct {
		most    int
		parents []string
	}{
		"none of each": {0, []string{"a"}}, "too many": {inspect.MaxOccurrences/2 + 1, []string{"a", "b"}},
		"empty id": {1, []string{""}},
	} {
		if _, err := b.Inspector.Occurrences(b.Ctx, noDB(b), c.most, c.parents...); !errors.Is(err, store.ErrInvalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestBeside(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.Schedule(recurs("daily"))
	b.Schedule(recurs("other"))
	for _, fire := range []string{"2026-01-01", "2026-01-02", "2026-01-03"} {
		b.Exec(b.Pool, `SELECT tasktable.fork_occurrence(parent, $1::text::timestamptz)
			FROM unnest('{daily,other}'::text[]) AS parent`, fire+" 00:00Z")
	}
	b.Exec(b.Pool, `UPDATE tasktable.scheduled_tasks SET scheduled_at = '2026-01-02 00:00Z'
		WHERE id = 'daily@2026-01-03T00:00:00Z'`) // two have the same time
	day := func(n string) string { return "daily@2026-01-" + n + "T00:00:00Z" }
	for _, c := range []struct{ id, previous, next string }{
		{day("01"), "", day("02")}, {day("02"), day("01"), day("03")}, {day("03"), day("02"), ""}, {"daily", "", ""},
	} {
		for driver, db := range b.Readers() {
			row, err := b.Tasks.Get(b.Ctx, db, c.id)
			b.Check(err)
			beside, err := b.Inspector.Beside(b.Ctx, db, row)
			b.Check(err)
			for name, one := range map[string]struct {
				found *inspect.Occurrence
				want  string
			}{"previous": {beside.Previous, c.previous}, "next": {beside.Next, c.next}} {
				if got := one.found; got == nil && one.want != "" || got != nil && got.ID != one.want {
					t.Errorf("%s, %s: %s is %s, want %q", driver, c.id, name, pretty(got), one.want)
				}
			}
		}
	}
}
