package api

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"
)

// document begins the OpenAPI document. The operations add themselves.
func document(version string) huma.Config {
	return huma.Config{
		OpenAPI: &huma.OpenAPI{
			OpenAPI: "3.1.0",
			Info: &huma.Info{
				Title: "Tasktable", Version: version,
				Description: about,
			},
			Components: &huma.Components{
				Schemas: newSchemas(),
				SecuritySchemes: map[string]*huma.SecurityScheme{"key": {
					Type: "http", Scheme: "bearer", Description: "A key that `tasktable keys create` has printed.",
				}},
			},
			Tags: []*huma.Tag{{Name: "tasks"}, {Name: "recurring"}, {Name: "dead letters"}, {Name: "operations"}},
		},
		OpenAPIPath:   "/openapi",
		Formats:       huma.DefaultFormats,
		DefaultFormat: "application/json",
		Transformers:  []huma.Transformer{plainly},
	}
}

// createsOrEdits documents both answers of an operation that creates a task or edits it. huma documents one of them.
func createsOrEdits(op *huma.Operation) {
	created := *op.Responses[strconv.Itoa(op.DefaultStatus)]
	edited := created
	created.Description = "The task is new."
	edited.Description = "There was a task of this id. The outcome tells what the call did to it."
	op.Responses["201"], op.Responses["200"] = &created, &edited
}

const about = `Schedules tasks in Postgres, and tells what became of them.

Durations are numbers of seconds. Times are RFC 3339, such as 2027-01-31T09:30:00Z. No time is relative to now, because
a call that is repeated would move the task. Errors are problem details (RFC
9457). The detail names the field and the rule. The code is for programs, and Problem lists all codes. An answer has
Retry-After exactly if the same call may succeed later.

Idempotency-Key, at every call that changes something: repeats of the same call with the same key get the first answer
for 24 hours, and change nothing. The key with another call is refused with 409.

If-Match takes the ETag of a task, which is its revision. If somebody has edited the task meanwhile, the call changes
nothing, and the answer is 412. If-None-Match: * lets PUT and POST create a task, but not edit one.`

// plainWords are the smallest number of the schema as a person writes it.
var plainWords = strings.NewReplacer("1e-06", "0.000001")

// plainly removes the wrong values from an error, because they may be parts of a payload. It names the first wrong
// field in the detail, because many clients show nothing else. It adds the code and Retry-After.
func plainly(ctx huma.Context, _ string, answer any) (any, error) {
	if made, ok := answer.(*huma.ErrorModel); ok { // by huma, so it has no code
		answer = &Problem{*made, codeOf(made.Status)}
	}
	refused, ok := answer.(*Problem)
	if !ok {
		return answer, nil
	}
	_, w := humago.Unwrap(ctx)
	refused.sayWhen(w.Header())
	if len(refused.Errors) == 0 {
		return refused, nil
	}
	for _, one := range refused.Errors {
		one.Value = nil
		one.Message = cmp.Or(fieldRule(one.Location, one.Message), plainWords.Replace(one.Message))
		if strings.Contains(one.Message, "date-time") || strings.Contains(one.Message, "invalid date/time") {
			one.Message = "expected a time such as 2027-01-31T09:30:00Z, with Z or an offset"
		}
	}
	first := refused.Errors[0]
	refused.Detail = strings.TrimPrefix(first.Location+": "+first.Message, ": ")
	if more := len(refused.Errors) - 1; more > 0 {
		refused.Detail += fmt.Sprintf(" (and %d more)", more)
	}
	return refused, nil
}
