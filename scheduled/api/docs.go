package api

import (
	"bytes"
	_ "embed"
	"fmt"
	"html/template"
	"maps"
	"net/http"
	"slices"
	"strings"

	"github.com/danielgtaylor/huma/v2"
)

//go:embed docs.html
var docsHTML string

// docsTemplate makes the OpenAPI document a page to read. It needs no script, and nothing from another host.
var docsTemplate = template.Must(template.New("docs").Funcs(template.FuncMap{
	"paragraphs": func(text string) []string { return strings.Split(text, "\n\n") },
	"operations": operationsOf,
	"has":        slices.Contains[[]string],
	"type":       typeOf,
}).Parse(docsHTML))

func (a *API) registerDocs(mux *http.ServeMux) error {
	var page bytes.Buffer
	if err := docsTemplate.Execute(&page, a.huma.OpenAPI()); err != nil {
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

// operationsOf lists all operations in the order of their paths.
func operationsOf(document *huma.OpenAPI) (all []*huma.Operation) {
	for _, path := range slices.Sorted(maps.Keys(document.Paths)) {
		of := document.Paths[path]
		for _, op := range []*huma.Operation{of.Get, of.Post, of.Put, of.Patch, of.Delete} {
			if op != nil {
				all = append(all, op)
			}
		}
	}
	return all
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
