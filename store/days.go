package store

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/tasktable/tasktable/store/calendars"
	"github.com/tasktable/tasktable/store/internal/check"
	"github.com/tasktable/tasktable/store/internal/query"
	"github.com/tasktable/tasktable/store/recurrence"
)

// Days moves the At of a task that does not recur to a day that its calendars leave in. The time on the clocks of the
// zone stays. Schedule moves it, by the calendars as they are then. A later change of a calendar does not move the task
// again, unless it is scheduled again.
type Days struct {
	// OutOf and KeepTo name calendars, at most 8 each: the day must be in none of OutOf, and in each of KeepTo.
	// "workdays" is Monday to Friday. See package recurrence.
	OutOf, KeepTo []string
	// Move is recurrence.MoveNext or recurrence.MovePrevious: At moves to the next or the previous day that is in, at
	// most 366 days away. "" means the next.
	Move recurrence.Move
	// TimeZone is the IANA name of the zone whose days count. "" means UTC.
	TimeZone string
}

// options returns the options in the form of package recurrence, and refuses those that it cannot read.
func (d Days) options() (string, error) {
	o := recurrence.Options{OutOf: d.OutOf, KeepTo: d.KeepTo, Move: d.Move}
	if len(d.OutOf)+len(d.KeepTo) == 0 {
		return "", check.Invalid("days", "must name calendars in out_of or keep_to", "none")
	}
	if d.Move == recurrence.MoveSkip {
		return "", check.Invalid("days", "must have the move next or previous, because a task needs a time", `"skip"`)
	}
	text, err := optionsText("@daily", o)
	return strings.TrimPrefix(text, "@daily "), err
}

// optionsText writes options behind an expression. It refuses options that would be read as others.
func optionsText(expression string, o recurrence.Options) (string, error) {
	for field, names := range map[string][]string{"out_of": o.OutOf, "keep_to": o.KeepTo} {
		for _, name := range names {
			if name == "" || strings.ContainsAny(name, " \t\n\v\f\r,=") {
				return "", check.Invalid(field, "must have names of calendars", fmt.Sprintf("%.100q", name))
			}
		}
	}
	switch o.Move {
	case "", recurrence.MoveSkip, recurrence.MoveNext, recurrence.MovePrevious:
	default:
		return "", check.Invalid("move", "must be skip, next or previous", fmt.Sprintf("%.100q", o.Move))
	}
	if o.Every < 0 || o.Every > recurrence.MaxEvery {
		return "", check.Invalid("every", "must be between 2 and 1000 (0: none)", o.Every)
	}
	text := o.Join(expression)
	if _, _, err := recurrence.Split(text); err != nil {
		return "", check.Mark(err)
	}
	return text, nil
}

// checkDays checks the task's Days without the database.
func (t Task) checkDays() error {
	switch {
	case t.Days == nil:
		return nil
	case t.Recurrence != nil:
		return check.Invalid("days", "must be nil for a task that recurs: its Recurrence has calendars", "given")
	case t.At.IsZero():
		return check.Invalid("days", "must be given together with scheduled_at, which they move", "without it")
	}
	_, err := t.Days.options()
	return err
}

const dayInSQL = `
SELECT tasktable.day_in((one.value ->> 0)::timestamptz, one.value ->> 1, one.value ->> 2, one.value ->> 3)
FROM jsonb_array_elements($1::text::jsonb) WITH ORDINALITY AS one ORDER BY one.ordinality`

// moveDays moves the times of the tasks that have Days, by one statement. It returns tasks without Days.
func (s *Store) moveDays(ctx context.Context, db DB, tasks []Task) ([]Task, error) {
	var asked [][4]*string
	var places []int
	for i, task := range tasks {
		if task.Days == nil {
			continue
		}
		if err := task.checkDays(); err != nil {
			return nil, err
		}
		at, err := check.TimeText("scheduled_at", task.At)
		if err != nil {
			return nil, err
		}
		options, err := task.Days.options()
		if err != nil {
			return nil, err
		}
		zone := task.Days.TimeZone
		if zone == "" {
			zone = "UTC"
		}
		asked = append(asked, [4]*string{&at, &options, &zone, check.OrNil(task.TenantID)})
		places = append(places, i)
	}
	if len(asked) == 0 {
		return tasks, nil
	}
	encoded, err := json.Marshal(asked)
	if err != nil {
		return nil, fmt.Errorf("encode days: %w", err)
	}
	moved, err := query.Values[time.Time](ctx, s.source, db, "move to a day that is in", dayInSQL, string(encoded))
	if err != nil {
		return nil, err
	}
	if len(moved) != len(places) {
		return nil, fmt.Errorf("move to a day that is in: %d answers instead of %d", len(moved), len(places))
	}
	tasks = append([]Task(nil), tasks...)
	for i, place := range places {
		tasks[place].At, tasks[place].Days = moved[i], nil
	}
	return tasks, nil
}

// checkCalendars refuses recurring tasks whose calendars do not exist, or leave no day. It asks the database only if a
// task names calendars.
func (s *Store) checkCalendars(ctx context.Context, db DB, tasks []Task) error {
	var of []calendars.Of
	var starts []time.Time
	for _, task := range tasks {
		if r := task.Recurrence; r != nil {
			text, err := r.text()
			if err != nil {
				return err
			}
			if len(calendars.Names(text)) > 0 {
				of = append(of, calendars.Of{Cron: text, TimeZone: r.TimeZone, TenantID: task.TenantID})
				starts = append(starts, task.At)
			}
		}
	}
	if len(of) == 0 || s.source.Err != nil {
		return nil // the call itself returns that error
	}
	if err := check.DB(db); err != nil {
		return err
	}
	book, err := calendars.Read(ctx, db, s.source.Schema, of...)
	if err != nil {
		return err
	}
	for i, one := range of {
		if missing := book.Missing(one); len(missing) > 0 {
			return check.Invalid("cron", "must name calendars that exist", missing[0])
		}
		rule, err := book.Rule(one, nil)
		if err != nil {
			return check.Mark(err)
		}
		from := time.Now()
		if starts[i].After(from) {
			from = starts[i].Add(-time.Nanosecond)
		}
		if rule.NeverFires(from) {
			return check.Invalid("cron", fmt.Sprintf(
				"must be able to fire, but its calendars %s leave no day for %d years",
				strings.Join(rule.Calendars(), ", "), recurrence.MaxYears), one.Cron)
		}
	}
	return nil
}

// Rule parses a cron expression, with the options behind it, and gives it the days of its calendars: those of the
// Store's tenant (see ForTenant), and else the general ones. A calendar that does not exist has no days. The error
// wraps ErrInvalid if the expression or the zone cannot be read. For the rules of many tasks, use package calendars.
func (s *Store) Rule(ctx context.Context, db DB, cron, zone string) (*recurrence.Rule, error) {
	if s.source.Err != nil {
		return nil, fmt.Errorf("read a rule: %w", s.source.Err)
	}
	if err := check.DB(db); err != nil {
		return nil, fmt.Errorf("read a rule: %w", err)
	}
	of := calendars.Of{Cron: cron, TimeZone: zone, TenantID: s.tenant}
	book, err := calendars.Read(ctx, db, s.source.Schema, of)
	if err != nil {
		return nil, err
	}
	rule, err := book.Rule(of, nil)
	if err != nil {
		return nil, fmt.Errorf("read a rule: %w", check.Mark(err))
	}
	return rule, nil
}
