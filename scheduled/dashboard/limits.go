package dashboard

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/tasktable/tasktable/store"
	"github.com/tasktable/tasktable/store/form"
	"github.com/tasktable/tasktable/store/when"
)

// limitsView is the list of limits, with the form that sets one.
type limitsView struct {
	Limits []limitLine
	Form   pauseForm
}

// limitLine is a limit.
type limitLine struct {
	store.LimitState
	Counts  string // the tasks that count, for people
	Rate    string
	Weights string
	Reached bool // no further task may start now
	Waits   bool // NextStartAt is to come
}

func limitsPage(ctx context.Context, v *visit) (any, error) {
	limits, err := v.tasks.Limits(ctx, v.db)
	if err != nil {
		return nil, err
	}
	var view limitsView
	for _, one := range limits {
		line := limitLine{LimitState: one, Counts: scopeName(one.Of()), Weights: form.WeightsText(one.Weights)}
		if one.Rate != nil {
			line.Rate = fmt.Sprintf("%d in %s", *one.Rate, when.LengthText(*one.RateInterval))
		}
		line.Waits = one.NextStartAt != nil && one.NextStartAt.After(v.now)
		line.Reached = line.Waits || one.MaxRunning != nil && *one.Running >= *one.MaxRunning
		view.Limits = append(view.Limits, line)
	}
	view.Form, err = pauseFormOf(ctx, v)
	return view, err
}

func setLimit(ctx context.Context, v *visit) (done, error) {
	limit := store.Limit{Name: strings.TrimSpace(v.form("limit")), Per: store.Per(v.form("per")),
		InOrder: v.form("in_order") != ""}
	var err error
	if limit.Of, err = scopeOf(v); err != nil {
		return done{}, err
	}
	for _, one := range []struct {
		field string
		to    *int
	}{{"max_running", &limit.MaxRunning}, {"rate", &limit.Rate}, {"burst", &limit.Burst}} {
		text := strings.TrimSpace(v.form(one.field))
		if text == "" {
			continue
		}
		if *one.to, err = strconv.Atoi(text); err != nil || *one.to == 0 {
			return done{}, notValid(one.field + " must be between 1 and 1000000.")
		}
	}
	if text := strings.TrimSpace(v.form("rate_interval")); text != "" {
		if limit.Interval, err = when.Length(text); err != nil {
			return done{}, notValid("rate_interval " + err.Error() + ".")
		}
	}
	if limit.Weights, err = form.Weights(strings.Split(v.form("weights"), "\n")); err != nil {
		return done{}, notValid("weights " + err.Error() + ".")
	}
	if err := limit.Check(); err != nil {
		return done{}, notValid(strings.TrimPrefix(err.Error(), store.ErrInvalid.Error()+": ") + ".")
	}
	outcome, err := v.tasks.SetLimit(ctx, v.db, limit)
	if err != nil {
		return done{}, err
	}
	unknown, err := unknownScope(ctx, v, limit.Of)
	return done{text: strings.TrimSpace(fmt.Sprintf("Limit %s: %s. %s", limit.Name, outcome, unknown))}, err
}

func removeLimit(ctx context.Context, v *visit) (done, error) {
	name := v.form("limit")
	outcome, err := v.tasks.RemoveLimit(ctx, v.db, name)
	switch {
	case err != nil:
		return done{}, err
	case outcome == store.Absent:
		return done{text: "Limit " + name + " had been removed before."}, nil
	}
	return done{text: "Limit " + name + " is removed. The tasks that waited for it start."}, nil
}
