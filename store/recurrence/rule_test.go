package recurrence

import (
	"slices"
	"testing"
	"time"
)

func TestNext(t *testing.T) {
	for _, c := range []struct{ what, expression, zone, after, want string }{
		{"a fire itself", "0 9 * * *", "", "2026-06-01T09:00:00Z", "2026-06-02T09:00:00Z"},
		{"just before it", "0 9 * * *", "", "2026-06-01T08:59:59.999999999Z", "2026-06-01T09:00:00Z"},
		{"just after it", "0 9 * * *", "", "2026-06-01T09:00:00.000000001Z", "2026-06-02T09:00:00Z"},
		{"from another zone", "0 9 * * *", "Asia/Tokyo", "2026-06-01T09:00:00+02:00", "2026-06-02T00:00:00Z"},
		{"months without a 31st", "0 0 31 * *", "", "2026-03-31T00:00:00Z", "2026-05-31T00:00:00Z"},
		{"a leap day", "0 0 29 2 *", "", "2026-01-01T00:00:00Z", "2028-02-29T00:00:00Z"},
		{"no leap day in 2100", "0 0 29 2 *", "", "2096-02-29T00:00:00Z", "2104-02-29T00:00:00Z"},
		{"nor in a zone", "30 2 29 FEB ?", "America/New_York", "2096-12-31T12:00:00Z", "2104-02-29T07:30:00Z"},
		{"a leap day among others", "0 0 29 2 MON", "", "2096-02-29T00:00:00Z", "2097-02-04T00:00:00Z"},
		{
			"the end of a leap year far away", "0 12 31 12 *", "America/New_York", "2096-12-30T18:00:00Z",
			"2096-12-31T17:00:00Z",
		},
		{"and past it", "0 12 31 12 *", "America/New_York", "2096-12-31T18:00:00Z", "2097-12-31T17:00:00Z"},
		{
			"and with the clocks changed since", "0 12 1 7 *", "America/New_York", "2041-01-02T10:00:00Z",
			"2041-07-01T16:00:00Z",
		},
		// Local mean time, +0:53:28.
		{"before there were zones", "0 0 1 1 *", "Europe/Berlin", "1500-06-01T00:00:00Z", "1500-12-31T23:06:32Z"},
		{"the first year", "0 0 * * *", "", "0001-01-01T00:00:00Z", "0001-01-02T00:00:00Z"},
		{"the last fire", "0 0 * * *", "", "9999-12-30T00:00:00Z", "9999-12-31T00:00:00Z"},
		{"after the last", "0 0 * * *", "", "9999-12-31T00:00:00Z", "0001-01-01T00:00:00Z"},
		{"the wall clock's year 10000", "0 0 1 1 *", "Asia/Tokyo", "9999-06-01T00:00:00Z", "9999-12-31T15:00:00Z"},
		{"the wall clock's year 9999", "0 0 1 1 *", "America/New_York", "9999-06-01T00:00:00Z", "0001-01-01T00:00:00Z"},
		{"the last leap day", "0 0 29 2 *", "Europe/Berlin", "9996-03-01T00:00:00Z", "0001-01-01T00:00:00Z"},
		{"fixed, in the gap", "30 2 * * *", "America/New_York", "2026-03-07T12:00:00Z", "2026-03-08T07:00:00Z"},
		{
			"fixed, several in the gap", "10,30 2 * * *", "America/New_York", "2026-03-08T07:00:00Z",
			"2026-03-09T06:10:00Z",
		},
		{"fixed, repeated", "30 1 * * *", "America/New_York", "2026-11-01T05:30:00Z", "2026-11-02T06:30:00Z"},
		{"wild, in the gap", "*/15 2 * * *", "America/New_York", "2026-03-07T12:00:00Z", "2026-03-09T06:00:00Z"},
		{"wild, repeated", "*/30 1 * * *", "America/New_York", "2026-11-01T05:30:00Z", "2026-11-01T06:00:00Z"},
		{
			"wild, repeated, on that day alone", "*/30 1 1 NOV *", "America/New_York", "2026-11-01T05:30:00Z",
			"2026-11-01T06:00:00Z",
		},
		{"hours named, so fixed", "0 0-23 * * *", "Europe/Berlin", "2026-10-25T00:00:00Z", "2026-10-25T02:00:00Z"},
		{"from the first repetition on", "30 2 * * *", "Europe/Berlin", "2026-10-25T01:10:00Z", "2026-10-26T01:30:00Z"},
		{"a seconds wildcard", "* 30 1 * * *", "America/New_York", "2026-11-01T05:30:59Z", "2026-11-01T06:30:00Z"},
		{"no midnight", "@daily", "Asia/Beirut", "2026-03-28T12:00:00Z", "2026-03-28T22:00:00Z"},
		{"half an hour", "15 2 * * *", "Australia/Lord_Howe", "2026-10-03T12:00:00Z", "2026-10-03T15:30:00Z"},
		// LMT +15:02:19, then -8:57:41.
		{
			"23 hours into a day repeated", "30 15 * * *", "America/Juneau", "1867-10-20T00:00:00Z",
			"1867-10-21T00:27:41Z",
		},
		{"a day left out", "0 9 30 12 *", "Pacific/Apia", "2011-12-29T00:00:00Z", "2011-12-30T10:00:00Z"},
	} {
		t.Run(c.what, func(t *testing.T) {
			got := mustParse(t, c.expression, c.zone).Next(instant(c.after))
			if want := instant(c.want); !got.Equal(want) || got.Location() != time.UTC {
				t.Errorf("%s in %s after %s: got %s, want %s", c.expression, c.zone, c.after, got, want)
			}
		})
	}
}

func instant(text string) time.Time {
	at, err := time.Parse(time.RFC3339Nano, text)
	if err != nil {
		panic(err)
	}
	return at
}

func TestFarTimes(t *testing.T) {
	ages := []time.Time{
		time.Unix(-1<<62, 0), time.Unix(1<<62, 0), time.Date(-5000, 1, 1, 0, 0, 0, 0, time.UTC),
		time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC),
	}
	for _, expression := range []string{"0 0 29 2 *", "@every 2562047h", "* * * * * *"} {
		rule := mustParse(t, expression, "Europe/Berlin")
		for _, at := range ages {
			got := rule.Next(at)
			if at.Year() > 9999 != got.IsZero() || !got.IsZero() && (!got.After(at) || got.Year() < 1) {
				t.Errorf("%s after %s: got %s", expression, at, got)
			}
			rule.Anchored(at).Next(time.Unix(0, 0))
		}
		if last := rule.Last(ages[0], ages[1]); last.Year() < 9700 {
			t.Errorf("%s: the last is %s", expression, last)
		}
	}
}

func TestEvery(t *testing.T) {
	rule := mustParse(t, "@every 90s", "America/New_York")
	for _, c := range []struct{ what, anchor, after, want string }{
		{"the first", "2026-03-08T06:59:00Z", "2026-03-08T06:59:00Z", "2026-03-08T07:00:30Z"},
		{"sub-second anchor", "2026-03-08T06:59:00.7Z", "2026-03-08T06:59:00.7Z", "2026-03-08T07:00:30Z"},
		{"late", "2026-03-08T06:59:00Z", "2026-03-08T07:10:00.5Z", "2026-03-08T07:11:00Z"},
		{"before the anchor", "2026-03-08T06:59:00Z", "2026-03-08T06:55:00Z", "2026-03-08T06:56:00Z"},
		{"none", "0001-01-01T00:00:00Z", "1970-01-01T00:00:00Z", "1970-01-01T00:01:30Z"},
		{"before 1970", "0001-01-01T00:00:00Z", "1969-12-31T23:59:59.5Z", "1970-01-01T00:00:00Z"},
	} {
		if got := rule.Anchored(instant(c.anchor)).Next(instant(c.after)); !got.Equal(instant(c.want)) {
			t.Errorf("%s: got %s, want %s", c.what, got, c.want)
		}
	}
	// Whatever fire it is anchored at, however late, and whatever it was anchored at before, the phase is the same.
	start := instant("2026-10-31T00:00:07Z")
	want, _ := rule.Anchored(start).Between(start, start.Add(48*time.Hour), 5000)
	previous := start
	for _, fire := range want {
		rule = rule.Anchored(previous)
		if previous = rule.Next(fire.Add(-time.Second)); !previous.Equal(fire) {
			t.Fatalf("got %s, want %s", previous, fire)
		}
	}
	if len(want) != 48*40 {
		t.Errorf("%d fires in two days", len(want))
	}
	if got := rule.Anchored(time.Time{}).Next(time.Unix(0, 0)); got.Unix() != 90 {
		t.Errorf("the zero time left the anchor: %s", got)
	}
	daily := mustParse(t, "@daily", "")
	if daily.Anchored(start) != daily {
		t.Error("an anchor changed a cron expression")
	}
}

func TestBetween(t *testing.T) {
	rule := mustParse(t, "@hourly", "")
	from, to := instant("2026-01-01T00:00:00Z"), instant("2026-01-01T05:00:00Z")
	for _, c := range []struct {
		to   time.Time
		most int
		want int
		more bool
	}{
		{to, 10, 5, false}, {to, 5, 5, false}, {to, 4, 4, true}, {to, 0, 0, true}, {to, -1, 0, true},
		{to.Add(-1), 4, 4, false}, {from, 10, 0, false}, {from.Add(-time.Hour), 10, 0, false}, {from, 0, 0, false},
	} {
		fires, more := rule.Between(from, c.to, c.most)
		if len(fires) != c.want || more != c.more {
			t.Errorf("until %s at most %d: got %d, %t, want %d, %t", c.to, c.most, len(fires), more, c.want, c.more)
		}
	}
	fires, _ := rule.Between(from, to, 3)
	rest, _ := rule.Between(fires[2], to, 3)
	all, _ := rule.Between(from, to, 10)
	if !slices.Equal(append(fires, rest...), all) || !all[0].Equal(from.Add(time.Hour)) || !all[4].Equal(to) {
		t.Errorf("got %s and %s of %s", fires, rest, all)
	}
}

func TestLast(t *testing.T) {
	rule := mustParse(t, "0 9 * * *", "Europe/Berlin")
	for _, c := range []struct{ from, to, want string }{
		{"2025-01-01T00:00:00Z", "2026-06-01T12:00:00Z", "2026-06-01T07:00:00Z"},
		{"2025-01-01T00:00:00Z", "2026-06-01T07:00:00Z", "2026-06-01T07:00:00Z"},
		{"2025-01-01T00:00:00Z", "2026-06-01T06:59:59.9Z", "2026-05-31T07:00:00Z"},
		{"2026-06-01T06:59:59.9Z", "2026-06-01T07:00:00.1Z", "2026-06-01T07:00:00Z"},
		{"2026-06-01T07:00:00Z", "2026-06-01T12:00:00Z", "0001-01-01T00:00:00Z"},
		{"2026-06-02T07:00:00Z", "2026-06-01T12:00:00Z", "0001-01-01T00:00:00Z"},
	} {
		if got := rule.Last(instant(c.from), instant(c.to)); !got.Equal(instant(c.want)) {
			t.Errorf("from %s to %s: got %s, want %s", c.from, c.to, got, c.want)
		}
	}
}
