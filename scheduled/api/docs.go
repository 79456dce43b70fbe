package api

import (
	"bytes"
	_ "embed"
	"fmt"
	"html/template"
	"net/http"
	"slices"
	"strings"

	"github.com/danielgtaylor/huma/v2"
)

//go:embed docs.html
var docsHTML string

var docsTemplate = template.Must(template.New("docs").Parse(docsHTML))

// docsPage is the OpenAPI document as a page to read. It needs no script, and nothing from another host.
type docsPage struct {
	Info    *huma.Info
	About   []string // paragraphs
	Groups  []docsGroup
	Schemas []docsSchema
}

type docsGroup struct {
	Name       string
	Operations []docsOperation
}

type docsOperation struct {
	ID, Method, Path, Summary string
	Text                      []string // paragraphs
	Parameters                []docsField
	Body                      string // the name of the schema
	Answers                   []docsAnswer
}

type docsField struct {
	Name, In, Type, Text string
	Required             bool
}

type docsAnswer struct{ Status, Text, Schema string }

type docsSchema struct {
	Name   string
	Fields []docsField
}

func (a *API) registerDocs(mux *http.ServeMux) error {
	var page bytes.Buffer
	if err := docsTemplate.Execute(&page, pageOf(a.huma.OpenAPI())); err != nil {
		return fmt.Errorf("api: make the page of the API: %w", err)
	}
	mux.HandleFunc("GET /docs", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		w.Header().Set("Content-Security-Policy",
			"default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; frame-ancestors 'none'")
		_, _ = w.Write(page.Bytes()) // the reader may be gone
	})
	return nil
}

func pageOf(document *huma.OpenAPI) docsPage {
	page := docsPage{Info: document.Info, About: strings.Split(document.Info.Description, "\n\n")}
	groups := map[string]*docsGroup{}
	for _, tag := range document.Tags {
		page.Groups = append(page.Groups, docsGroup{Name: tag.Name})
	}
	for i := range page.Groups {
		groups[page.Groups[i].Name] = &page.Groups[i]
	}
	for _, item := range inPathOrder(document.Paths) {
		for _, op := range []*huma.Operation{item.Get, item.Post, item.Put, item.Patch, item.Delete} {
			if op != nil && len(op.Tags) > 0 && groups[op.Tags[0]] != nil {
				group := groups[op.Tags[0]]
				group.Operations = append(group.Operations, operationOf(op))
			}
		}
	}
	schemas := document.Components.Schemas.Map()
	for _, name := range sortedKeys(schemas) {
		page.Schemas = append(page.Schemas, docsSchema{Name: name, Fields: fieldsOfSchema(schemas[name])})
	}
	return page
}

func inPathOrder(paths map[string]*huma.PathItem) (items []*huma.PathItem) {
	for _, path := range sortedKeys(paths) {
		items = append(items, paths[path])
	}
	return items
}

func sortedKeys[V any](of map[string]V) (names []string) {
	for name := range of {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

func operationOf(op *huma.Operation) docsOperation {
	of := docsOperation{
		ID: op.OperationID, Method: op.Method, Path: op.Path, Summary: op.Summary,
		Text: strings.Split(op.Description, "\n\n"),
	}
	for _, one := range op.Parameters {
		of.Parameters = append(of.Parameters, docsField{
			Name: one.Name, In: one.In, Type: typeOf(one.Schema), Text: one.Description, Required: one.Required,
		})
	}
	if op.RequestBody != nil {
		for _, content := range op.RequestBody.Content {
			of.Body = typeOf(content.Schema)
		}
	}
	for _, status := range sortedKeys(op.Responses) {
		answer := docsAnswer{Status: status, Text: op.Responses[status].Description}
		for _, content := range op.Responses[status].Content {
			answer.Schema = typeOf(content.Schema)
		}
		of.Answers = append(of.Answers, answer)
	}
	return of
}

func fieldsOfSchema(schema *huma.Schema) (fields []docsField) {
	for _, name := range sortedKeys(schema.Properties) {
		field := schema.Properties[name]
		fields = append(fields, docsField{
			Name: name, Type: typeOf(field), Text: field.Description, Required: slices.Contains(schema.Required, name),
		})
	}
	return fields
}

// typeOf is a schema in a few words.
func typeOf(schema *huma.Schema) string {
	switch {
	case schema == nil:
		return ""
	case schema.Ref != "":
		return schema.Ref[strings.LastIndex(schema.Ref, "/")+1:]
	case schema.Type == huma.TypeArray:
		return "array of " + typeOf(schema.Items)
	case len(schema.Enum) > 0:
		return strings.NewReplacer(" ", ", ", "<nil>", "null").Replace(strings.Trim(fmt.Sprint(schema.Enum), "[]"))
	case schema.Type == "":
		return "any"
	case schema.Format != "" && schema.Type == huma.TypeString:
		return schema.Format
	}
	return schema.Type
}
