package recurrence

import (
	"strings"
	"testing"
	"time"
)

// TestExplain: TestAgainstDayModel compares the times. Here are the sentences.
func TestExplain(t *testing.T) {
	t.Parallel()
	company, err := NewDays([]Span{spanOf(t, "2027-12-24..2027-12-31", "closed"), spanOf(t, "2028-01-01", "New Year")})
	if err != nil {
		t.Fatal(err)
	}
	long, err := NewDays([]Span{spanOf(t, "2027-12-24..2029-12-31", "")})
	if err != nil {
		t.Fatal(err)
	}
	days := map[string]Days{"company": company, "long": long}
	for _, c := range []struct {
		text     string
		from, to string
		want     string
	}{
		{"0 9 * * FRI out-of=company", "2027-12-17", "2028-01-08", `
			2027-12-17 09:00
			2027-12-24 09:00 left out: 2027-12-24 is out (company: closed)
			2027-12-31 09:00 left out: 2027-12-31 is out (company: closed)
			2028-01-07 09:00`},
		{"0 9 * * FRI out-of=company keep-to=workdays move=next", "2027-12-23", "2028-01-08", `
			2027-12-24 09:00 left out: 2027-12-24 is out (company: closed), and 2028-01-03 has a fire at this time anyway
			2028-01-03 09:00 from 2027-12-31 09:00: 2027-12-31 is out (company: closed)
			2028-01-07 09:00`},
		{"0 9 31 12 * out-of=company move=previous", "2027-12-01", "2028-12-31", `
			2027-12-23 09:00 from 2027-12-31 09:00: 2027-12-31 is out (company: closed)`},
		{"0 9 1 1 * keep-to=workdays out-of=long move=next", "2027-12-01", "2030-01-02", `
			2028-01-01 09:00 left out: 2028-01-01 is out (long), and no day of the 366 after it is in
			2029-01-01 09:00 left out: 2029-01-01 is out (long), and 2030-01-01 has a fire at this time anyway
			2030-01-01 09:00`},
		{"0 9 1 1 * out-of=long move=previous", "2028-12-01", "2030-01-02", `
			2029-01-01 09:00 left out: 2029-01-01 is out (long), and no day of the 366 before it is in
			2030-01-01 09:00`},
		{"0 9 * * SAT every=2 from=2027-01-02 keep-to=workdays move=previous", "2027-01-01", "2027-01-16", `
			2027-01-02 09:00 left out: 2027-01-02 is out (not in workdays), and no earlier day is in, because the first is from=2027-01-02
			2027-01-15 09:00 from 2027-01-16 09:00: 2027-01-16 is out (not in workdays)`},
		{"@every 12h out-of=company", "2027-12-31T06", "2028-01-02", `
			2027-12-31 12:00 left out: 2027-12-31 is out (company: closed)
			2028-01-01 00:00 left out: 2028-01-01 is out (company: New Year)
			2028-01-01 12:00 left out: 2028-01-01 is out (company: New Year)
			2028-01-02 00:00`},
		{"0 9 * * * every=2 from=2027-01-01", "2027-01-01", "2027-01-04", `
			2027-01-01 09:00
			2027-01-03 09:00`},
		{"@daily", "2027-01-01", "2027-01-03", `
			2027-01-02 00:00
			2027-01-03 00:00`},
		{"@daily keep-to=nothing", "2027-01-01", "2027-01-03", `
			2027-01-02 00:00 left out: 2027-01-02 is out (not in nothing)
			2027-01-03 00:00 left out: 2027-01-03 is out (not in nothing)`},
	} {
		read := func(text string) time.Time { return instant(text + "T00:00:00"[max(0, len(text)-10):] + "Z") }
		fires, more := mustParse(t, c.text, "").With(days).Explain(read(c.from), read(c.to), 100)
		var got strings.Builder
		for _, fire := range fires {
			const form = "2006-01-02 15:04"
			got.WriteString("\n\t\t\t" + fire.When().Format(form))
			switch {
			case fire.LeftOut:
				got.WriteString(" left out: " + fire.Why)
			case fire.Moved:
				got.WriteString(" from " + fire.From.Format(form) + ": " + fire.Why)
			}
			if fire.LeftOut != fire.At.IsZero() || !fire.Moved && !fire.LeftOut && fire.From != fire.At {
				t.Errorf("%s: %+v", c.text, fire)
			}
		}
		if more || got.String() != c.want {
			t.Errorf("%s: more %t, got%s\nwant%s", c.text, more, got.String(), c.want)
		}
	}
}

// TestExplainRepeatedHour: in Beirut, at the end of 30 October 2027, the clocks go from 24:00 to 23:00. Each half hour
// until then is on 30 October.
func TestExplainRepeatedHour(t *testing.T) {
	t.Parallel()
	rule := mustParse(t, "*/30 23 * * * out-of=a", "Asia/Beirut").With(calendarsOf(t, "a 2027-10-31"))
	fires, _ := rule.Explain(instant("2027-10-30T12:00:00Z"), instant("2027-10-31T12:00:00Z"), 10)
	var got []string
	for _, fire := range fires {
		got = append(got, fire.When().In(rule.zone).Format("02 15:04 -07"))
	}
	if got, want := strings.Join(got, ", "), "30 23:00 +03, 30 23:30 +03, 30 23:00 +02, 30 23:30 +02"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

// TestExplainIsBounded: a rule of each second, whose fires are all left out or all moved, is explained soon.
func TestExplainIsBounded(t *testing.T) {
	t.Parallel()
	days := calendarsOf(t, "closed 2027-01-01..2036-12-31\nsaturdays 2027-01-02 2027-01-09 2027-01-16")
	from := instant("2027-01-01T12:00:00Z")
	for text, want := range map[string]int{
		"* * * * * * out-of=closed":                10,
		"* * * * * * out-of=closed move=next":      10,
		"* * * * * SAT out-of=saturdays move=next": 10,
		"@every 1s out-of=closed":                  10,
		"0 0 29 2 * out-of=closed":                 3,
	} {
		began := time.Now()
		fires, more := mustParse(t, text, "").With(days).Explain(from, from.AddDate(10, 0, 0), 10)
		if took := time.Since(began); len(fires) != want || more != (want == 10) || took > time.Second {
			t.Errorf("%s: %d fires, more %t, in %s", text, len(fires), more, took)
		}
	}
	if fires, more := mustParse(t, "@daily", "").Explain(from, from.AddDate(0, 0, 2), 0); len(fires) != 0 || !more {
		t.Errorf("most 0: %v, %t", fires, more)
	}
}
