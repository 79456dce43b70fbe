package recurrence_test

import (
	"testing"
	"time"

	"github.com/tasktable/tasktable/store/recurrence"
)

func TestMissed(t *testing.T) {
	t.Parallel()
	at := func(day, hour int) time.Time { return time.Date(2026, 11, day, hour, 0, 0, 0, time.UTC) } // the 2nd: a Monday
	for name, c := range map[string]struct {
		cron         string
		success      time.Time
		since, until time.Time
		want         int
	}{
		"succeeded at its last fire":  {"0 9 * * *", at(3, 10), at(1, 0), at(4, 8), 0},
		"one missed":                  {"0 9 * * *", at(3, 10), at(1, 0), at(4, 9), 1},
		"two missed":                  {"0 9 * * *", at(3, 10), at(1, 0), at(5, 9), 2},
		"a weekend is no interval":    {"0 9 * * MON-FRI", at(6, 10), at(1, 0), at(9, 8), 0},
		"and then it is":              {"0 9 * * MON-FRI", at(6, 10), at(1, 0), at(10, 9), 2},
		"has not fired yet":           {"0 9 * * *", time.Time{}, at(3, 10), at(4, 8), 0},
		"its first fire":              {"0 9 * * *", time.Time{}, at(3, 10), at(4, 9), 0},
		"an interval after the first": {"0 9 * * *", time.Time{}, at(3, 10), at(5, 9), 1},
		"two intervals after it":      {"0 9 * * *", time.Time{}, at(3, 10), at(6, 9), 2},
		"it begins later":             {"0 9 * * *", time.Time{}, at(20, 0), at(6, 9), 0},
		"edited since the success":    {"0 9 * * *", at(3, 10), at(8, 10), at(10, 9), 1},
		"many":                        {"* * * * *", at(3, 10), at(1, 0), at(5, 0), 10},
		"never fires again":           {"0 9 * * *", time.Time{}, at(1, 0).AddDate(9000, 0, 0), at(5, 0), 0},
	} {
		rule, err := recurrence.Parse(c.cron, "UTC")
		if err != nil {
			t.Fatal(err)
		}
		var success *time.Time
		if !c.success.IsZero() {
			success = &c.success
		}
		if got := rule.Missed(success, c.since, c.until, 10); got != c.want {
			t.Errorf("%s: %d, want %d", name, got, c.want)
		}
	}
}
