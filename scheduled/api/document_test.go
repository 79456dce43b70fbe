package api_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/tasktable/tasktable/scheduled/api/keys"
)

var update = flag.Bool("update", false, "write openapi.json and testdata/errors.golden anew")

// golden compares a text with a file, or writes the file if the tests run with -update.
func golden(t *testing.T, file, got string) {
	t.Helper()
	if *update {
		if err := os.WriteFile(file, []byte(got), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	gotLines, wantLines := strings.Split(got, "\n"), strings.Split(string(want), "\n")
	for i := range max(len(gotLines), len(wantLines)) {
		if i >= len(gotLines) || i >= len(wantLines) || gotLines[i] != wantLines[i] {
			t.Errorf("%s differs from line %d on. If that is intended, run the test with -update.\ngot  %q\nwant %q", file, i+1,
				gotLines[min(i, len(gotLines))], wantLines[min(i, len(wantLines)):min(i+1, len(wantLines))])
			return
		}
	}
}

// The file is for readers and generators of clients. It is what the API serves. To rename an operation breaks clients,
// and another scope breaks callers.
func TestOpenAPI(t *testing.T) {
	t.Parallel()
	s := newService(t)
	served := s.wants(200, "", "GET", "/openapi.json", "")
	if kind := served.header.Get("Content-Type"); kind != "application/openapi+json" {
		t.Errorf("Content-Type %s", kind)
	}
	var pretty bytes.Buffer
	if err := json.Indent(&pretty, []byte(served.text), "", "  "); err != nil {
		t.Fatal(err)
	}
	golden(t, "openapi.json", pretty.String()+"\n")
}

func TestOperationsAreDocumented(t *testing.T) {
	t.Parallel()
	s := newService(t)
	for _, op := range s.operations() {
		if op.Summary == "" || op.Description == "" || len(op.Tags) != 1 || strings.HasPrefix(op.Description, "\n") {
			t.Errorf("%s: summary %q, description %q, tags %q", op.OperationID, op.Summary, op.Description, op.Tags)
		}
		if len(op.Security) != 1 || op.Security[0]["key"] == nil {
			t.Errorf("%s: security %v, want the key", op.OperationID, op.Security)
		}
		if !slices.Contains(keys.Scopes(), scopeOf(op)) {
			t.Errorf("%s: the description does not name the scope: %s", op.OperationID, op.Description)
		}
		statuses := []int{401, 403, 422, 429, 500, 503}
		if op.Method != "GET" {
			statuses = append(statuses, 400, 409, 413)
		}
		if op.RequestBody != nil {
			statuses = append(statuses, 415)
		}
		if strings.Contains(op.Path, "{id}") && !slices.Contains([]string{"putTask", "listChanges", "listExecutions"}, op.OperationID) {
			statuses = append(statuses, 404)
		}
		for _, status := range statuses {
			answer := op.Responses[strconv.Itoa(status)]
			if answer == nil || answer.Content["application/problem+json"] == nil {
				t.Errorf("%s: the answer %d is not documented as a problem", op.OperationID, status)
			}
		}
		for _, parameter := range op.Parameters {
			if parameter.In == "path" && !parameter.Required {
				t.Errorf("%s: the parameter %s is not required", op.OperationID, parameter.Name)
			}
		}
	}
}
