// Package recurrence computes when a recurring task fires. It is pure: it asks no database and no clock, and a Rule, once
// parsed, may be used by many goroutines.
//
// # Expressions
//
// Five fields, or six with the seconds first (0 if left out):
//
//	second (optional)  0-59
//	minute             0-59
//	hour               0-23
//	day of month       1-31, and L, L-n, nW, LW, L-nW
//	month              1-12, or a name: JAN or JANUARY
//	day of week        0-7, or a name: SUN or SUNDAY; 0 and 7 are Sunday; and nL, n#k
//
// A field is a comma-separated list. Its members are *, a value, or a range a-b, each with an optional /step; a/step
// means from a to the field's end, and ? is *. Letters may be of either case. A range that ends before it begins goes
// on from the field's beginning: 22-2 is 22,23,0,1,2, and FRI-MON is FRI,SAT,SUN,MON. A step counts from the first
// value of its range, anew in each minute, hour, day, month, year or week: "*/45 * * * *" fires at minutes 0 and 45
// of every hour. A step of more values than the field has is refused, because "*/90 * * * *" cannot mean every 90
// minutes.
//
// Some members name days that differ from month to month:
//
//	L        day of month: the last day of the month
//	L-3      day of month: three days before the last, n is 0 to 30
//	15W      day of month: the weekday (Monday to Friday) of the same month that is nearest to the 15th
//	LW       day of month: the last weekday of the month; L-3W is the weekday that is nearest to L-3
//	5L       day of week: the last Friday of the month; FRIL is the same
//	5#2      day of week: the second Friday of the month, k is 1 to 5; FRI#2 is the same
//
// A month that lacks the day (31W in April, 5#5 in most months) has no such fire. These members have no step and no
// range. Days of the week are numbered as in a crontab: 5 is Friday. Quartz counts from 1 for Sunday: its 6L is 5L
// here.
//
// Day of month and day of week, as in github.com/robfig/cron/v3: if both are restricted, a day that matches either fires,
// so "0 6 13 * FRI" fires on every 13th and on every Friday. A field is unrestricted if it contains *, ? or */1; */2 is a
// restriction. That is how Vixie's cron reads all but the last: for it, a field that begins with * restricts nothing.
//
// Descriptors stand for "0 0 1 1 *" (@yearly, @annually), "0 0 1 * *" (@monthly), "0 0 * * 0" (@weekly), "0 0 * * *" (@daily,
// @midnight) and "0 * * * *" (@hourly), in either case of letters. "@every 1h30m" is a fixed period of elapsed time; see [Rule.Anchored].
//
// # When clocks change
//
// Which of two rules holds is decided by the text of the expression, after the example of Vixie's cron (cron(8), on jobs that
// use wildcards):
//
//   - An expression with *, ? or a step from * in its second, minute or hour field is a wildcard one: it fires at every real
//     instant whose wall clock matches. A repeated autumn hour has its fires twice, a skipped spring hour has none. 0/15 is
//     another way to write */15 and counts as such.
//   - Any other is a fixed-time one: each matching time of the calendar fires once, at the first instant at which the wall
//     clock has reached it. In a repeated hour that is the first time; a time that is skipped fires at the first valid
//     instant after the gap, and several skipped by one gap fire there once.
//
// This holds for every change of a zone's offset, whatever its cause and size: half-hour shifts (Australia/Lord_Howe),
// midnights that do not exist (Asia/Beirut), a day left out (Pacific/Apia in 2011). @every does not look at wall clocks.
//
// # Times
//
// Fires are whole seconds, in UTC, in the years 1 to 9999. Zones are those of the machine's zone data, else of the data built
// into the program.
//
// Countries change their clocks at short notice, and zone data follow. [Fingerprint] tells such data apart, and [Rule.Wall]
// and [Rule.Replan] find a fire again that was planned with other data.
package recurrence
