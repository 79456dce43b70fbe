package api

import (
	"reflect"

	"github.com/danielgtaylor/huma/v2"

	"github.com/tasktable/tasktable/store"
)

const schemaPrefix = "#/components/schemas/"

// newSchemas returns the registry of the schemas. Generators make a type of each, so its name is a part of the API.
func newSchemas() huma.Registry {
	schemas := huma.NewMapRegistry(schemaPrefix, schemaName)
	schemas.RegisterTypeAlias(reflect.TypeFor[store.Status](), reflect.TypeFor[statusSchema]())
	schemas.RegisterTypeAlias(reflect.TypeFor[store.Outcome](), reflect.TypeFor[outcomeSchema]())
	return schemas
}

func schemaName(of reflect.Type, hint string) string {
	switch of {
	case reflect.TypeFor[huma.ErrorModel]():
		return "Problem"
	case reflect.TypeFor[*huma.ErrorDetail](), reflect.TypeFor[huma.ErrorDetail]():
		return "ProblemDetail"
	}
	return huma.DefaultSchemaNamer(of, hint)
}

// named adds a schema to the registry and returns a reference to it. huma does so for structs alone, and generators
// would make a type of its own for each field that has the schema.
func named(schemas huma.Registry, name string, schema *huma.Schema) *huma.Schema {
	if schemas.Map()[name] == nil {
		schema.PrecomputeMessages()
		schemas.Map()[name] = schema
	}
	return &huma.Schema{Ref: schemaPrefix + name}
}

type statusSchema string

func (statusSchema) Schema(huma.Registry) *huma.Schema { return words(store.Statuses()) }

type outcomeSchema string

func (outcomeSchema) Schema(huma.Registry) *huma.Schema { return words(store.Outcomes()) }

// words is not a schema with a name, because some generators would wrap each word in an object, and send the object.
func words[W ~string](all []W) *huma.Schema {
	schema := &huma.Schema{Type: huma.TypeString}
	for _, word := range all {
		schema.Enum = append(schema.Enum, string(word))
	}
	return schema
}

// finishSchemas completes the schemas of answers when all operations are there. An answer may get further fields in
// later versions, so clients must not refuse fields that they do not know. No array of an answer is null.
func finishSchemas(document *huma.OpenAPI) {
	schemas := document.Components.Schemas
	asked := map[*huma.Schema]bool{}
	for _, op := range operationsOf(document) {
		noteSchemas(asked, schemas, bodyOf(op))
	}
	for _, schema := range schemas.Map() {
		if asked[schema] {
			continue
		}
		schema.AdditionalProperties = nil
		for _, field := range schema.Properties {
			field.Nullable = field.Nullable && field.Type != huma.TypeArray
		}
	}
	finishProblem(schemas.Map()["Problem"], schemas.Map()["ProblemDetail"])
}

// finishProblem says of the schemas of errors what is true for this API.
func finishProblem(problem, detail *huma.Schema) {
	problem.Required = []string{"title", "status", "code", "detail"}
	problem.Properties["code"] = &huma.Schema{Type: huma.TypeString, Examples: []any{string(CodeInvalid)},
		Description: "Why, for programs. Others may be added. " + codesText()}
	problem.Properties["type"].Default = nil // generators would require the field, which no error has
	detail.Required = []string{"message"}
	delete(detail.Properties, "value") // plainly removes it
	problem.PrecomputeMessages()
	detail.PrecomputeMessages()
}

// noteSchemas notes a schema and those that it refers to.
func noteSchemas(noted map[*huma.Schema]bool, schemas huma.Registry, schema *huma.Schema) {
	if schema == nil {
		return
	}
	if schema.Ref != "" {
		schema = schemas.SchemaFromRef(schema.Ref)
	}
	if noted[schema] {
		return
	}
	noted[schema] = true
	noteSchemas(noted, schemas, schema.Items)
	for _, field := range schema.Properties {
		noteSchemas(noted, schemas, field)
	}
}
