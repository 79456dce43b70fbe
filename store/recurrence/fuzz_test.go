package recurrence

import (
	"errors"
	"io"
	"strings"
	"testing"
	"time"
)

// FuzzParse: for each text there is an error, or a rule that gets on, and soon. TestAgainstBruteForce compares the
// fires.
func FuzzParse(f *testing.F) {
	for _, seed := range []struct{ expression, zone string }{
		{"*/15 * * * *", "Europe/Berlin"}, {"0 30 2 * * ?", "America/New_York"}, {"@daily", "Asia/Beirut"},
		{"@every 90s", ""}, {"0 0 29 FEB *", "Australia/Lord_Howe"}, {"0 0 13 * FRI", "Pacific/Apia"},
		{"59 59 23 29 2 ?", "Pacific/Kwajalein"}, {"* * 31 2,4,6,9,11 *", ""}, {"* * * 30 2 *", ""},
		{"0 0 31 2,4 MON", ""}, {"TZ=0", ""}, {"TZ=", ""}, {"CRON_TZ=UTC 0 0 * * *", ""}, {", , , , ,", ""},
		{", * * * * *", ""}, {"*/9223372036854775807 * * * *", ""}, {"*-x 5/0 1-2-3 * *", ""},
		{"@every -9223372036s", "Local"}, {"@every 2562047h47m16s", ""}, {"@", ""}, {"\x00\xff", "\x00"},
		{"0 9 * * TUE every=2 from=2027-01-05 out-of=a,b keep-to=workdays:mon-thu+sat move=next", "Asia/Beirut"},
		{"0 0 29 2 * every=1000 from=0001-01-01 keep-to=workdays move=previous", "Pacific/Apia"},
		{"@every 1s keep-to=workdays:sat", "America/New_York"}, {"* * * * * every=1 =", ""}, {"0 9 31 * * every=12 from=9999-02-01", ""},
		{"0 0 1 1 *", "../UTC"}, {"1-1/1,2-2/2 0 ? jan-DEC sun-sat", "Etc/GMT-14"},
	} {
		for _, after := range []int64{
			-1 << 62, -30_000_000_000, 0, 1_800_000_000, 3_991_000_000, 253_402_300_799, 1 << 62,
		} {
			f.Add(seed.expression, seed.zone, after, after%7)
		}
	}
	f.Fuzz(func(t *testing.T, expression, zone string, second, nanosecond int64) {
		began := time.Now()
		rule, err := Parse(expression, zone)
		if err != nil {
			if rule != nil || !errors.Is(err, ErrInvalid) {
				t.Fatalf("got %v, %v", rule, err)
			}
			return
		}
		plain, options, err := Split(expression)
		if err != nil {
			t.Fatal(err)
		}
		joined := options.Join(plain)
		checkStable(t, joined)
		after := time.Unix(second, nanosecond)
		rule = rule.Anchored(after)
		if again := mustParse(t, joined, zone).Anchored(after); !again.Next(after).Equal(rule.Next(after)) {
			t.Fatalf("%q fires at another time than %q", joined, expression)
		}
		for range 3 {
			next := rule.Next(after)
			if next.IsZero() {
				if rule.choice == nil && after.Before(latest.AddDate(-300, 0, 0)) { // the longest @every takes 292 years
					t.Fatalf("no fire after %s", after)
				}
				break
			}
			if !next.After(after) || next.After(latest) || next.Nanosecond() != 0 {
				t.Fatalf("after %s comes %s", after, next)
			}
			if again := rule.Next(next.Add(-time.Nanosecond)); !again.Equal(next) {
				t.Fatalf("%s is a fire, and %s", next, again)
			}
			after = next
		}
		rule.Last(time.Unix(second, nanosecond), latest)
		rule.With(nil).Explain(after, latest, 5)
		if took := time.Since(began); took > 5*time.Second { // microseconds, unless the machine is stuck
			t.Fatalf("it took %s", took)
		}
	})
}

// FuzzFiles: for each text there is an error, or spans that make Days.
func FuzzFiles(f *testing.F) {
	for _, seed := range []string{
		holidays, event("DTSTART:20280229", "RRULE:FREQ=YEARLY;COUNT=2;INTERVAL=3"), event("DTSTART:99991231", "DURATION:P9999D"),
		event(`DTSTART;TZID="a:b":20271224T220000Z`, "DTEND:20271225T000000Z", `SUMMARY:a\,b`), "BEGIN:VEVENT\nEND:VEVENT\n",
		"from,to,note\n2027-12-24,2027-12-31,closed\n# a\n2028-01-01,,\"New\nYear\"\n", "2027-12-24..2027-12-31", "\"", " :\n ",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		for _, read := range []func(io.Reader) ([]Span, error){ReadICS, ReadCSV} {
			spans, err := read(strings.NewReader(text))
			if err == nil {
				_, err = NewDays(spans)
				if err != nil {
					t.Fatal(err)
				}
			} else if spans != nil || !errors.Is(err, ErrInvalid) {
				t.Fatalf("got %v, %v", spans, err)
			}
		}
	})
}
