package api_test

import (
	"encoding/json"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/oasdiff/oasdiff/checker"
	"github.com/oasdiff/oasdiff/diff"
	"github.com/oasdiff/oasdiff/load"
)

// releasedFile is the document of the latest release. A release copies openapi.json to it. Until the first release, so
// does a change that is meant to break clients.
const releasedFile = "testdata/openapi-released.json"

// Programs that use the API of the latest release, with clients that were generated from it, go on working.
func TestNothingReleasedBreaks(t *testing.T) {
	t.Parallel()
	released, now := readDocument(t, releasedFile), readDocument(t, "openapi.json")
	for _, change := range breaking(t, released, now) {
		t.Errorf("%s\nIf no client can depend on it, copy openapi.json to %s.", change, releasedFile)
	}
}

// Programs depend on these, too. The names are those of functions, types and classes in generated clients.
var alsoBreaking = map[string]checker.Level{
	checker.APIOperationIdRemovedId:               checker.ERR,
	checker.APISchemasRemovedId:                   checker.ERR,
	checker.APITagRemovedId:                       checker.ERR,
	checker.OptionalResponseHeaderRemovedId:       checker.ERR,
	checker.RequestParameterDefaultValueChangedId: checker.ERR,
	checker.ResponseNonSuccessStatusRemovedId:     checker.ERR,
	checker.ResponseOptionalPropertyRemovedId:     checker.ERR,
}

// breaking returns the changes that programs may not survive.
func breaking(t *testing.T, before, after document) (changes []string) {
	t.Helper()
	report, sources, err := diff.GetWithOperationsSourcesMap(diff.NewConfig(), before.spec(t), after.spec(t))
	if err != nil {
		t.Fatal(err)
	}
	config := checker.NewConfig(checker.GetAllChecks(), checker.WithSeverityLevels(alsoBreaking))
	for _, change := range checker.CheckBackwardCompatibility(config, report, sources) {
		changes = append(changes, change.SingleLineError(checker.NewDefaultLocalizer(), checker.ColorNever))
	}
	return changes
}

// document is an OpenAPI document, as JSON is decoded.
type document map[string]any

func readDocument(t *testing.T, file string) (read document) {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(text, &read); err != nil {
		t.Fatal(err)
	}
	return read
}

func (d document) spec(t *testing.T) *load.SpecInfo {
	t.Helper()
	text, err := json.Marshal(d)
	if err != nil {
		t.Fatal(err)
	}
	spec, err := openapi3.NewLoader().LoadFromData(text)
	if err != nil {
		t.Fatal(err)
	}
	return &load.SpecInfo{Spec: spec}
}

// at returns the object at a path, such as "components schemas Task properties".
func (d document) at(path string) map[string]any {
	var at any = map[string]any(d)
	for name := range strings.FieldsSeq(path) {
		at = at.(map[string]any)[name]
	}
	return at.(map[string]any)
}

// parameter returns a parameter of the list of tasks.
func (d document) parameter(name string) map[string]any {
	for _, one := range d.at("paths /v1/tasks get")["parameters"].([]any) {
		if parameter := one.(map[string]any); parameter["name"] == name {
			return parameter
		}
	}
	panic("no parameter " + name)
}

// withParameter adds a parameter to the list of tasks.
func (d document) withParameter(required bool) {
	list := d.at("paths /v1/tasks get")
	list["parameters"] = append(list["parameters"].([]any), map[string]any{
		"name": "colour", "in": "query", "required": required, "schema": map[string]any{"type": "string"},
	})
}

// add appends to a list of an object.
func add(to map[string]any, list string, one any) {
	to[list] = append(slices.Clone(to[list].([]any)), one)
}

const (
	putPath    = "paths /v1/tasks/{id} put"
	properties = "components schemas Task properties"
	asked      = "components schemas TaskRequest"
)

// Each change breaks some client, so the test must notice it.
func TestBreakingChangesAreNoticed(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		change func(document)
		says   string
	}{
		"an operation is removed": {func(d document) { delete(d.at("paths /v1/tasks/{id}/why"), "get") }, "api"},
		"a path is removed":       {func(d document) { delete(d.at("paths"), "/v1/stats") }, "api"},
		"an operation has another name": {func(d document) {
			d.at(putPath)["operationId"] = "upsertTask"
		}, "operation id"},
		"an operation is in another group": {func(d document) { d.at(putPath)["tags"] = []any{"editing"} }, "tag"},
		"a parameter is removed": {func(d document) {
			list := d.at("paths /v1/tasks get")
			list["parameters"] = list["parameters"].([]any)[1:]
		}, "`type`"},
		"a parameter is new and required":  {func(d document) { d.withParameter(true) }, "colour"},
		"a parameter becomes required":     {func(d document) { d.parameter("queue")["required"] = true }, "queue"},
		"a parameter has a lower maximum":  {func(d document) { d.parameter("limit")["schema"].(map[string]any)["maximum"] = 500 }, "limit"},
		"a parameter allows fewer words":   {func(d document) { d.parameter("order")["schema"].(map[string]any)["enum"] = []any{"id"} }, "order"},
		"a field of a request is removed":  {func(d document) { delete(d.at(asked+" properties"), "entity") }, "entity"},
		"a field of a request is required": {func(d document) { add(d.at(asked), "required", "queue") }, "queue"},
		"a field of a request has a narrower type": {func(d document) {
			d.at(asked + " properties jitter")["type"] = "integer"
		}, "jitter"},
		"a field of a request is shorter":     {func(d document) { d.at(asked + " properties entity")["maxLength"] = 100 }, "entity"},
		"a field of an answer is removed":     {func(d document) { delete(d.at(properties), "message") }, "message"},
		"a field of an answer may be missing": {func(d document) { d.at("components schemas Receipt")["required"] = []any{"id"} }, "outcome"},
		"a field of an answer has other type": {func(d document) { d.at(properties + " revision")["type"] = "string" }, "revision"},
		"a field of an answer may be null":    {func(d document) { d.at(properties + " type")["type"] = []any{"string", "null"} }, "type"},
		"a field of an answer has a new word": {func(d document) { add(d.at(properties+" status"), "enum", "BLOCKED") }, "BLOCKED"},
		"a type has another name":             {func(d document) { renameReceipt(d) }, "Receipt"},
		"a header of an answer is removed":    {func(d document) { delete(d.at(putPath+" responses 200"), "headers") }, "ETag"},
		"a parameter has another default":     {func(d document) { d.parameter("order")["schema"].(map[string]any)["default"] = "id" }, "order"},
		"an answer is removed":                {func(d document) { delete(d.at(putPath+" responses"), "200") }, "200"},
		"an answer that refuses is removed":   {func(d document) { delete(d.at(putPath+" responses"), "412") }, "412"},
		"an answer has another kind": {func(d document) {
			d.at(putPath + " responses 200 content")["text/plain"] = d.at(putPath + " responses 200 content application/json")
			delete(d.at(putPath+" responses 200 content"), "application/json")
		}, "application/json"},
		"the header of a call becomes required": {func(d document) { d.at(putPath)["parameters"].([]any)[0].(map[string]any)["required"] = true }, "Idempotency-Key"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			changed := readDocument(t, "openapi.json")
			c.change(changed)
			got := strings.Join(breaking(t, readDocument(t, "openapi.json"), changed), "\n")
			if !strings.Contains(got, c.says) {
				t.Errorf("got %q, want a line with %q", got, c.says)
			}
		})
	}
}

func renameReceipt(d document) {
	schemas := d.at("components schemas")
	schemas["Result"] = schemas["Receipt"]
	delete(schemas, "Receipt")
	text, err := json.Marshal(d)
	if err == nil {
		err = json.Unmarshal([]byte(strings.ReplaceAll(string(text), "schemas/Receipt\"", "schemas/Result\"")), &d)
	}
	if err != nil {
		panic(err)
	}
}

// What is added breaks no client.
func TestAdditionsPass(t *testing.T) {
	t.Parallel()
	text := map[string]any{"type": "string"}
	changed := readDocument(t, "openapi.json")
	changed.at("paths")["/v1/limits"] = map[string]any{"get": map[string]any{
		"operationId": "listLimits", "responses": map[string]any{"200": map[string]any{"description": "OK"}},
	}}
	changed.withParameter(false)
	changed.parameter("limit")["schema"].(map[string]any)["maximum"] = 5000
	changed.at(asked + " properties")["group_key"] = text
	add(changed.at(asked+" properties if_finished"), "enum", "ask")
	changed.at(properties)["group_key"] = text
	add(changed.at("components schemas Task"), "required", "group_key")
	changed.at("components schemas")["Limit"] = map[string]any{"type": "object"}
	changed.at(putPath + " responses")["418"] = changed.at(putPath + " responses 412")
	changed.at(putPath)["description"] = "Another text."
	if got := breaking(t, readDocument(t, "openapi.json"), changed); len(got) > 0 {
		t.Errorf("additions are taken for breaking changes:\n%s", strings.Join(got, "\n"))
	}
}
