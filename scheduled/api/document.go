package api

import (
	"reflect"

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

// withoutValues removes the wrong values from an error, because they may be parts of a payload.
func withoutValues(_ huma.Context, _ string, answer any) (any, error) {
	if refused, ok := answer.(*huma.ErrorModel); ok {
		for _, one := range refused.Errors {
			one.Value = nil
		}
	}
	return answer, nil
}
