package recurrence

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"
)

// TestDescriptors: descriptors in any case. TestAgainstBruteForce reads the forms of crontabs by itself.
func TestDescriptors(t *testing.T) {
	t.Parallel()
	from := instant("2026-03-01T00:00:00Z")
	for given, same := range map[string]string{
		"@Daily": "0 0 * * *", "@midnight": "0 0 * * *", "@annually": "0 0 1 1 *", "@WEEKLY": "0 0 * * 0",
		"*/60 */24 */31 */12 */7": "0 0 1 1 0", "0 0 * * fRiDaY-mOn": "0 0 * * 0,1,5,6",
	} {
		got, _ := mustParse(t, given, "").Between(from, from.AddDate(10, 0, 0), 400)
		want, _ := mustParse(t, same, "").Between(from, from.AddDate(10, 0, 0), 400)
		if len(want) < 9 || !slices.Equal(got, want) {
			t.Errorf("%s: %s", given, difference(seconds(got), seconds(want)))
		}
	}
	for expression, period := range map[string]time.Duration{"@EVERY 90s": 90 * time.Second, "@Every 1h": time.Hour} {
		if got := mustParse(t, expression, "").Next(time.Unix(0, 0)); got.Unix() != int64(period/time.Second) {
			t.Errorf("%s: the first fire is %s", expression, got)
		}
	}
}

// TestDays: the days of each month that L, W and # mean, of some months by hand.
func TestDays(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ expression, from, days string }{
		{"0 0 L * *", "2027-12-31", "01-31 02-29 03-31 04-30 05-31 06-30"},
		{"0 0 L 2 *", "2099-01-01", "02-28 02-28 02-28 02-28 02-28 02-29"}, // 2100 is no leap year, 2104 is
		{"0 0 L-1 * *", "2026-12-31", "01-30 02-27 03-30 04-29"},
		{"0 0 L-0 * *", "2026-12-31", "01-31 02-28"},
		{"0 0 L-30 * *", "2026-12-31", "01-01 03-01 05-01 07-01"},
		{"0 0 L-28 2 *", "2026-12-31", "02-01 02-01"}, // 2028 and 2032
		{"0 0 l * *", "2026-12-31", "01-31 02-28"},
		{"0 0 LW * *", "2025-12-31", "01-30 02-27 03-31 04-30 05-29"},
		{"0 0 L-2W * *", "2025-12-31", "01-29 02-26 03-30 04-28 05-29"},
		// The 1st of August is a Saturday.
		{"0 0 1W * *", "2025-12-31", "01-01 02-02 03-02 04-01 05-01 06-01 07-01 08-03"},
		{"0 0 15W * *", "2025-12-31", "01-15 02-16 03-16 04-15 05-15 06-15 07-15 08-14"},
		{"0 0 31W * *", "2025-12-31", "01-30 03-31 05-29 07-31 08-31 10-30"}, // none where there is no 31st
		{"0 0 30w 11 *", "2023-12-31", "11-29 11-28 11-30"},                  // Saturday, Sunday, Monday
		{"0 0 1,L * *", "2025-12-31", "01-01 01-31 02-01 02-28"},
		{"0 0 10-12,L-1 2 *", "2025-12-31", "02-10 02-11 02-12 02-27"},
		{"0 0 * * FRI#2", "2025-12-31", "01-09 02-13 03-13"},
		{"0 0 * * 5#2", "2025-12-31", "01-09 02-13 03-13"},
		{"0 0 * * friday#2", "2025-12-31", "01-09 02-13 03-13"},
		{"0 0 * * MON#5", "2025-12-31", "03-30 06-29 08-31 11-30"},
		{"0 0 * * 5L", "2025-12-31", "01-30 02-27 03-27"},
		{"0 0 * * FRIL", "2025-12-31", "01-30 02-27 03-27"},
		{"0 0 * * 7L", "2025-12-31", "01-25 02-22 03-29"},
		{"0 0 * * 0#1,7#3", "2025-12-31", "01-04 01-18 02-01 02-15"},
		{"0 0 * * MON#1,WED", "2025-12-31", "01-05 01-07 01-14 01-21 01-28 02-02"},
		{"0 0 ? * TUESDAYL", "2025-12-31", "01-27 02-24"},
		{"0 0 L * 5L", "2025-12-31", "01-30 01-31 02-27 02-28"},              // both restricted: either
		{"0 0 L * FRI", "2025-12-31", "01-02 01-09 01-16 01-23 01-30 01-31"}, // of a plain field, too
		{"0 0 13 * FRI#2", "2025-12-31", "01-09 01-13 02-13 03-13 04-10 04-13"},
		{"0 0 1-7 * SUNL", "2025-12-31", "01-01 01-02 01-03 01-04 01-05 01-06 01-07 01-25"},
		{"0 0 */1,L * 5L", "2025-12-31", "01-30 02-27"}, // one restricts nothing: both
		{"0 0 * 2 FRI#5", "2025-12-31", "02-29 02-29"},  // 2036, 2064
	} {
		rule := mustParse(t, c.expression, "")
		from, err := time.Parse(time.DateOnly, c.from)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for range strings.Fields(c.days) {
			from = rule.Next(from)
			got = append(got, from.Format("01-02"))
		}
		if joined := strings.Join(got, " "); joined != c.days {
			t.Errorf("%s: got %s, want %s", c.expression, joined, c.days)
		}
	}
}

// TestCrontabRefused: each value that is not taken has its own reason, and none in words of robfig/cron.
func TestCrontabRefused(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ expression, says string }{
		{"61 * * * *", "cron: minute 61 is not in 0-59"},
		{"0 24 * * *", "cron: hour 24 is not in 0-23"},
		{"60 0 0 * * *", "cron: second 60 is not in 0-59"},
		{"0 0 0 * *", "cron: day of month 0 is not in 1-31"},
		{"0 0 32 * *", "cron: day of month 32 is not in 1-31"},
		{"0 0 1 0 *", "cron: month 0 is not in 1-12"},
		{"0 0 1 13 *", "cron: month 13 is not in 1-12"},
		{"0 0 * * 8", "cron: day of week 8 is not in 0-7"},
		{"0 0 * * 1-8", "cron: day of week 8 is not in 0-7"},
		{"0-61 * * * *", "cron: minute 61 is not in 0-59"},
		{"5,70-80 * * * *", "cron: minute 70 is not in 0-59"},
		{"*/90 * * * *", "cron: minute step 90 is not in 1-60: a step counts anew in each hour"},
		{"*/0 * * * *", "cron: minute step 0 is not in 1-60"},
		{"5/61 * * * * *", "cron: second step 61 is not in 1-60: a step counts anew in each minute"},
		{"0 */25 * * *", "cron: hour step 25 is not in 1-24: a step counts anew in each day"},
		{"0 0 */32 * *", "cron: day of month step 32 is not in 1-31: a step counts anew in each month"},
		{"0 0 1 */13 *", "cron: month step 13 is not in 1-12: a step counts anew in each year"},
		{"0 0 * * 1-5/8", "cron: day of week step 8 is not in 1-7: a step counts anew in each week"},
		{"0 0 * * FRY", `cron: day of week "FRY" is neither a number in 0-7 nor a name, such as SUN or SUNDAY`},
		{"0 0 * * TUES", `cron: day of week "TUES" is neither`},
		{"0 0 1 MON *", `cron: month "MON" is neither a number in 1-12 nor a name, such as JAN or JANUARY`},
		{"FRI * * * *", `cron: minute "FRI" is not a number in 0-59`},
		{"H * * * *", `cron: minute "H" takes a time by chance: fix it, and spread tasks by their jitter`},
		{"H/15 * * * *", "takes a time by chance"},
		{"0~30 * * * *", `cron: minute "0~30" takes a time by chance`},
		{"L * * * *", `cron: minute "L" is not a number in 0-59`},
		{"0 0 * L *", `cron: month "L" is neither`},
		{
			"0 0 * * L",
			`cron: day of week "L" is not taken: write SAT for Saturday, FRIL for the last Friday of the month`,
		},
		{
			"0 0 * * 5W",
			`cron: day of week "5W" is not a value, a range a-b or * (each with an optional /step), 5L or 5#2`,
		},
		{
			"0 0 FRI#2 * *",
			`cron: day of month "FRI#2" is not a value, a range a-b or * (each with an optional /step), L, L-2, ` +
				`15W or LW`,
		},
		{"0 0 FRI * *", `cron: day of month "FRI" is not a number in 1-31`},
		{"0 0 * * 5#0", `cron: day of week "5#0" names a week that is not in 1-5`},
		{"0 0 * * 5#6", `cron: day of week "5#6" names a week`},
		{"0 0 * * 8#2", "cron: day of week 8 is not in 0-7"},
		{"0 0 * * 8L", "cron: day of week 8 is not in 0-7"},
		{"0 0 * * XL", `cron: day of week "X" is neither`},
		{"0 0 L-31 * *", "cron: day of month 31 after L is not in 0-30"},
		{"0 0 0W * *", "cron: day of month 0 is not in 1-31"},
		{"0 0 32W * *", "cron: day of month 32 is not in 1-31"},
		{"0 0 L/2 * *", `cron: day of month "L" takes no range and no step`},
		{"0 0 15-L * *", `cron: day of month "L" takes no range and no step`},
		{"0 0 1-5W * *", `cron: day of month "1-5W" is not a value`},
		{"0 0 * * MON-FRI#2", `cron: day of week "MON-FRI#2" is not a value`},
		{"1,,2 * * * *", `cron: minute "" is not a value, a range a-b or *, each with an optional /step`},
		{"*-5 * * * *", `cron: minute "*-5" is not a value`},
		{"1-2-3 * * * *", `cron: minute "1-2-3" is not a value`},
		{"0 0 31W 2 *", "must be able to fire"},
		{"0 0 L-29 2 *", "must be able to fire"},
		{"0 0 31W 4,6 ?", "must be able to fire"},
		{"0 0 9 * * * 2026", "a year or a command is no part of it"},
		{"0 3 * * * root /usr/bin/backup", "a year or a command is no part of it"},
		{"0 3 * * * /usr/bin/backup", "a year or a command is no part of it"},
		{"@reboot", "@reboot names no time"},
	} {
		rule, err := Parse(c.expression, "")
		if rule != nil || !errors.Is(err, ErrInvalid) || !strings.HasPrefix(err.Error(), "invalid: cron") ||
			!strings.Contains(err.Error(), c.says) {
			t.Errorf("%q: got %v, want %q", c.expression, err, c.says)
			continue
		}
		for _, foreign := range []string{"of range", "parse", "strconv", "expected", "failed"} {
			if strings.Contains(err.Error(), foreign) {
				t.Errorf("%q: the error has words of robfig/cron: %v", c.expression, err)
			}
		}
	}
}
