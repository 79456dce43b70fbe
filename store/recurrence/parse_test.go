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
	for _, c := range []struct{ expression, zone, says string }{
		{"", "", "5 fields"},
		{" \n", "", "5 fields"},
		{"* * * *", "", "5 fields"},
		{"* * * * * * *", "", "5 fields"},
		{"@dayly", "", "5 fields"},
		{"@daily 5", "", "5 fields"},
		{"@daily * * * *", "", "5 fields"},
		{"@daily * * * * *", "", "5 fields"},
		{strings.Repeat("1,", 600) + "1 * * * *", "", "1024 bytes"},
		{"*/9999999999 * * * *", "", "is not a value, a range"},
		{", * * * *", "", "is not a value, a range"},
		{", * * * * *", "", "is not a value, a range"},
		{"1, * * * *", "", "is not a value, a range"},
		{"+5 * * * *", "", "is not a value, a range"},
		{"-5 * * * *", "", "is not a value, a range"},
		{"1/2/3 * * * *", "", "is not a value, a range"},
		{"٣ * * * *", "", "is not a value, a range"},
		{"0 0 30 2 *", "", "must be able to fire"},
		{"0 0 30,31 FEB ?", "", "must be able to fire"},
		{"* * 31 2,4,6,9,11 *", "", "must be able to fire"},
		{"* * * 31 2,4,6,9,11 */1", "", "must be able to fire"},
		{"TZ=0", "", "use time_zone"},
		{"TZ=", "", "use time_zone"},
		{"CRON_TZ=Europe/Berlin 0 0 * * *", "", "use time_zone"},
		{"  tz=Europe/Berlin 0 0 * * *", "", "use time_zone"},
		{"@every", "", "@every must have"},
		{"@every 1h 30m", "", "@every must have"},
		{"@every 5", "", "@every must have"},
		{"@every 999ms", "", "@every must have"},
		{"@every 1500ms", "", "@every must have"},
		{"@every 0s", "", "@every must have"},
		{"@every -1h", "", "@every must have"},
		{"@every 9999999h", "", "@every must have"},
		{"@daily", "Local", "IANA zone"},
		{"@daily", "local", "IANA zone"},
		{"@daily", "localtime", "IANA zone"},
		{"@daily", "right/Europe/Berlin", "IANA zone"},
		{"@daily", "Europe/Nowhere", "IANA zone"},
		{"@daily", "Europe", "IANA zone"},
		{"@daily", "../etc/passwd", "IANA zone"},
		{"@daily", "/etc/localtime", "IANA zone"},
		{"@daily", "UTC\x00", "IANA zone"},
		{"@daily", " UTC", "IANA zone"},
		{"@daily", "+02:00", "IANA zone"},
	} {
		rule, err := Parse(c.expression, c.zone)
		field := "cron"
		if c.zone != "" {
			field = "time_zone"
		}
		if rule != nil || !errors.Is(err, ErrInvalid) || !strings.HasPrefix(err.Error(), "invalid: "+field) ||
			!strings.Contains(err.Error(), c.says) {
			t.Errorf(
				"%.50q in %q: got %v, %v, want an error on %sthat says %q", c.expression, c.zone, rule, err, field,
				c.says,
			)
		}
		if err != nil && len(err.Error()) > 400 {
			t.Errorf("%.50q: the error has %d bytes", c.expression, len(err.Error()))
		}
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
