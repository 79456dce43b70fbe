package api

import (
	"maps"
	"net/url"
	"slices"

	"github.com/danielgtaylor/huma/v2"
)

// checkQuery refuses a query of which a part would be passed over: a parameter that is empty, that cannot be read, or
// that is given twice but has one value. A filter that is passed over would list everything. A parameter that the
// operation does not have is refused, too.
func checkQuery(raw string, parameters []*huma.Param) *Problem {
	given, err := url.ParseQuery(raw)
	if err != nil {
		return refusal(CodeMalformed, "the query cannot be read: write % as %25, and ; as %3B")
	}
	known := map[string]bool{}
	for _, one := range parameters {
		known[one.Name] = known[one.Name] || one.In == "query"
	}
	for _, name := range slices.Sorted(maps.Keys(given)) {
		if !known[name] {
			return invalid("query." + name + ": unknown query parameter")
		}
	}
	for _, one := range parameters {
		values := given[one.Name]
		switch {
		case one.In != "query" || len(values) == 0:
		case slices.Contains(values, ""):
			return invalid("query." + one.Name + ": expected a value; leave the parameter out if there is none")
		case len(values) > 1 && one.Schema.Type != huma.TypeArray:
			return invalid("query." + one.Name + ": expected one value")
		}
	}
	return nil
}
