package recurrence

import (
	"cmp"
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"
)

func TestSplit(t *testing.T) {
	t.Parallel()
	january := Date{2027, time.January, 5}
	for _, c := range []struct {
		text, expression string
		options          Options
		joined           string // "" means text
	}{
		{"0 9 * * TUE", "0 9 * * TUE", Options{}, ""},
		{" 0  9 * *\tTUE ", " 0  9 * *\tTUE ", Options{}, ""},
		{"0 9 * * TUE every=2 from=2027-01-05", "0 9 * * TUE", Options{Every: 2, From: january}, ""},
		{"0 9 * * TUE every=1", "0 9 * * TUE", Options{}, "0 9 * * TUE"},
		{"0 9 * * TUE from=2027-01-05 every=1 out-of=a", "0 9 * * TUE", Options{OutOf: []string{"a"}}, "0 9 * * TUE out-of=a"},
		{"0  9 * * *  move=next  keep-to=workdays:mon-thu+sat,b  from=2027-01-05 every=1000 out-of=school,company", "0 9 * * *",
			Options{1000, january, []string{"school", "company"}, []string{"workdays:mon-thu+sat", "b"}, MoveNext},
			"0 9 * * * every=1000 from=2027-01-05 out-of=company,school keep-to=b,workdays:mon-thu+sat move=next"},
		{"@every 90s out-of=a_1-b move=skip", "@every 90s", Options{OutOf: []string{"a_1-b"}}, "@every 90s out-of=a_1-b"},
		{"@daily keep-to=workdays move=previous", "@daily", Options{KeepTo: []string{"workdays"}, Move: MovePrevious}, ""},
		{"TZ=UTC 0 9 * * *", "TZ=UTC 0 9 * * *", Options{}, ""},
		{"", "", Options{}, ""},
	} {
		expression, options, err := Split(c.text)
		if err != nil || expression != c.expression || !reflect.DeepEqual(options, c.options) {
			t.Errorf("%q: got %q, %+v, %v", c.text, expression, options, err)
		}
		joined := options.Join(expression)
		if want := cmp.Or(c.joined, c.text); joined != want {
			t.Errorf("%q: joined to %q, want %q", c.text, joined, want)
		}
		checkStable(t, joined)
	}
	if joined := (Options{Move: MoveSkip, OutOf: []string{"a"}}).Join("@daily"); joined != "@daily out-of=a" {
		t.Errorf("joined to %q", joined)
	}
}

// checkStable: what Join has made, Split and Join make again.
func checkStable(t *testing.T, joined string) {
	t.Helper()
	expression, options, err := Split(joined)
	if again := options.Join(expression); err != nil || again != joined {
		t.Errorf("%q becomes %q, %v", joined, again, err)
	}
}

func TestOptionsRefused(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", 64)
	for text, want := range map[string]string{
		"0 9 * * * evry=2":                 `cron must have no words behind the fields but the options every=, from=, out-of=, keep-to= and move=, got "evry=2"`,
		"0 9 * * * out-of=a backup":        `cron must have no words behind the fields but the options`,
		"0 9 * * * EVERY=2":                `cron must have no words behind the fields but the options`,
		"0 9 * * * every=2 every=3":        `cron must have each option at most once, got "every=3"`,
		"0 9 * * * every=0":                `cron option every must be a whole number from 1 to 1000, got "0"`,
		"0 9 * * * every=1001":             `cron option every must be`,
		"0 9 * * * every=-2":               `cron option every must be`,
		"0 9 * * * every=+2":               `cron option every must be`,
		"0 9 * * * every=":                 `cron option every must be`,
		"0 9 * * * every=two":              `cron option every must be`,
		"0 9 * * * every=2":                `cron option every needs from, the day from which it counts`,
		"0 9 * * * from=2027-01-05":        `cron option from needs every`,
		"0 9 * * * every=2 from=2027-2-29": `cron option from must be a day that exists, such as 2027-01-05, got "2027-2-29"`,
		"0 9 * * * every=2 from=2027-02-29": `cron option from must be a day that exists, ` +
			`such as 2027-01-05, got "2027-02-29"`,
		"0 9 * * * every=2 from=0000-01-01":              `cron option from must be a day that exists`,
		"0 9 13 * FRI every=2 from=2027-01-05":           `cron option every must not go with both a day of month and a day of week, because`,
		"@every 1h every=2 from=2027-01-05":              `cron @every must have no options but out-of and keep-to, because it counts elapsed time`,
		"@every 1h out-of=a move=next":                   `cron @every must have no options but out-of and keep-to`,
		"0 9 * * * move=next":                            `cron option move needs out-of or keep-to, because otherwise no day is out`,
		"0 9 * * * out-of=a move=later":                  `cron option move must be skip, next or previous, got "later"`,
		"0 9 * * * out-of=a move=":                       `cron option move must be skip, next or previous, got ""`,
		"0 9 * * * out-of=":                              `cron option out-of must have names of calendars`,
		"0 9 * * * out-of=a,":                            `cron option out-of must have names of calendars`,
		"0 9 * * * out-of=Company":                       `cron option out-of must have names of calendars (a-z first, then also 0-9, _ and -, at most 63 characters), workdays, or other days as workdays:mon-thu+sat, got "Company"`,
		"0 9 * * * keep-to=1a":                           `cron option keep-to must have names of calendars`,
		"0 9 * * * keep-to=" + long:                      `cron option keep-to must have names of calendars`,
		"0 9 * * * keep-to=workdays:":                    `cron option keep-to must have names of calendars`,
		"0 9 * * * keep-to=workdays:mon-":                `cron option keep-to must have names of calendars`,
		"0 9 * * * keep-to=workdays:mo":                  `cron option keep-to must have names of calendars`,
		"0 9 * * * keep-to=workdays:1-5":                 `cron option keep-to must have names of calendars`,
		"0 9 * * * out-of=a,b,a":                         `cron option out-of must not name a calendar twice, got "a"`,
		"0 9 * * * out-of=a,b,c,d,e,f,g,h,i":             `cron option out-of must have at most 8 calendars, got "9"`,
		"0 9 * * SAT keep-to=workdays":                   `cron must be able to fire: its options leave no day, got "0 9 * * SAT keep-to=workdays"`,
		"0 9 * * * keep-to=workdays out-of=workdays":     `cron must be able to fire: its options leave no day`,
		"@every 1h keep-to=workdays out-of=workdays":     `cron must be able to fire: its options leave no day`,
		"0 9 31 * * every=12 from=2027-02-01":            `cron must be able to fire: its options leave no day`,
		"0 9 29 2 * every=24 from=2027-02-01":            `cron must be able to fire: its options leave no day`,
		"0 9 30 2 * out-of=a":                            `cron must be able to fire: no such day of the month ever comes`,
		"0 9 * * out-of=a":                               `cron must be 5 fields`,
		"0 9 * * * 2027 out-of=a":                        `cron: day of week 2027 is not in 0-7`,
		"out-of=a":                                       `cron must be 5 fields`,
		"0 9 * * * out-of=a" + strings.Repeat(" ", 1024): `cron must be at most 1024 bytes`,
	} {
		_, err := Parse(text, "Europe/Berlin")
		if !errors.Is(err, ErrInvalid) || !strings.HasPrefix(strings.TrimPrefix(err.Error(), "invalid: "), want) {
			t.Errorf("%s: got %v, want %s", text, err, want)
		}
	}
	for _, text := range []string{
		"0 9 * * * keep-to=workdays:fri-mon+wed", "0 9 * * * out-of=" + long[1:], "0 9 * * * out-of=workdays-x,workdays",
		"0 9 * * * out-of=a,b,c,d,e,f,g,h keep-to=a,b,c,d,e,f,g,h", "0 9 13 * FRI every=1 from=2027-01-05 out-of=a",
		"0 9 ? * */2 every=2 from=2027-01-05",
	} {
		if _, err := Parse(text, ""); err != nil {
			t.Error(err)
		}
	}
}
