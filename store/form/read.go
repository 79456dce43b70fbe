package form

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/tasktable/tasktable/store"
	"github.com/tasktable/tasktable/store/when"
)

// Clock is what a typed time is relative to.
type Clock struct {
	Now  time.Time
	Zone *time.Location // of times without a zone of their own
}

// Read writes a text that a person has typed into the field of the task. The empty text is the field's default. The
// error is the rule that the text breaks: "must be …". It does not quote the text, because a payload may be secret.
// Call Check when all fields are read.
func (f Field) Read(task *store.Task, text string, clock Clock) (err error) {
	switch of := f.of(task).(type) {
	case *store.Payload:
		*of, err = store.Typed("", []byte(text))
		return ruleOf(err, f.Name)
	case *[]store.Task:
		*of, err = readTasks([]byte(text))
	case **store.Days:
		if *of, err = readDays(text); err != nil {
			err = fmt.Errorf("%s, as in out-of=company keep-to=workdays move=next", f.Rule)
		}
	case *time.Time:
		*of, err = when.Time(text, clock.Now, clock.Zone)
	case *time.Duration:
		*of = 0
		if text != "" {
			if *of, err = when.Length(text); err != nil || f.checkLength(*of) != nil {
				err = fmt.Errorf("%s, such as 1500ms, 90s, 1h30m or 2d", f.Rule)
			}
		}
	case *int:
		*of = 0
		if text != "" {
			if *of, err = strconv.Atoi(text); err != nil {
				return errors.New("must be a whole number")
			}
			err = f.checkNumber(*of)
		}
	case *string:
		*of = text
		if text != "" {
			err = f.checkText(text)
		}
	}
	return err
}

func (f Field) checkNumber(n int) error {
	if n < f.Min || n > f.Max {
		return errors.New(f.Rule)
	}
	return nil
}

func (f Field) checkLength(d time.Duration) error {
	if d < f.Shortest || d > f.Longest {
		return errors.New(f.Rule)
	}
	return nil
}

func (f Field) checkText(text string) error {
	switch {
	case f.Kind == Choice && !slices.Contains(f.Words, text),
		f.Name == "queue" && store.CheckQueue(text) != nil,
		len(text) < f.Min, f.Max > 0 && len(text) > f.Max, !utf8.ValidString(text),
		strings.ContainsFunc(text, unicode.IsControl):
		return errors.New(f.Rule)
	}
	return nil
}

// Text writes the field's value as Read reads it. A time is in zone, without fractions of its seconds. A default of the
// Task is "".
func (f Field) Text(task store.Task, zone *time.Location) string {
	switch of := f.of(&task).(type) {
	case *store.Payload, *[]store.Task:
		encoded, _ := Encode(f.value(&task), "  ") // it is JSON already
		if string(encoded) != "null" {
			return string(encoded)
		}
	case **store.Days:
		return daysText(*of)
	case *time.Time:
		if !of.IsZero() {
			return of.In(zone).Format("2006-01-02T15:04:05")
		}
	case *time.Duration:
		if *of != 0 {
			return when.LengthText(*of)
		}
	case *int:
		if *of != 0 || f.Min <= 0 {
			return strconv.Itoa(*of)
		}
	case *string:
		return *of
	}
	return ""
}

// Check returns the error of fields that do not go together, wrapping store.ErrInvalid. It must be called after the
// last field is read, because the others are read one by one.
func Check(task *store.Task) error {
	if task.Recurrence == nil || task.Recurrence.Cron != "" {
		return nil
	}
	if task.Days != nil { // the zone is that of their days
		task.Days.TimeZone, task.Recurrence.TimeZone = task.Recurrence.TimeZone, ""
	}
	if !reflect.DeepEqual(*task.Recurrence, store.Recurrence{}) {
		var others []string
		for _, field := range Fields {
			if field.Recurs && field.Name != "cron" {
				others = append(others, field.Name)
			}
		}
		last := len(others) - 1
		return fmt.Errorf("%w: cron is missing: %s and %s are for a task that recurs", store.ErrInvalid,
			strings.Join(others[:last], ", "), others[last])
	}
	task.Recurrence = nil
	return nil
}

// SetJSON writes fields in their JSON form into the task, and checks it with Check. null is a field's default. Fields
// that are not given stay as they are. The error wraps store.ErrInvalid, and names the field and the rule. A name that
// no field has is refused.
func SetJSON(task *store.Task, given map[string]json.RawMessage) error {
	return setJSON(task, given, false)
}

func setJSON(task *store.Task, given map[string]json.RawMessage, ifDead bool) error {
	for name := range given {
		if field, known := Named(name); !known || ifDead && !field.IfDead {
			return fmt.Errorf("%w: %.100q is not a field", store.ErrInvalid, name)
		}
	}
	if value, found := given["cron"]; found && string(value) == "null" {
		task.Recurrence = nil // the defaults of the recurrence go with it
	}
	for _, field := range Fields {
		value, found := given[field.Name]
		if !found {
			continue
		}
		switch err := field.readJSON(task, value); {
		case errors.Is(err, store.ErrInvalid): // it names the field
			return err
		case err != nil && field.Kind == Tasks:
			return fmt.Errorf("%w: %s: %w", store.ErrInvalid, field.Name, err)
		case err != nil:
			return fmt.Errorf("%w: %s %w", store.ErrInvalid, field.Name, err)
		}
	}
	return Check(task)
}

// readJSON is Read for a value in JSON. The value that it writes has the same limits.
func (f Field) readJSON(task *store.Task, value json.RawMessage) (err error) {
	if string(value) == "null" {
		if f.Kind == Payload {
			return errors.New("is required, so it must not be null")
		}
		return f.Read(task, "", Clock{})
	}
	switch of := f.of(task).(type) {
	case *store.Payload:
		*of, err = store.Typed("", value)
		return err //nolint:wrapcheck // SetJSON passes it on
	case *[]store.Task:
		*of, err = readTasks(value)
		return err
	case **store.Days:
		var text string
		if json.Unmarshal(value, &text) != nil {
			return errors.New("must be a text")
		}
		return f.Read(task, text, Clock{})
	case *time.Time:
		if json.Unmarshal(value, of) != nil {
			return errors.New("must be a time such as 2027-01-31T09:30:00Z, with Z or an offset")
		}
		if of.IsZero() {
			return errors.New("must be after 0001-01-01T00:00:00Z")
		}
	case *time.Duration:
		var seconds Seconds
		if json.Unmarshal(value, &seconds) != nil {
			return errors.New("must be a number of seconds")
		}
		*of = seconds.Duration()
		return f.checkLength(*of)
	case *int:
		if json.Unmarshal(value, of) != nil {
			return errors.New("must be a whole number")
		}
		return f.checkNumber(*of)
	case *string:
		if json.Unmarshal(value, of) != nil {
			return errors.New("must be a text")
		}
		return f.checkText(*of)
	}
	return nil
}

// readTasks reads the tasks of if_dead. One object is one task.
func readTasks(text []byte) (tasks []store.Task, err error) {
	var all []map[string]json.RawMessage
	text = bytes.TrimSpace(text)
	switch {
	case len(text) == 0:
		return nil, nil
	case text[0] == '{':
		text = slices.Concat([]byte("["), text, []byte("]"))
	}
	if err := json.Unmarshal(text, &all); err != nil {
		if where := new(json.SyntaxError); errors.As(err, &where) {
			return nil, fmt.Errorf("it must be a JSON array of tasks, and is wrong at byte %d", where.Offset)
		}
		return nil, errors.New("it must be a JSON array of tasks")
	}
	if len(all) > store.MaxIfDead {
		return nil, errors.New("it must be at most 10 tasks")
	}
	for i, given := range all {
		var task store.Task
		err := setJSON(&task, given, true)
		if err == nil && task.Payload == nil {
			err = fmt.Errorf("%w: payload must be given", store.ErrInvalid)
		}
		if err != nil {
			_, rule, _ := strings.Cut(err.Error(), store.ErrInvalid.Error()+": ")
			return nil, fmt.Errorf("task %d: %s", i+1, rule)
		}
		tasks = append(tasks, task)
	}
	return tasks, nil
}

// JSON returns the fields of the task that differ from their defaults, in their JSON form.
func JSON(task store.Task) map[string]any {
	fields := map[string]any{}
	for _, field := range Fields {
		if value := field.value(&task); value != nil {
			fields[field.Name] = value
		}
	}
	return fields
}

// value is the field's value for encoding/json, and nil for a default.
func (f Field) value(task *store.Task) any {
	if f.Recurs && task.Recurrence == nil {
		return nil
	}
	switch of := f.of(task).(type) {
	case *store.Payload:
		return *of
	case *[]store.Task:
		if len(*of) == 0 {
			return nil
		}
		all := make([]map[string]any, len(*of))
		for i, one := range *of {
			all[i] = JSON(one)
		}
		return all
	case **store.Days:
		if *of != nil {
			return daysText(*of)
		}
	case *time.Time:
		if !of.IsZero() {
			return *of
		}
	case *time.Duration:
		if *of != 0 {
			return SecondsOf(*of)
		}
	case *int:
		if *of != 0 {
			return *of
		}
	case *string:
		if *of != "" {
			return *of
		}
	}
	return nil
}

// Seconds is a length of time in JSON: a number of seconds, with up to six decimals.
type Seconds float64

// SecondsOf returns the length in seconds.
func SecondsOf(d time.Duration) Seconds { return Seconds(float64(d.Microseconds()) / 1e6) }

// Duration rounds to microseconds, which is what Postgres stores. A number that is too large stays too large for every
// limit, and NaN, which a query can have, is below every limit.
func (s Seconds) Duration() time.Duration {
	micros := math.Round(float64(s) * 1e6)
	switch {
	case micros > math.MaxInt64/1000:
		return math.MaxInt64
	case micros >= -math.MaxInt64/1000:
		return time.Duration(micros) * time.Microsecond
	}
	return math.MinInt64
}

// ruleOf takes the field's name away from an error of package store, which names it.
func ruleOf(err error, field string) error {
	if err == nil {
		return nil
	}
	rule := strings.TrimPrefix(err.Error(), store.ErrInvalid.Error()+": ")
	return errors.New(strings.TrimPrefix(rule, field+" "))
}
