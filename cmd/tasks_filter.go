package cmd

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/tasktable/tasktable/cmd/internal/options"
	"github.com/tasktable/tasktable/cmd/internal/term"
	"github.com/tasktable/tasktable/store"
	"github.com/tasktable/tasktable/store/inspect"
)

// taskFilter selects the tasks that a command works on. Its options have no environment variables, because a
// forgotten variable would silently make a command work on other tasks.
type taskFilter struct {
	fields []inspect.FilterField
	texts  map[string]string // the given texts, by the names of the fields
}

func newTaskFilter(fields []inspect.FilterField) taskFilter {
	return taskFilter{fields, map[string]string{}}
}

// options returns the option of each field.
func (f *taskFilter) options(c *client) []options.Option {
	opts := make([]options.Option, len(f.fields))
	for i, field := range f.fields {
		opts[i] = options.Option{Flag: field.Flag(), Kind: field.Name, Usage: field.Help, Set: f.set(field)}
		switch one := &opts[i]; field.Kind {
		case inspect.KindType:
			one.Complete = c.types
		case inspect.KindQueue:
			one.Kind, one.Complete = "name", c.queues
		case inspect.KindID:
			one.Kind, one.Complete = "id", c.ids()
		case inspect.KindParent:
			one.Kind, one.Complete = "id", c.recurringIDs
		case inspect.KindStatus:
			one.Repeatable, one.Complete = true, completeStatus(field.Among)
		case inspect.KindTime:
			one.Kind = "time"
		case inspect.KindOn:
			one.Kind = "" // on or off
		case inspect.KindEither:
			one.Kind, one.Complete = "true|false", options.Words("true", "false")
		case inspect.KindMatch:
			one.Kind = "path=text"
		case inspect.KindText:
		case inspect.KindNote:
			one.Kind = "text"
		}
	}
	return opts
}

// set keeps the text of a field. A time is checked later, because it may be relative to the database's clock.
func (f *taskFilter) set(field inspect.FilterField) func(string) error {
	return func(given string) error {
		if f.texts[field.Name] = given; field.Kind == inspect.KindTime {
			return nil
		}
		return field.Set(&inspect.Filter{}, []string{given}, nil)
	}
}

// given reports whether the filter has any condition.
func (f *taskFilter) given() bool { return len(f.texts) > 0 }

// resolved returns the filter with its times as instants of the clock.
func (f *taskFilter) resolved(c term.Clock) (filter inspect.Filter, err error) {
	for _, field := range f.fields {
		err := field.Set(&filter, []string{f.texts[field.Name]}, func(text string) (time.Time, error) {
			return options.Instant(c, field.Flag(), term.Moment(text))
		})
		if err != nil {
			return filter, err
		}
	}
	return filter, nil
}

// check reports wrong times before the database is opened and its time is known.
func (f *taskFilter) check(c *client) error {
	_, err := f.resolved(c.printing.clock())
	return err
}

func queueName(into *string) func(string) error {
	return options.Checked(into, store.CheckQueue, "must be 1 to 64 of a-z, 0-9, inner - or _")
}

// completeStatus completes one of these statuses, or the last of several. The prefix may be in small letters.
func completeStatus(among []store.Status) options.Completion {
	return func(ctx context.Context, prefix string) []string {
		words := strings.Split(inspect.StatusWords(among), ", ")
		return options.Words(words...).Each()(ctx, strings.ToUpper(prefix))
	}
}

// fieldsNamed returns the fields of a filter that have these names.
func fieldsNamed(names ...string) []inspect.FilterField {
	return slices.DeleteFunc(inspect.FilterFields(), func(field inspect.FilterField) bool {
		return !slices.Contains(names, field.Name)
	})
}
