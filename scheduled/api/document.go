package api

import (
	"reflect"
	"strconv"

	"github.com/danielgtaylor/huma/v2"
)

var contentType = reflect.TypeFor[Content]()

// document begins the OpenAPI document. The operations add themselves.
func document(version string) huma.Config {
	schemas := huma.NewMapRegistry("#/components/schemas/", huma.DefaultSchemaNamer)
	return huma.Config{
		OpenAPI: &huma.OpenAPI{
			OpenAPI: "3.1.0",
			Info: &huma.Info{
				Title: "Tasktable", Version: version,
				Description: "Schedules tasks in Postgres, and tells what became of them. Durations are numbers of " +
					"seconds. Times are RFC 3339. Errors are problem details (RFC 9457).",
			},
			Components: &huma.Components{
				Schemas: schemas,
				SecuritySchemes: map[string]*huma.SecurityScheme{"key": {
					Type: "http", Scheme: "bearer", Description: "A key that `tasktable keys create` has printed.",
				}},
			},
			Tags: []*huma.Tag{{Name: "tasks"}, {Name: "recurring"}, {Name: "dead letters"}, {Name: "operations"}},
		},
		OpenAPIPath:                  "/openapi",
		Formats:                      huma.DefaultFormats,
		DefaultFormat:                "application/json",
		RejectUnknownQueryParameters: true,
		Transformers:                 []huma.Transformer{withoutValues},
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

// withoutValues removes the wrong values from an error, because they may be parts of a payload.
func withoutValues(_ huma.Context, _ string, answer any) (any, error) {
	if refused, ok := answer.(*huma.ErrorModel); ok {
		for _, one := range refused.Errors {
			one.Value = nil
		}
	}
	return answer, nil
}
