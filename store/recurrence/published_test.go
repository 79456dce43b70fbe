package recurrence

import (
	"strings"
	"testing"
	"time"
)

// TestPublished: examples that others publish for their calendars and business days.
//
// pandas: the user guide "Time series / date functionality" and pandas/tests/tseries/offsets. Quartz: its example 8 and
// the tests of Quartz and Quartz.NET. Temporal: service/worker/scheduler/spec_test.go.
//
// These are not here, for a reason:
//   - pandas' BusinessHour and CustomBusinessHour, Quartz's DailyCalendar and CronCalendar, Temporal's TestSpecExclude:
//     they leave out hours of a day. An expression's own hours say that; calendars have whole days.
//   - pandas' offset=timedelta of a business month: the expression's hours, or another day, say that.
//   - pandas' FY5253 (years of 52 or 53 weeks) and Easter: no expression names such days. They can be days of a calendar.
//   - pandas' next_monday_or_tuesday, before_nearest_workday and after_nearest_workday: they move a holiday past another.
//     The days of a calendar are data, so it is the source of the data that moves them.
//   - Quartz's isTimeIncluded and serialization, Temporal's jitter: no part of when a rule fires.
func TestPublished(t *testing.T) {
	t.Parallel()
	const (
		egypt   = "holidays 2012-05-01 2013-05-01 2014-05-01"
		example = "cal 2012-05-28 2012-07-04 2012-10-08"
		// The days of USFederalHolidayCalendar that concern the cases.
		federal = "us 2010-01-01 2010-12-31 2012-01-02 2013-12-25 2014-01-01 2014-01-20"
		annual  = "holidays 2026-07-04 2026-10-31 2026-12-25 2027-07-04 2027-10-31 2027-12-25"
	)
	for _, c := range []struct{ what, text, days, after, want string }{
		{"pandas: two business days after a Friday", "0 0 * * * keep-to=workdays", "", "2018-01-05", "2018-01-08 2018-01-09"},
		{"pandas: CustomBusinessDay in Egypt", "0 0 * * * keep-to=workdays:sun-thu out-of=holidays", egypt, "2013-04-29",
			"2013-04-30 2013-05-02 2013-05-05 2013-05-06 2013-05-07"},
		{"pandas: CDay with a calendar of one's own", "0 0 * * * keep-to=workdays out-of=cal", example, "2012-07-01",
			"2012-07-02 2012-07-03 2012-07-05 2012-07-06 2012-07-09 2012-07-10"},
		{"pandas: a week mask", "0 0 * * * keep-to=workdays:mon+wed+fri", "", "2022-12-11",
			"2022-12-12 2022-12-14 2022-12-16 2022-12-19 2022-12-21"},
		{"pandas: bdate_range with a mask and holidays", "0 0 * * * keep-to=workdays:mon+wed+fri out-of=h", "h 2011-01-05 2011-03-14",
			"2011-01-01", "2011-01-03 2011-01-07 2011-01-10"},
		{"pandas: BMonthBegin", "0 0 1 * * keep-to=workdays move=next", "", "2007-12-31", "2008-01-01 2008-02-01 2008-03-03 2008-04-01"},
		{"pandas: CustomBusinessMonthBegin with holidays", "0 0 1 * * keep-to=workdays out-of=h move=next",
			"h 2012-02-01..2012-02-02 2012-03-01", "2012-01-01", "2012-01-02 2012-02-03 2012-03-02"},
		{"pandas: CustomBusinessMonthBegin with federal holidays", "0 0 1 * * keep-to=workdays out-of=us move=next", federal,
			"2010-01-01", "2010-01-04 2010-02-01 2010-03-01 2010-04-01 2010-05-03 2010-06-01 2010-07-01 2010-08-02 2010-09-01 " +
				"2010-10-01 2010-11-01 2010-12-01 2011-01-03 2011-02-01"},
		{"pandas: BMonthEnd", "0 0 L * * keep-to=workdays move=previous", "", "2008-01-01", "2008-01-31 2008-02-29 2008-03-31"},
		{"pandas: BMonthEnd of 2021", "0 0 L * * keep-to=workdays move=previous", "", "2021-01-01", "2021-01-29 2021-02-26 2021-03-31"},
		{"pandas: CustomBusinessMonthEnd with holidays", "0 0 L * * keep-to=workdays out-of=h move=previous",
			"h 2012-01-31 2012-02-28..2012-02-29", "2012-01-01", "2012-01-30 2012-02-27"},
		{"pandas: BQuarterEnd", "0 0 L 3,6,9,12 * keep-to=workdays move=previous", "", "2012-01-01", "2012-03-30 2012-06-29 2012-09-28"},
		{"pandas: nearest_workday", "0 0 4W 7 *", "", "2020-01-01", "2020-07-03 2021-07-05 2022-07-04"},
		{"pandas: next_monday", "0 0 4 7 * keep-to=workdays move=next", "", "2020-01-01", "2020-07-06 2021-07-05 2022-07-04"},
		{"pandas: previous_friday", "0 0 4 7 * keep-to=workdays move=previous", "", "2020-01-01", "2020-07-03 2021-07-02 2022-07-04"},
		{"pandas: sunday_to_monday", "0 0 4 7 * out-of=workdays:sun move=next", "", "2020-01-01", "2020-07-04 2021-07-05 2022-07-04"},

		{"Quartz: example 8, hourly from Halloween on", "0 * * * * out-of=holidays", annual, "2026-10-31T09:59:00", "2026-11-01"},
		{"Quartz: WeeklyCalendar without Friday", "0 0 * * * out-of=workdays:sat+sun+fri", "", "2007-08-02", "2007-08-06"},
		{"Quartz: a calendar on another", "0 0 * * * out-of=workdays:sat-sun,h", "h 2007-10-22", "2007-10-19", "2007-10-23"},

		{"Temporal: an interval on days that are not excluded", "@every 24h out-of=skip", "skip 2022-03-24..2022-03-25", "2022-03-23",
			"2022-03-26 2022-03-27"},
	} {
		rule := mustParse(t, c.text, "").With(calendarsOf(t, c.days))
		after := c.after
		if len(after) == len(time.DateOnly) {
			after += "T00:00:00"
		}
		at := instant(after + "Z")
		var got []string
		for range strings.Fields(c.want) {
			at = rule.Next(at)
			got = append(got, strings.TrimSuffix(at.Format("2006-01-02 15:04"), " 00:00"))
		}
		if got := strings.Join(got, " "); got != c.want {
			t.Errorf("%s: got %s, want %s", c.what, got, c.want)
		}
	}
	// Temporal's TestExcludeAll and TestGetNextTimeComputeLimitExceeded find no time. Here the text is refused.
	for _, text := range []string{"@every 168h out-of=workdays:mon-sun", "* * * * * * out-of=workdays:mon-sun"} {
		if _, err := Parse(text, ""); err == nil || !strings.Contains(err.Error(), noDayLeft) {
			t.Errorf("%s: got %v", text, err)
		}
	}
}
