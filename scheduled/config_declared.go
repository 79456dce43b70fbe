package scheduled

import (
	"fmt"
	"slices"

	"github.com/tasktable/tasktable/scheduled/internal/maintenance"
	"github.com/tasktable/tasktable/scheduled/internal/pg"
	"github.com/tasktable/tasktable/store"
)

func (c Config) checkLimits() (errs []error) {
	names := map[string]bool{}
	for i, limit := range c.Limits {
		errs = append(errs, pg.Annotate(limit.Check(), fmt.Sprintf("Limits[%d]", i)),
			must(!names[limit.Name], "Limits must have one limit of each name, and has two of %q", limit.Name))
		names[limit.Name] = true
	}
	return errs
}

func (c Config) checkCalendars() (errs []error) {
	names := map[string]bool{}
	for i, one := range c.Calendars {
		errs = append(errs, pg.Annotate(one.Check(), fmt.Sprintf("Calendars[%d]", i)),
			must(!names[one.Name], "Calendars must have one calendar of each name, and has two of %q", one.Name))
		names[one.Name] = true
	}
	return errs
}

// defaults returns the defaults that the code has, with their types.
func (c Config) defaults() []store.Defaults {
	all := c.Handlers.Defaults()
	if c.Defaults != (store.Defaults{}) {
		every := c.Defaults
		every.Type = store.AllTypes
		all = append(all, every)
	}
	return all
}

// declaration returns the lists that the code declares.
func (c Config) declaration() maintenance.Declaration {
	types := map[string]bool{store.AllTypes: true}
	for _, task := range c.Recurring {
		types[task.Payload.TaskType()] = true
	}
	defaults := slices.DeleteFunc(c.defaults(), func(one store.Defaults) bool { return !types[one.Type] })
	return maintenance.Declaration{Recurring: c.Recurring, Notices: c.Notices, Limits: c.Limits, Calendars: c.Calendars,
		Defaults: defaults}
}
