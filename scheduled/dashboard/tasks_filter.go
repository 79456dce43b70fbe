package dashboard

import (
	"errors"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/tasktable/tasktable/store"
	"github.com/tasktable/tasktable/store/inspect"
	"github.com/tasktable/tasktable/store/when"
)

// The orders of the list. A minus means that the latest comes first.
var taskOrders = []choice{
	{Value: "-scheduled_at", Label: "scheduled, latest first"},
	{Value: "scheduled_at", Label: "scheduled, earliest first"},
	{Value: "-finished_at", Label: "ended, latest first"},
	{Value: "finished_at", Label: "ended, earliest first"},
	{Value: "id", Label: "id"},
	{Value: "-id", Label: "id, backwards"},
}

var (
	errOrderWord   = errors.New("must be scheduled_at, finished_at or id, with - before it for the latest first")
	errPlaceInList = errors.New("must be that of the page before")
	errNoPayloads  = errors.New("must not be used by somebody who may not see payloads")
)

// filterFields reads the fields of a filter in the parameters of a page's address.
func (v *visit) filterFields(
	fields []inspect.FilterField, values url.Values,
) (filter inspect.Filter, wrong formErrors) {
	wrong = formErrors{}
	at := func(text string) (time.Time, error) { return when.Time(text, v.now, v.look.zone) }
	for _, field := range fields {
		if !v.maySelectBy(field) && values.Get(field.Name) != "" {
			wrong.note(field.Name, errNoPayloads) // the number of tasks found would tell what is in them
			continue
		}
		wrong.note(field.Name, field.Set(&filter, values[field.Name], at))
	}
	return filter, wrong
}

func (v *visit) maySelectBy(field inspect.FilterField) bool {
	return field.Kind != inspect.KindMatch || v.may(v.board.config.PayloadScope)
}

// filterOf reads the filter, the order and the place of the list of tasks in the parameters of a page's address. The
// filter must not be used if there are errors.
func (v *visit) filterOf(values url.Values) (inspect.Filter, formErrors) {
	filter, wrong := v.filterFields(inspect.FilterFields(), values)
	order := orderOf(values)
	if !slices.ContainsFunc(taskOrders, func(known choice) bool { return known.Value == order }) {
		wrong.note("order", errOrderWord)
	}
	column, latest := strings.CutPrefix(order, "-")
	filter.Order, filter.LatestFirst = inspect.Order(column), latest
	var err error
	if filter.After, err = decodeCursor(values.Get("after"), filter.Order); err != nil {
		wrong.note("after", err)
	}
	return filter, wrong
}

// filterForm has the fields of a filter as inputs of a form.
type filterForm struct {
	Often, More []input
	Open        bool // one of More is used, or wrong
	Statuses    []choice
	Errors      formErrors
}

// filterForm fills in the form with what the person has typed.
func (v *visit) filterForm(fields []inspect.FilterField, values url.Values, wrong formErrors) filterForm {
	form := filterForm{Errors: wrong}
	for _, field := range fields {
		one := input{Name: field.Name, Label: field.Label, Value: values.Get(field.Name), Error: wrong[field.Name]}
		switch field.Kind {
		case inspect.KindStatus:
			given := strings.ToUpper(strings.Join(values[field.Name], ","))
			for _, status := range field.Among {
				form.Statuses = append(form.Statuses, choice{
					Value: string(status), Label: strings.ToLower(string(status)),
					Chosen: slices.Contains(strings.Split(given, ","), string(status))})
			}
			continue
		case inspect.KindType:
			one.List = "types"
		case inspect.KindQueue:
			one.List = "queues"
		case inspect.KindTime:
			one.List = "moments"
		case inspect.KindOn:
			one.Box = true
		case inspect.KindEither:
			yesOrNo := []choice{{"", "yes or no", false}, {"false", "no", false}, {"true", "yes", false}}
			one.Choices = chosen(yesOrNo, one.Value)
		case inspect.KindMatch:
			one.Hint = upper(field.Help) + "."
		case inspect.KindText, inspect.KindNote, inspect.KindID, inspect.KindParent:
		}
		switch {
		case field.Name == "tenant" && v.person.Tenant != "", !v.maySelectBy(field):
		case field.Often:
			form.Often = append(form.Often, one)
		default:
			form.More = append(form.More, one)
			form.Open = form.Open || one.Value != ""
		}
	}
	return form
}

// orderOf returns the order of the list. Without one the latest time comes first, because most tasks of a large table
// ended long ago.
func orderOf(values url.Values) string {
	if order := values.Get("order"); order != "" {
		return order
	}
	return taskOrders[0].Value
}

func decodeCursor(given string, order inspect.Order) (*store.Row, error) {
	if given == "" {
		return nil, nil //nolint:nilnil // the first page has no place before it
	}
	after, err := inspect.DecodeCursor(given)
	if err != nil || order == inspect.ByFinished && after.FinishedAt == nil {
		return nil, errPlaceInList
	}
	return after, nil
}
