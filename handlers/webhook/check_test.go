package webhook_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/tasktable/tasktable/handlers/webhook/contract"
)

func TestCheckJSON(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		`{"type": "HTTP_REQUEST", "url": "https://example.org/", "timeout": 2, "body": {"n": 1}}`:   "",
		`{"url": "https://example.org/", "timeout": "1500ms", "expected_status": [204, "200-202"]}`: "",
		`{"type": "HTTP_REQUEST"}`:                    "payload field url ",
		`{"url": "https://example.org/", "boddy": 1}`: `payload field "boddy" is not known; the fields are method, url, `,
		`{"url": 5}`: "payload field url must not be a JSON number",
		`{"url": "https://example.org/", "headers": {"a": 1}}`:   "must not be a JSON number",
		`{"url": "https://example.org/", "method": "FETCH"}`:     "payload field method must be one of",
		`{"url": "https://example.org/", "timeout": 0.05}`:       "payload field timeout must be a duration from 100ms",
		`{"url": "https://example.org/", "timeout": true}`:       "payload field timeout must be a duration from 100ms",
		`{"url": "https://example.org/", "sign_with": ""}`:       "payload field sign_with must not be empty",
		`{"url": "https://example.org/", "method": ""}`:          "payload field method must not be empty",
		`{"url": "https://example.org/", "circuit": ""}`:         "payload field circuit must not be empty",
		`{"url": "https://example.org/", "timeout": ""}`:         "payload field timeout must not be empty",
		`{"url": "https://example.org/", "expected_status": []}`: "payload field expected_status must not be empty",
		`{"url": "https://example.org/", "sign_with": null}`:     "",
		`{"url": "https://example.org:65535/"}`:                  "",
		`{"url": "https://example.org:65536/"}`:                  "payload field url must have a port from 1 to 65535",
		`{"url": "https://example.org:0/"}`:                      "payload field url must have a port from 1 to 65535",
		`[]`:                                                     "payload must be a JSON object",
	} {
		err := contract.CheckJSON([]byte(text))
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
	var request contract.HTTPRequest
	if err := json.Unmarshal([]byte(`{"url": "https://example.org/", "timeout": 2.5}`), &request); err != nil ||
		request.Timeout != "2.5s" {
		t.Errorf("%+v, %v", request, err)
	}
}
