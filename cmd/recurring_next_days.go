package cmd

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/tasktable/tasktable/cmd/internal/options"
	"github.com/tasktable/tasktable/store"
	"github.com/tasktable/tasktable/store/recurrence"
)

// dayOptions are the options behind an expression, as a command takes them. Parse checks them.
type dayOptions struct {
	every                int
	outOf, keepTo, moves string
	tenant               string
}

func (d *dayOptions) options(c *client) []options.Option {
	const most = recurrence.MaxExpressionBytes
	return []options.Option{
		{Flag: "every", Kind: "number", Set: options.Int(&d.every, 1, recurrence.MaxEvery),
			Usage: "with --cron: only each second (2), third (3) and so on week, day or month, counted from --from"},
		{Flag: "out-of", Kind: "names", Set: options.Text(&d.outOf, most), Complete: c.calendars,
			Usage: "with --cron: not on the days of these calendars, separated by commas"},
		{Flag: "keep-to", Kind: "names", Set: options.Text(&d.keepTo, most), Complete: c.calendars,
			Usage: "with --cron: only on days that are in each of these calendars, such as workdays"},
		{Flag: "move", Kind: "skip|next|previous", Set: options.Text(&d.moves, most),
			Usage: "with --cron: to which day that is in a fire moves (default skip: it is left out)"},
		{Flag: "tenant", Kind: "tenant", Set: options.Text(&d.tenant, store.MaxIDBytes),
			Usage: "with --cron: the calendars of this tenant come before the general ones"},
	}
}

// of returns the expression with these options behind it. from is the day from which every counts.
func (d *dayOptions) of(expression string, from time.Time) (string, error) {
	chosen := recurrence.Options{Every: d.every, Move: recurrence.Move(d.moves)}
	if d.every > 1 {
		chosen.From = recurrence.DateOf(from)
	}
	if d.outOf != "" {
		chosen.OutOf = strings.Split(d.outOf, ",")
	}
	if d.keepTo != "" {
		chosen.KeepTo = strings.Split(d.keepTo, ",")
	}
	if chosen.IsZero() {
		return expression, nil
	}
	if _, given, err := recurrence.Split(expression); err != nil || !given.IsZero() {
		return "", options.Usage("--every, --out-of, --keep-to and --move need a --cron without options")
	}
	return chosen.Join(expression), nil
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
