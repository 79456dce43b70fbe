package api

import "github.com/danielgtaylor/huma/v2"

// OpenAPI returns the document with its schemas, which the tests walk.
func (a *API) OpenAPI() *huma.OpenAPI { return a.huma.OpenAPI() }

// OperationsOf lists the operations of a document.
var OperationsOf = operationsOf

// CodeMeans returns the status of a code, and whether the same call may succeed later. The status of an unknown code is
// 0.
func CodeMeans(code Code) (status int, again bool) {
	for _, rule := range codeRules {
		if rule.code == code {
			return rule.status, rule.again
		}
	}
	return 0, false
}
