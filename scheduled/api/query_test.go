package api_test

import (
	"strings"
	"testing"

	"github.com/danielgtaylor/huma/v2"
)

// A filter that is empty or cannot be read would list everything. Each parameter of each operation is tried.
func TestQueriesAreReadWhole(t *testing.T) {
	t.Parallel()
	s := newService(t)
	tried := 0
	for _, op := range s.operations() {
		method, path, body := s.example(op)
		for _, one := range op.Parameters {
			if one.In != "query" {
				continue
			}
			tried++
			s.says(s.wants(422, "all", method, path+"?"+one.Name+"=", body), "query."+one.Name+": expected a value")
			s.says(s.wants(422, "all", method, path+"?"+one.Name, body), "query."+one.Name+": expected a value")
			if one.Schema.Type != huma.TypeArray {
				twice := path + "?" + one.Name + "=1&" + one.Name + "=1"
				s.says(s.wants(422, "all", method, twice, body), "query."+one.Name+": expected one value")
			}
			for _, bad := range []string{"=%zz", "=a;b", "=a,%zz"} {
				s.says(s.wants(400, "all", method, path+"?"+one.Name+bad, body), "the query cannot be read")
			}
		}
	}
	if tried < 20 {
		t.Errorf("%d parameters, want more", tried)
	}
	if got := s.wants(401, "", "GET", "/v1/tasks?type=", ""); strings.Contains(got.text, "query") {
		t.Errorf("a stranger is told about the query: %s", got.text)
	}
}
