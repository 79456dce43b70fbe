package recurrence

import (
	"errors"
	"strings"
	"testing"
)

func TestParse(t *testing.T) {
	for _, expression := range []string{
		"* * * * *", "0 0 * * * *", "  5\t4 * * ?  ", "*/15 0-6,20-23 1,15 JAN-jun,12 Mon-FRI", "@hourly", "@annually",
		"@midnight", " @every 1h30m ", "@every 1s", "@every 0.5m", "0 0 29 2 *", "0 0 30 2 MON", "*/60 * * * *",
		"*/24 * * * *", "00 09 01 01 00", strings.Repeat("1,", 400) + "1 * * * *",
	} {
		if _, err := Parse(expression, ""); err != nil {
			t.Errorf("%q: %v", expression, err)
		}
	}
	for _, zone := range []string{
		"", "UTC", "Europe/Berlin", "America/Argentina/Buenos_Aires", "Etc/GMT+12", "America/Port-au-Prince", "EST5EDT",
	} {
		if _, err := Parse("@daily", zone); err != nil {
			t.Errorf("%q: %v", zone, err)
		}
	}
}

func TestParseRefuses(t *testing.T) {
	refused := func(expression, zone, field, says string) {
		t.Helper()
		rule, err := Parse(expression, zone)
		if rule != nil || !errors.Is(err, ErrInvalid) || !strings.HasPrefix(err.Error(), "invalid: "+field) ||
			!strings.Contains(err.Error(), says) || len(err.Error()) > 400 {
			t.Errorf("%.50q in %q: got %v, %v, want an error on %s that says %q", expression, zone, rule, err, field, says)
		}
	}
	for says, expressions := range map[string][]string{
		"5 fields": {
			"", " \n", "* * * *", "* * * * * * *", "@dayly", "@daily 5", "@daily * * * *", "@daily * * * * *",
		},
		"1024 bytes": {strings.Repeat("1,", 600) + "1 * * * *"},
		"is not a value, a range": {
			"*/9999999999 * * * *", ", * * * *", ", * * * * *", "1, * * * *", "+5 * * * *", "-5 * * * *",
			"1/2/3 * * * *", "٣ * * * *",
		},
		"must be able to fire": {"0 0 30 2 *", "0 0 30,31 FEB ?", "* * 31 2,4,6,9,11 *", "* * * 31 2,4,6,9,11 */1"},
		"use time_zone":        {"TZ=0", "TZ=", "CRON_TZ=Europe/Berlin 0 0 * * *", "  tz=Europe/Berlin 0 0 * * *"},
		"@every must have": {
			"@every", "@every 1h 30m", "@every 5", "@every 999ms", "@every 1500ms", "@every 0s", "@every -1h",
			"@every 9999999h",
		},
	} {
		for _, expression := range expressions {
			refused(expression, "", "cron", says)
		}
	}
	for _, zone := range []string{
		"Local", "local", "localtime", "right/Europe/Berlin", "Europe/Nowhere", "Europe", "../etc/passwd",
		"/etc/localtime", "UTC\x00", " UTC", "+02:00",
	} {
		refused("@daily", zone, "time_zone", "IANA zone")
	}
}

func TestWild(t *testing.T) {
	for expression, fixed := range map[string]bool{
		"0 9 * * *": true, "0,30 9-17 * * *": true, "0-59 2 * * *": true, "5/15 2 * * *": true, "15 30 2 * * *": true,
		"@daily": true, "@weekly": true, "0 0-23 * * *": true, "* 2 * * *": false, "*/15 2 * * *": false,
		"0 */2 * * *": false, "0 ? * * *": false, "0/15 2 * * *": false, "00/5 2 * * *": false, "5,*/20 2 * * *": false,
		"* 30 2 * * *": false, "@hourly": false,
	} {
		if rule := mustParse(t, expression, ""); rule.fixed != fixed {
			t.Errorf("%s: fixed is %t", expression, rule.fixed)
		}
	}
}
