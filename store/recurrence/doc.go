// Package recurrence computes when a recurring task fires. It uses no database and no clock. A Rule is safe for
// concurrent use.
//
// # Expressions
//
// An expression has five fields, or six fields with the seconds first. Seconds that are left out are 0.
//
//	second (optional)  0-59
//	minute             0-59
//	hour               0-23
//	day of month       1-31, and L, L-n, nW, LW, L-nW
//	month              1-12, or a name: JAN or JANUARY
//	day of week        0-7, or a name: SUN or SUNDAY; 0 and 7 are Sunday; and nL, n#k
//
// A field is a comma-separated list. Its members are *, a value, or a range a-b, each with an optional /step. a/step
// means from a to the field's end. ? means *. Letters may be in upper or lower case.
//
// A range that ends before it begins continues at the beginning of the field: 22-2 is 22,23,0,1,2, and FRI-MON is
// FRI,SAT,SUN,MON.
//
// A step counts from the first value of its range. It starts again in each minute, hour, day, month, year or week:
// "*/45 * * * *" fires at minutes 0 and 45 of every hour. Parse refuses a step that is larger than the number of the
// field's values, because "*/90 * * * *" cannot mean every 90 minutes.
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
// In a month that lacks the day (31W in April, 5#5 in most months), such a member does not fire. These members allow
// no step and no range. Days of the week have the numbers of a crontab: 5 is Friday. Quartz counts from 1 for Sunday,
// so its 6L is 5L here.
//
// If both day of month and day of week are restricted, a day that matches either of them fires, as in
// github.com/robfig/cron/v3. For example, "0 6 13 * FRI" fires on every 13th and on every Friday. A field is
// unrestricted if it contains *, ? or */1. In contrast, */2 is a restriction. Vixie's cron has the same rules except
// for the last one: there a field that begins with * is unrestricted.
//
// Descriptors stand for "0 0 1 1 *" (@yearly, @annually), "0 0 1 * *" (@monthly), "0 0 * * 0" (@weekly), "0 0 * * *"
// (@daily, @midnight) and "0 * * * *" (@hourly). They may be in upper or lower case. "@every 1h30m" is a fixed period
// of elapsed time (see [Rule.Anchored]).
//
// # Options
//
// Behind the expression there may be options, each at most once, in any order. They choose among the days on which the
// expression fires. Examples are "0 9 * * TUE every=2 from=2027-01-05" and
// "0 9 * * * out-of=company,school keep-to=workdays move=next".
//
// every=N from=DATE takes each Nth week, month or day of the calendar, beginning with the one that contains DATE. It
// counts weeks, which begin on Monday, if the expression restricts the day of week. It counts months if it restricts
// the day of month, or the month and no day. It counts days otherwise. Units in which the expression does not fire
// count, too. N is 2 to 1000. There is no fire before DATE. Clocks that change do not move the fires, in contrast to
// "@every 336h". Parse refuses every if the expression restricts both the day of month and the day of week.
//
// out-of=NAMES leaves out the days of each of these calendars. keep-to=NAMES leaves out the days that are missing in
// any of these calendars. There are at most eight names in each list. A calendar is a set of days, which the caller
// has in a table and binds by [Rule.With]. The calendar workdays is built in. It has Monday to Friday.
// workdays:mon-thu+sat has other days of the week.
//
// move=next and move=previous move a fire from a day that is out to the nearest day after or before it that is in.
// The time of the day stays the same. A fire moves over at most 366 days. If no day that near is in, it is left out.
// Without move, or with move=skip, each fire on a day that is out is left out. Fires that come to one time are one.
//
// The day of a fire is the day for which the expression has it. Its zone's clocks are asked after that: if they skip
// or repeat the time on the day to which a fire moves, the rules for that day hold. @every takes out-of and keep-to
// only. The day of its fire is the one that the zone's clocks show.
//
// [Rule.Explain] tells which fires moved or are left out, and why. [ReadICS] and [ReadCSV] read the days of a calendar
// from files.
//
// # When clocks change
//
// Vixie's cron distinguishes jobs with wildcards from others when clocks change (see cron(8)). This package follows
// it. The text of the expression decides which rule applies:
//
//   - An expression with *, ? or a step from * in its second, minute or hour field is a wildcard expression. It fires
//     at every real instant whose wall clock matches. In an autumn hour that is repeated, its fires occur twice. In a
//     spring hour that is skipped, they do not occur. 0/15 counts as */15, because it means the same.
//   - Any other expression is a fixed-time expression. Each matching time of the calendar fires once, at the first
//     instant at which the wall clock has reached it. In a repeated hour that is the first time. A skipped time fires
//     at the first valid instant after the gap. Several times that one gap skips fire there once.
//
// These rules hold for every change of a zone's offset, whatever its cause and size: half-hour shifts
// (Australia/Lord_Howe), midnights that do not exist (Asia/Beirut), and a day that was left out (Pacific/Apia in
// 2011). @every does not depend on wall clocks.
//
// # Times
//
// Fires are whole seconds, in UTC, in the years 1 to 9999. The zones come from the machine's zone data. If the
// machine has none, they come from the data that are built into the program.
//
// Countries change their clocks at short notice, and zone data change accordingly. [Fingerprint] distinguishes
// versions of the data. [Rule.Wall] and [Rule.Replan] recompute a fire that was planned with other data.
package recurrence
