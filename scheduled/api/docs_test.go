package api_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"
)

// The page names each operation of the document, and asks nothing of another host.
func TestDocs(t *testing.T) {
	t.Parallel()
	s := newService(t)
	page := s.wants(http.StatusOK, "", "GET", "/docs", "")
	var document struct {
		Paths map[string]map[string]struct{ OperationID string }
	}
	if err := json.Unmarshal([]byte(s.wants(http.StatusOK, "", "GET", "/openapi.json", "").text), &document); err != nil {
		t.Fatal(err)
	}
	for path, methods := range document.Paths {
		for method, operation := range methods {
			if !strings.Contains(page.text, `<h3 id="`+operation.OperationID+`">`) {
				t.Errorf("the page lacks %s %s", method, path)
			}
		}
	}
	for _, foreign := range []string{"<script", "http://", "https://", "src="} {
		if strings.Contains(strings.ReplaceAll(page.text, "https://admin.example.org", ""), foreign) {
			t.Errorf("the page has %s", foreign)
		}
	}
	if got := page.header.Get("Content-Security-Policy"); !strings.HasPrefix(got, "default-src 'none'; style-src") {
		t.Errorf("policy %q", got)
	}
}
