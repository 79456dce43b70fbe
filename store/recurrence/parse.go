package recurrence

import (
	"errors"
	"fmt"
	"regexp"
	"strings"
	"time"

	"github.com/robfig/cron/v3"
)

// ErrInvalid is wrapped by every error of Parse. The error's text names the field, which is cron or time_zone, and
// the rule.
var ErrInvalid = errors.New("invalid")

// MaxExpressionBytes is the greatest length of an expression that Parse accepts.
const MaxExpressionBytes = 1024

const form = "must be 5 fields (minute, hour, day of month, month, day of week), 6 with the seconds first, " +
	"@hourly, @daily, @midnight, @weekly, @monthly, @yearly, @annually or @every with a duration"

const noDayLeft = "must be able to fire: its options leave no day"

var descriptors = map[string]string{
	"@yearly":   "0 0 1 1 *",
	"@annually": "0 0 1 1 *",
	"@monthly":  "0 0 1 * *",
	"@weekly":   "0 0 * * 0",
	"@daily":    "0 0 * * *",
	"@midnight": "0 0 * * *",
	"@hourly":   "0 * * * *",
}

const timeFields = 3 // second, minute and hour come first

var (
	zoneSyntax = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9_+/-]{0,63}$`)

	robfig = cron.NewParser(cron.Second | cron.Minute | cron.Hour | cron.Dom | cron.Month | cron.Dow)
)

// Parse parses an expression and a zone. The package's comment explains expressions. The zone is an IANA name. ""
// means UTC. The expression has at most 1024 bytes and must be able to fire. For example, 30 February is refused. The
// duration of @every has the syntax of time.ParseDuration. It must be a whole number of seconds, and at least one.
// Options may follow the expression. They must leave it a day, as far as Parse knows: it does not know the days of
// calendars, which [Rule.With] binds. Every error wraps ErrInvalid. Parse does not panic, whatever the text.
func Parse(expression, zone string) (*Rule, error) {
	return ParseIn(expression, zone, time.LoadLocation)
}

// ParseIn is Parse with the caller's own time zones.
func ParseIn(expression, zone string, zones Zones) (*Rule, error) {
	location, err := loadZone(zone, zones)
	if err != nil {
		return nil, err
	}
	text := expression
	expression, options, err := Split(text)
	if err != nil {
		return nil, err
	}
	fields, err := split(expression)
	if err != nil {
		return nil, err
	}
	if fields[0] == "@every" {
		return parseEvery(fields, options, location)
	}
	rule := &Rule{fixed: true, zone: location}
	var read [6]members
	var texts [6]string
	for i, text := range fields {
		if read[i], err = fieldOf[i].read(text); err != nil {
			return nil, invalidField(err, expression)
		}
		texts[i] = read[i].text()
		rule.fixed = rule.fixed && (i >= timeFields || !read[i].wild)
	}
	month, week := read[dayOfMonth], read[dayOfWeek]
	if len(month.monthDays)+len(week.weekdays) > 0 {
		rule.days = &days{month, week}
		texts[dayOfMonth], texts[dayOfWeek] = "*", "*"
	}
	if rule.spec, err = parseFields(texts[:]); err != nil {
		return nil, invalid("cron", form, expression)
	}
	if _, fires := rule.match(calendarStart); !fires {
		return nil, invalid("cron", "must be able to fire: no such day of the month ever comes", expression)
	}
	if options.IsZero() {
		return rule, nil
	}
	rule.days = &days{month, week}
	if rule.choice, err = newChoice(options, month, week, read[dayOfMonth+1]); err != nil {
		return nil, err
	}
	if _, fires := rule.match(calendarStart); !fires {
		return nil, invalid("cron", noDayLeft, text)
	}
	return rule, nil
}

// split returns "@every" and its duration, or the six fields.
func split(expression string) ([]string, error) {
	fields := strings.Fields(expression)
	if len(fields) == 0 {
		return nil, invalid("cron", form, expression)
	}
	if prefix := strings.ToUpper(fields[0]); strings.HasPrefix(prefix, "TZ=") || strings.HasPrefix(prefix, "CRON_TZ=") {
		return nil, invalid("cron", "must not name a zone (TZ=, CRON_TZ=): use time_zone", expression)
	}
	if strings.HasPrefix(fields[0], "@") {
		fields[0] = strings.ToLower(fields[0])
	}
	if fields[0] == "@every" {
		return fields, nil
	}
	if meaning, ok := descriptors[fields[0]]; ok && len(fields) == 1 {
		fields = strings.Fields(meaning)
	}
	missing := len(fieldOf) - len(fields)
	switch {
	case fields[0] == "@reboot":
		return nil, invalid("cron", form+"; @reboot names no time", expression)
	case missing < 0 || missing == 0 && strings.HasPrefix(fields[dayOfWeek], "/"):
		return nil, invalid("cron", form+"; a year or a command is no part of it", expression)
	case strings.HasPrefix(fields[0], "@") || missing > 1:
		return nil, invalid("cron", form, expression)
	}
	if missing == 1 {
		fields = append([]string{"0"}, fields...)
	}
	return fields, nil
}

func parseEvery(fields []string, options Options, location *time.Location) (*Rule, error) {
	const rule = "@every must have a duration of whole seconds, at least 1s, such as 90s or 1h30m"
	if len(fields) != 2 {
		return nil, invalid("cron", rule, strings.Join(fields, " "))
	}
	period, err := time.ParseDuration(fields[1])
	if err != nil || period < time.Second || period%time.Second != 0 {
		return nil, invalid("cron", rule, fields[1])
	}
	every := &Rule{every: int64(period / time.Second), zone: location}
	if options.Every > 1 || options.Move != "" {
		const rule = "@every must have no options but out-of and keep-to, because it counts elapsed time"
		return nil, invalid("cron", rule, options.Join(strings.Join(fields, " ")))
	}
	if options.IsZero() {
		return every, nil
	}
	if every.choice, err = newChoice(options, members{}, members{}, members{}); err != nil {
		return nil, err
	}
	if every.search().firstIn(0) == never {
		return nil, invalid("cron", noDayLeft, options.Join(strings.Join(fields, " ")))
	}
	return every, nil
}

// parseFields recovers from panics, because robfig/cron has panicked on some texts.
func parseFields(fields []string) (spec *cron.SpecSchedule, err error) {
	defer func() {
		if panicked := recover(); panicked != nil {
			err = fmt.Errorf("parser panicked: %v", panicked)
		}
	}()
	schedule, err := robfig.Parse(strings.Join(fields, " "))
	if err != nil {
		return nil, err
	}
	spec, ok := schedule.(*cron.SpecSchedule)
	if !ok {
		return nil, fmt.Errorf("parser made a %T", schedule)
	}
	spec.Location = time.UTC
	return spec, nil
}

// loadZone refuses unknown zones. It also refuses zones that mean something else on each machine, and zones that
// count leap seconds, although some machines know them.
func loadZone(zone string, zones Zones) (*time.Location, error) {
	if zone == "" {
		return time.UTC, nil
	}
	lower := strings.ToLower(zone)
	own := lower == "local" || lower == "localtime" || lower == "posixrules"
	tree := strings.HasPrefix(lower, "right/") || strings.HasPrefix(lower, "posix/")
	if !own && !tree && zoneSyntax.MatchString(zone) {
		if location, err := zones(zone); err == nil {
			return location, nil
		}
	}
	return nil, invalid("time_zone", "must be an IANA zone, such as Europe/Berlin or UTC", zone)
}

// invalidField returns an error about one field of an expression.
func invalidField(reason error, expression string) error {
	return fmt.Errorf("%w: cron: %w, in %.100q", ErrInvalid, reason, expression)
}

func invalid(field, rule, got string) error {
	const most = 100
	if len(got) > most {
		return fmt.Errorf("%w: %s %s, got %d bytes: %q...", ErrInvalid, field, rule, len(got), got[:most])
	}
	return fmt.Errorf("%w: %s %s, got %q", ErrInvalid, field, rule, got)
}
