package recurrence

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// calendarsOf reads a calendar in each line: its name, and its days.
func calendarsOf(t testing.TB, text string) map[string]Days {
	t.Helper()
	all := map[string]Days{}
	for line := range strings.Lines(text) {
		words := strings.Fields(line)
		if len(words) == 0 {
			continue
		}
		spans := make([]Span, len(words)-1)
		for i, word := range words[1:] {
			span, err := ParseSpan(word)
			if err != nil {
				t.Fatal(err)
			}
			spans[i] = span
		}
		days, err := NewDays(spans)
		if err != nil {
			t.Fatal(err)
		}
		all[words[0]] = days
	}
	return all
}

// TestOptions: each row has the fires after a time on the zone's clocks, and the calendars that the rule is given.
func TestOptions(t *testing.T) {
	t.Parallel()
	const (
		berlin, newYork, lordHowe = "Europe/Berlin", "America/New_York", "Australia/Lord_Howe"
		beirut, santiago          = "Asia/Beirut", "America/Santiago"
	)
	for _, c := range []struct{ what, text, zone, days, after, want string }{
		// Each Nth.
		{"every second Tuesday keeps its hour over a change of the clocks", "0 9 * * TUE every=2 from=2027-01-05", berlin, "",
			"2027-03-01 00:00", "2027-03-02 09:00, 2027-03-16 09:00, 2027-03-30 09:00, 2027-04-13 09:00"},
		{"weeks begin on Monday: the anchor's Sunday counts to the week before", "0 9 * * MON every=2 from=2027-01-03", "", "",
			"2027-01-01 00:00", "2027-01-11 09:00, 2027-01-25 09:00"},
		{"all days of each second week", "0 9 * * MON,FRI every=2 from=2027-01-06", "", "", "2027-01-01 00:00",
			"2027-01-08 09:00, 2027-01-18 09:00, 2027-01-22 09:00, 2027-02-01 09:00"},
		{"each third day, over the end of a leap February", "0 6 * * * every=3 from=2028-02-26", newYork, "", "2028-02-01 00:00",
			"2028-02-26 06:00, 2028-02-29 06:00, 2028-03-03 06:00"},
		{"each second month's last day", "0 0 L * * every=2 from=2027-12-31", lordHowe, "", "2027-12-01 00:00",
			"2027-12-31 00:00, 2028-02-29 00:00, 2028-04-30 00:00"},
		{"each second month in which it may fire", "0 0 1 1-6 * every=2 from=2027-02-01", "", "", "2027-01-01 00:00",
			"2027-02-01 00:00, 2027-04-01 00:00, 2027-06-01 00:00, 2028-02-01 00:00"},
		{"a restricted month alone counts months", "0 0 * 2,3 * every=12 from=2027-02-27", "", "", "2027-01-01 00:00",
			"2027-02-27 00:00, 2027-02-28 00:00, 2028-02-01 00:00"},
		{"weeks count in months without a fire, too", "0 9 * 3 MON every=3 from=2027-01-04", "", "", "2027-01-05 00:00",
			"2027-03-08 09:00, 2027-03-29 09:00, 2028-03-20 09:00"},
		{"leap days of each eighth year", "0 0 29 2 * every=96 from=2024-02-01", "", "", "2024-01-01 00:00",
			"2024-02-29 00:00, 2032-02-29 00:00, 2040-02-29 00:00"},
		{"every=1 is none", "0 9 * * * every=1 from=2040-01-01", "", "", "2027-01-01 10:00", "2027-01-02 09:00"},
		{"every 1000th day", "0 9 * * * every=1000 from=2024-01-01", "", "", "2024-01-02 00:00",
			"2026-09-27 09:00, 2029-06-23 09:00"},

		// Left out.
		{"the closing days of a company", "0 9 * * * out-of=company", berlin, "company 2027-12-24..2027-12-31",
			"2027-12-22 12:00", "2027-12-23 09:00, 2028-01-01 09:00"},
		{"either calendar is enough to be out", "0 9 * * * out-of=a,b", "", "a 2027-01-02..2027-01-03\nb 2027-01-03..2027-01-05",
			"2027-01-01 00:00", "2027-01-01 09:00, 2027-01-06 09:00"},
		{"each calendar must have a day to keep to", "0 9 * * * keep-to=a,workdays", "", "a 2027-01-01..2027-01-10",
			"2026-01-01 00:00", "2027-01-01 09:00, 2027-01-04 09:00, 2027-01-05 09:00"},
		{"other workdays", "0 9 * * * keep-to=workdays:sat-mon+wed", "", "", "2027-01-01 12:00",
			"2027-01-02 09:00, 2027-01-03 09:00, 2027-01-04 09:00, 2027-01-06 09:00, 2027-01-09 09:00"},
		{"a calendar without days leaves out nothing", "0 9 * * * out-of=none", "", "", "2027-01-01 00:00", "2027-01-01 09:00"},
		{"the leap day is out", "0 9 28,29 2 * out-of=leap", "", "leap 2028-02-29", "2028-01-01 00:00",
			"2028-02-28 09:00, 2029-02-28 09:00"},

		// Moved, over the ends of months and years, in both directions.
		{"over the end of a year", "0 9 31 12 * keep-to=workdays move=next", newYork, "", "2033-12-01 00:00",
			"2034-01-02 09:00, 2035-01-01 09:00, 2035-12-31 09:00"},
		{"back over the beginning of a year", "0 9 1 1 * out-of=newyear keep-to=workdays move=previous", santiago,
			"newyear 2027-01-01 2028-01-01", "2026-12-01 00:00", "2026-12-31 09:00, 2027-12-31 09:00, 2029-01-01 09:00"},
		{"the last workday of a month", "0 18 L * * keep-to=workdays move=previous", berlin, "", "2028-01-01 00:00",
			"2028-01-31 18:00, 2028-02-29 18:00, 2028-03-31 18:00, 2028-04-28 18:00"},
		{"the first workday of a month", "0 8 1 * * keep-to=workdays move=next", berlin, "", "2027-12-15 00:00",
			"2028-01-03 08:00, 2028-02-01 08:00, 2028-03-01 08:00, 2028-04-03 08:00"},
		{"to the leap day", "0 9 1 3 * out-of=a move=previous", "", "a 2028-03-01", "2028-01-01 00:00",
			"2028-02-29 09:00, 2029-03-01 09:00"},
		{"two that move to one day are one", "0 9 * * SAT,SUN keep-to=workdays move=next", "", "", "2027-01-01 00:00",
			"2027-01-04 09:00, 2027-01-11 09:00"},
		{"one that moves to a day with a fire is one with it", "0 9 * * FRI,SAT keep-to=workdays move=previous", "", "",
			"2027-01-01 00:00", "2027-01-01 09:00, 2027-01-08 09:00"},
		{"366 days back", "0 9 29 2 * out-of=a move=previous", "", "a 2027-03-01..2028-02-29", "2025-01-01 00:00",
			"2027-02-28 09:00, 2032-02-29 09:00"},
		{"367 days back is left out", "0 9 29 2 * out-of=a move=previous", "", "a 2027-02-28..2028-02-29", "2025-01-01 00:00",
			"2032-02-29 09:00, 2036-02-29 09:00"},
		{"366 days on", "0 9 29 2 * out-of=a move=next", "", "a 2028-02-29..2029-02-28", "2025-01-01 00:00",
			"2029-03-01 09:00, 2032-02-29 09:00"},
		{"366 days on, asked for on the day itself", "0 9 29 2 * out-of=a move=next", "", "a 2028-02-29..2029-02-28",
			"2029-03-01 00:00", "2029-03-01 09:00, 2032-02-29 09:00"},
		{"367 days on is left out", "0 9 29 2 * out-of=a move=next", "", "a 2028-02-29..2029-03-01", "2025-01-01 00:00",
			"2032-02-29 09:00, 2036-02-29 09:00"},
		{"no move to before the day from which it counts", "0 9 * * SAT every=2 from=2027-01-02 keep-to=workdays move=previous", "", "",
			"2026-12-01 00:00", "2027-01-15 09:00, 2027-01-29 09:00"},
		{"the week that counts is that of the expression's own day", "0 9 * * SUN every=2 from=2027-01-03 keep-to=workdays move=next",
			"", "", "2027-01-01 00:00", "2027-01-04 09:00, 2027-01-18 09:00"},

		// Days on which clocks change.
		{"moved to a day without that midnight", "0 0 27 3 * out-of=a move=next", beirut, "a 2027-03-27", "2027-03-01 00:00",
			"2027-03-28 01:00, 2028-03-27 00:00"},
		{"moved to a day without that hour", "30 2 27 3 * out-of=a move=next", berlin, "a 2027-03-27", "2027-03-01 00:00",
			"2027-03-28 03:00, 2028-03-27 02:30"},
		{"moved to a day that repeats the hour: once", "30 2 1 11 * out-of=a move=previous", berlin, "a 2027-11-01",
			"2027-10-01 00:00", "2027-10-31 02:30, 2028-11-01 02:30"},
		{"half an hour is skipped", "15 2 2 10 * out-of=a move=next", lordHowe, "a 2027-10-02", "2027-09-01 00:00",
			"2027-10-03 02:30, 2028-10-02 02:15"},
		{"midnight is skipped in the south", "0 0 4 9 * out-of=a move=next", santiago, "a 2027-09-04", "2027-08-01 00:00",
			"2027-09-05 01:00, 2028-09-04 00:00"},
		{"the hour that comes twice is of one day", "30 23 * * * out-of=a", beirut, "a 2027-10-31", "2027-10-30 00:00",
			"2027-10-30 23:30, 2027-11-01 23:30"},
		{"every second day over a day without midnight", "0 0 * * * every=2 from=2027-03-26", beirut, "", "2027-03-25 00:00",
			"2027-03-26 00:00, 2027-03-28 01:00, 2027-03-30 00:00"},

		// Elapsed time.
		{"@every has the days of its zone", "@every 12h out-of=a", newYork, "a 2027-01-02", "2027-01-01 12:00",
			"2027-01-01 19:00, 2027-01-03 07:00, 2027-01-03 19:00"},
		{"@every keeps its phase", "@every 36h keep-to=workdays", "", "", "2027-01-05 00:00",
			"2027-01-06 12:00, 2027-01-08 00:00, 2027-01-11 00:00"},
	} {
		t.Run(c.what, func(t *testing.T) {
			t.Parallel()
			rule := mustParse(t, c.text, c.zone).With(calendarsOf(t, c.days))
			after, err := time.ParseInLocation("2006-01-02 15:04", c.after, rule.zone)
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for range strings.Count(c.want, ",") + 1 {
				after = rule.Next(after)
				got = append(got, after.In(rule.zone).Format("2006-01-02 15:04"))
			}
			if got := strings.Join(got, ", "); got != c.want {
				t.Errorf("%s: got %s, want %s", c.text, got, c.want)
			}
		})
	}
}

// TestMissedOfCalendars: Missed counts the fires that are left.
func TestMissedOfCalendars(t *testing.T) {
	t.Parallel()
	rule := mustParse(t, "0 9 * * * out-of=company", "").With(calendarsOf(t, "company 2027-12-24..2027-12-31"))
	missed := rule.Missed(nil, instant("2027-12-22T12:00:00Z"), instant("2028-01-02T12:00:00Z"), 100)
	if missed != 2 { // the 23rd is the first fire of all
		t.Errorf("missed %d", missed)
	}
}

// TestUnbound: a rule that is not bound yet knows workdays only. With leaves the rule itself as it is.
func TestUnbound(t *testing.T) {
	t.Parallel()
	rule := mustParse(t, "0 9 * * * out-of=b,workdays:sun keep-to=b,a-2", "")
	if got := fmt.Sprint(rule.Calendars()); got != "[a-2 b]" {
		t.Errorf("needs the calendars %s", got)
	}
	saturday := instant("2027-01-02T12:00:00Z")
	want := instant("2027-01-04T09:00:00Z")
	if got := rule.Next(saturday); !got.Equal(want) {
		t.Errorf("unbound: got %s, want %s", got, want)
	}
	if bound := rule.With(nil); !bound.NeverFires(saturday) {
		t.Errorf("keeps to calendars without days, and fires at %s", bound.Next(saturday))
	}
	if got := rule.Next(saturday); !got.Equal(want) {
		t.Errorf("after With: got %s, want %s", got, want)
	}
	plain := mustParse(t, "0 9 * * *", "")
	if plain.With(nil) != plain || plain.Calendars() != nil {
		t.Error("a rule without options needs calendars")
	}
}

// TestNeverFires: the search ends, soon, and finds fires that are farther away than a fire counts.
func TestNeverFires(t *testing.T) {
	t.Parallel()
	const closed = "closed 2027-01-01..2036-12-31 2037-01-01..2046-12-31 2047-01-01..2056-12-31"
	after := instant("2026-12-31T12:00:00Z")
	for _, c := range []struct{ text, days, want string }{
		{"0 9 * * * keep-to=a", "a 2020-01-01..2026-12-31", "never"},
		{"0 9 * * * keep-to=a move=next", "a 2020-01-01..2026-12-31", "never"},
		{"0 9 * * * keep-to=a move=previous", "a 2020-01-01..2025-12-30", "never"},
		{"0 9 * * SAT keep-to=workdays,a move=previous", "a 2020-01-01", "never"},
		{"* * * * * * out-of=a keep-to=a", "a 2027-01-01..2027-12-31", "never"},
		{"@every 1s keep-to=a", "a 2020-01-01", "never"},
		{"@every 336h keep-to=workdays:fri", "", "never"},
		{"@every 24h out-of=closed", strings.Replace(closed, " 2047-01-01..2056-12-31", "", 1), "2047-01-01T00:00:00Z"},
		{"0 9 * * * out-of=closed", closed, "2057-01-01T09:00:00Z"},
		{"0 9 * * * out-of=closed move=next", closed, "2057-01-01T09:00:00Z"},
		{"0 9 * * MON out-of=closed move=next", "closed 2027-01-01..2036-12-31 2037-01-01..2045-12-31", "2046-01-01T09:00:00Z"},
		{"0 9 * * SUN out-of=closed move=previous", "closed 2027-01-01..2036-12-31 2037-01-01..2045-12-31", "2046-01-07T09:00:00Z"},
		{"0 9 29 2 * keep-to=workdays:sun", "", "2032-02-29T09:00:00Z"},
		{"0 9 29 2 * keep-to=workdays:sun every=48 from=2036-02-01", "", "2060-02-29T09:00:00Z"},
		{"0 9 1 * * every=1000 from=2020-01-01", "", "2103-05-01T09:00:00Z"},
		{"0 9 * * MON every=1000 from=2020-01-06", "", "2039-03-07T09:00:00Z"},
		{"0 9 * * * every=2 from=9999-12-31", "", "9999-12-31T09:00:00Z"},
	} {
		rule := mustParse(t, c.text, "").With(calendarsOf(t, c.days))
		began := time.Now()
		next := rule.Next(after)
		took := time.Since(began)
		far := c.want == "never" || instant(c.want).After(after.AddDate(MaxYears, 0, 0))
		if never := rule.NeverFires(after); never != far {
			t.Errorf("%s: never fires: %t", c.text, never)
		}
		if c.want != "never" && !next.Equal(instant(c.want)) {
			t.Errorf("%s: got %s, want %s", c.text, next, c.want)
		}
		if last := rule.Last(after, instant("2030-01-01T00:00:00Z")); !last.IsZero() {
			t.Errorf("%s: last is %s", c.text, last)
		}
		if took > time.Second {
			t.Errorf("%s: took %s", c.text, took)
		}
	}
}

// busyRule has 1,000 days in five calendars, and plans the fire after a day that is out in each of them.
func busyRule(tb testing.TB) (rule *Rule, days map[string]Days, after time.Time) {
	days = map[string]Days{}
	for calendar := range 5 {
		spans := make([]Span, 200)
		for i := range spans {
			day := Date{2027, time.January, 1}.number() + int64(i*5+calendar)
			spans[i] = Span{From: dateOf(day), To: dateOf(day)}
		}
		var err error
		if days[fmt.Sprintf("c%d", calendar)], err = NewDays(spans); err != nil {
			tb.Fatal(err)
		}
	}
	rule = mustParse(tb, "0 9 * * * out-of=c0,c1,c2,c3 keep-to=c4 move=previous", "Europe/Berlin")
	return rule, days, instant("2028-06-01T10:00:00Z")
}

func BenchmarkNextOfCalendars(b *testing.B) {
	rule, days, after := busyRule(b)
	for b.Loop() {
		rule.With(days).Next(after)
	}
}

// TestSoon has a generous bound, because other tests run at the same time. The benchmark says what it takes.
func TestSoon(t *testing.T) {
	t.Parallel()
	rule, days, after := busyRule(t)
	const times = 200
	best := time.Hour
	for range 5 {
		began := time.Now()
		for range times {
			rule.With(days).Next(after)
		}
		best = min(best, time.Since(began)/times)
	}
	if best > time.Millisecond {
		t.Errorf("one fire takes %s", best)
	}
}
