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
//	day of month       1-31
//	month              1-12 or JAN-DEC
//	day of week        0-6 or SUN-SAT; 0 is Sunday, there is no 7
//
// A field is a comma-separated list of *, a value, or a range a-b, each with an optional /step; a/step means from a to the
// field's end, and ? is *. Names may be of either case. A step counts from the field's least value anew in each minute, hour,
// day, month or year: "*/45 * * * *" fires at 0 and 45 of every hour.
//
// Day of month and day of week, as in github.com/robfig/cron/v3: if both are restricted, a day that matches either will do,
// so "0 6 13 * FRI" fires on every 13th and on every Friday. A field is unrestricted if it contains *, ? or */1; */2 is a
// restriction.
//
// Descriptors stand for "0 0 1 1 *" (@yearly, @annually), "0 0 1 * *" (@monthly), "0 0 * * 0" (@weekly), "0 0 * * *" (@daily,
// @midnight) and "0 * * * *" (@hourly). "@every 1h30m" is a fixed period of elapsed time; see [Rule.Anchored].
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
package recurrence
