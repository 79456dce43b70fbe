package api

import "github.com/danielgtaylor/huma/v2"

// OpenAPI returns the document with its schemas, which the tests walk.
func (a *API) OpenAPI() *huma.OpenAPI { return a.huma.OpenAPI() }
