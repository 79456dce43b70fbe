package cmd

import (
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/tasktable/tasktable/cmd/internal/options"
	"github.com/tasktable/tasktable/cmd/internal/term"
	"github.com/tasktable/tasktable/store"
	"github.com/tasktable/tasktable/store/inspect"
)

// taskFilter selects the tasks that a command works on. Its options have no environment variables, because a
// forgotten variable would silently make a command work on other tasks.
type taskFilter struct {
	filter                                               inspect.Filter
	scheduledFrom, scheduledTo, finishedFrom, finishedTo term.Moment
}

// options returns the options of a filter. --status takes the given statuses.
func (f *taskFilter) options(c *client, among []store.Status, statusUsage string) []options.Option {
	return []options.Option{
		{Flag: "type", Kind: "type", Set: taskType(&f.filter.Type), Complete: c.types,
			Usage: "only tasks of this type"},
		{Flag: "status", Kind: "status", Repeatable: true, Set: statusesOf(&f.filter.Statuses, among),
			Complete: completeStatus(among),
			Usage:    statusUsage},
		{Flag: "queue", Kind: "name", Set: queueName(&f.filter.Queue), Complete: c.queues,
			Usage: "only tasks in this queue"},
		{Flag: "entity", Kind: "entity", Set: options.Text(&f.filter.Entity, store.MaxIDBytes),
			Usage: "only tasks of this entity, such as event:42"},
		{Flag: "tenant", Kind: "tenant", Set: options.Text(&f.filter.TenantID, store.MaxIDBytes),
			Usage: "only tasks of this tenant"},
		{Flag: "id-prefix", Kind: "text", Set: options.Text(&f.filter.IDPrefix, store.MaxIDBytes), Complete: c.ids(),
			Usage: "only tasks whose id begins with this"},
		{Flag: "spawned-by", Kind: "id", Set: options.Text(&f.filter.SpawnedBy, store.MaxIDBytes), Complete: c.ids(),
			Usage: "only follow-ups of this task"},
		{Flag: "parent", Kind: "id", Set: options.Text(&f.filter.ParentID, store.MaxIDBytes), Complete: c.recurringIDs,
			Usage: "only occurrences of this recurring task"},
		{Flag: "message", Kind: "text", Set: options.Text(&f.filter.Message, 4096),
			Usage: "only tasks whose message, such as the last error, contains this"},
		{Flag: "pattern", Kind: "text", Set: options.Text(&f.filter.Pattern, 4096),
			Usage: "only tasks whose message has this pattern, as dead list --group shows it"},
		{Flag: "scheduled-from", Kind: "time", Set: options.Moment(&f.scheduledFrom),
			Usage: "only tasks scheduled for then or later"},
		{Flag: "scheduled-to", Kind: "time", Set: options.Moment(&f.scheduledTo),
			Usage: "only tasks scheduled for before then"},
		{Flag: "finished-from", Kind: "time", Set: options.Moment(&f.finishedFrom),
			Usage: "only tasks that have ended then or later"},
		{Flag: "finished-to", Kind: "time", Set: options.Moment(&f.finishedTo),
			Usage: "only tasks that have ended before then"},
	}
}

// given reports whether the filter has any condition.
func (f *taskFilter) given() bool {
	s := f.filter
	texts := s.Type + s.Queue + s.Entity + s.TenantID + s.IDPrefix + s.SpawnedBy + s.ParentID + s.Message + s.Pattern +
		string(f.scheduledFrom+f.scheduledTo+f.finishedFrom+f.finishedTo)
	return texts != "" || len(s.Statuses) > 0
}

// resolved returns the filter with its times as instants of the clock.
func (f *taskFilter) resolved(c term.Clock) (filter inspect.Filter, err error) {
	filter = f.filter
	if filter.ScheduledFrom, err = options.Instant(c, "scheduled-from", f.scheduledFrom); err != nil {
		return filter, err
	}
	if filter.ScheduledTo, err = options.Instant(c, "scheduled-to", f.scheduledTo); err != nil {
		return filter, err
	}
	if filter.FinishedFrom, err = options.Instant(c, "finished-from", f.finishedFrom); err != nil {
		return filter, err
	}
	filter.FinishedTo, err = options.Instant(c, "finished-to", f.finishedTo)
	return filter, err
}

// check reports wrong times before the database is opened and its time is known.
func (f *taskFilter) check(c *client) error {
	_, err := f.resolved(c.printing.clock())
	return err
}

func queueName(into *string) func(string) error {
	return func(given string) error {
		if store.CheckQueue(given) != nil {
			return errors.New("must be 1 to 64 of a-z, 0-9, inner - or _")
		}
		*into = given
		return nil
	}
}

// statusesOf takes some of these statuses, in capital or small letters.
func statusesOf(into *[]store.Status, among []store.Status) func(string) error {
	rule := "must be of " + statusList(among) + ", one or several separated by commas"
	return func(given string) error {
		*into = nil
		for one := range strings.SplitSeq(given, ",") {
			status := store.Status(strings.ToUpper(strings.TrimSpace(one)))
			if !slices.Contains(among, status) {
				return errors.New(rule)
			}
			*into = append(*into, status)
		}
		return nil
	}
}

// completeStatus completes one of these statuses, or the last of several. The prefix may be in small letters.
func completeStatus(among []store.Status) options.Completion {
	return func(ctx context.Context, prefix string) []string {
		return options.Words(strings.Split(statusList(among), ", ")...).Each()(ctx, strings.ToUpper(prefix))
	}
}

func statusList(statuses []store.Status) string {
	texts := make([]string, len(statuses))
	for i, status := range statuses {
		texts[i] = string(status)
	}
	return strings.Join(texts, ", ")
}
