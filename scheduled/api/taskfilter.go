package api

import (
	"context"
	"encoding/json"
	"errors"
	"net/url"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/tasktable/tasktable/store/inspect"
)

// TaskFilter selects tasks by their fields, in the body of a call. Its fields are those of the table in package
// inspect.
type TaskFilter map[string]json.RawMessage

// Schema has a property for each field.
func (TaskFilter) Schema(schemas huma.Registry) *huma.Schema {
	schema := &huma.Schema{Type: huma.TypeObject, Properties: map[string]*huma.Schema{}, AdditionalProperties: false,
		Description: "Selects tasks by their fields. A field that is missing selects all."}
	for _, field := range inspect.FilterFields() {
		schema.Properties[field.Parameter] = filterSchema(field)
	}
	return named(schemas, "TaskFilter", schema)
}

func filterSchema(field inspect.FilterField) *huma.Schema {
	schema := &huma.Schema{Type: huma.TypeString, Description: strings.ToUpper(field.Help[:1]) + field.Help[1:] + "."}
	switch field.Kind {
	case inspect.KindStatus:
		schema.Type, schema.MinItems, schema.Items = huma.TypeArray, new(1), words(field.Among)
	case inspect.KindTime:
		schema.Format = "date-time"
	case inspect.KindOn, inspect.KindEither:
		schema.Type = huma.TypeBoolean
	default:
		schema.MinLength = new(1)
		schema.Description += " It " + field.Rule() + "."
	}
	return schema
}

// filterParameters are the fields as parameters of a call.
func filterParameters(fields []inspect.FilterField) (parameters []*huma.Param) {
	for _, field := range fields {
		schema := filterSchema(field)
		one := &huma.Param{Name: field.Parameter, In: "query", Schema: schema, Description: schema.Description}
		if schema.Description = ""; schema.Type == huma.TypeArray {
			one.Explode = new(true)
		}
		parameters = append(parameters, one)
	}
	return parameters
}

// queryFilter reads the filter in the parameters of a call.
func queryFilter(ctx context.Context, fields []inspect.FilterField) (inspect.Filter, error) {
	query, _ := url.ParseQuery(exchangeOf(ctx).request.URL.RawQuery) // checkQuery has refused one that cannot be read
	return filterOf(fields, query, "query.")
}

// bodyFilter reads the filter in the body of a call.
func bodyFilter(given TaskFilter, fields []inspect.FilterField) (inspect.Filter, error) {
	texts := map[string][]string{}
	for name, value := range given {
		var text string
		var several []string
		switch {
		case json.Unmarshal(value, &several) == nil:
			texts[name] = several
		case json.Unmarshal(value, &text) == nil:
			texts[name] = []string{text}
		default:
			texts[name] = []string{string(value)} // true or false, by the schema
		}
	}
	for _, field := range fields {
		delete(given, field.Parameter)
	}
	for name := range given {
		return inspect.Filter{}, invalid("body.filter." + name + ": unexpected property")
	}
	return filterOf(fields, texts, "filter.")
}

func filterOf(
	fields []inspect.FilterField, given map[string][]string, within string,
) (filter inspect.Filter, err error) {
	for _, field := range fields {
		if err := field.Set(&filter, given[field.Parameter], rfc3339); err != nil {
			return filter, invalid(within + field.Parameter + " " + err.Error())
		}
	}
	return filter, nil
}

func rfc3339(text string) (time.Time, error) {
	at, err := time.Parse(time.RFC3339Nano, text)
	if err != nil {
		return at, errors.New("must be a time such as 2027-01-31T09:30:00Z, with Z or an offset")
	}
	return at, nil
}

// deadFilter selects dead letters by the other fields of a filter.
func deadFilter(filter inspect.Filter) inspect.Filter {
	dead := inspect.DeadLetters()
	filter.Archived, filter.Order = dead.Archived, dead.Order
	if len(filter.Statuses) == 0 {
		filter.Statuses = dead.Statuses
	}
	return filter
}
