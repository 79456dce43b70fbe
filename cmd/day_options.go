package cmd

import (
	"context"
	"errors"
	"strings"

	"github.com/tasktable/tasktable/cmd/internal/options"
	"github.com/tasktable/tasktable/store"
	"github.com/tasktable/tasktable/store/recurrence"
)

// dayOptions are the options behind an expression, as a command takes them. Parse checks them.
type dayOptions struct{ recurrence.Options }

func (d *dayOptions) options(c *client) []options.Option {
	return []options.Option{
		{Flag: "every", Kind: "number", Set: options.Int(&d.Every, 1, recurrence.MaxEvery),
			Usage: "each second (2), third (3) and so on week, day or month of the expression, counted from --from"},
		{Flag: "out-of", Kind: "names", Set: list(&d.OutOf), Complete: c.calendars,
			Usage: "not on the days of these calendars, separated by commas"},
		{Flag: "keep-to", Kind: "names", Set: list(&d.KeepTo), Complete: c.calendars,
			Usage: "only on days that are in each of these calendars, separated by commas, such as workdays"},
		{Flag: "move", Kind: "skip|next|previous",
			Set:   options.OneOf(&d.Move, recurrence.MoveSkip, recurrence.MoveNext, recurrence.MovePrevious),
			Usage: "whether a fire on another day is left out, or moves to the nearest day that is in"},
	}
}

// of returns the expression with these options behind it. every counts from the day from.
func (d *dayOptions) of(expression string, from recurrence.Date) (string, error) {
	if d.IsZero() {
		return expression, nil
	}
	if _, given, err := recurrence.Split(expression); err != nil || !given.IsZero() {
		return "", options.Usage("--every, --out-of, --keep-to and --move need a --cron without options")
	}
	chosen := d.Options
	if d.Every > 1 {
		chosen.From = from
	}
	return chosen.Join(expression), nil
}

// writeDays writes the options behind the expression, or into the field days of a task that does not recur.
func (s *tasksSchedule) writeDays() (err error) {
	if s.days.IsZero() && s.from == "" {
		return nil
	}
	var from recurrence.Date
	if (s.days.Every > 1) != (s.from != "") {
		return options.Usage("--every needs --from, and --from needs --every")
	}
	if s.from != "" {
		if from, err = recurrence.ParseDate(s.from); err != nil {
			return options.Usage("--from must be a day that exists, such as 2027-01-05, got %q", s.from)
		}
	}
	if cron := s.given["cron"]; cron != "" {
		s.given["cron"], err = s.days.of(cron, from)
		return err
	}
	if s.given["days"] != "" || s.days.Every > 1 {
		return options.Usage("--every needs --cron, and --days does not go with --out-of, --keep-to and --move")
	}
	const anyDay = "@daily"
	days, err := s.days.of(anyDay, from)
	s.given["days"] = strings.TrimSpace(strings.TrimPrefix(days, anyDay))
	return err
}

// bound binds a rule to the days of its calendars.
func (c *client) bound(ctx context.Context, rule *recurrence.Rule, tenant string) (*recurrence.Rule, error) {
	days := map[string]recurrence.Days{}
	for _, name := range rule.Calendars() {
		calendar, err := c.tasks.ForTenant(tenant).Calendar(ctx, c.pool, name)
		if errors.Is(err, store.ErrNotFound) {
			return nil, options.Usage("there is no calendar %s: tasktable calendars list shows those there are", name)
		}
		if err != nil {
			return nil, err
		}
		if days[name], err = recurrence.NewDays(calendar.Days); err != nil {
			return nil, err
		}
	}
	return rule.With(days), nil
}
