package webhook

import (
	"net/http"
	"net/url"
	"strings"
	"testing"
)

// What is kept of the body of a failed answer has nothing of the request's secrets, in whatever form the server repeats
// them.
func TestAnErrorsBodyIsScrubbed(t *testing.T) {
	t.Parallel()
	target, err := url.Parse("https://example.org/services/T0000B0000XXXXYYYYZZZZ/hooks?key=hunter2%21&n=1")
	if err != nil {
		t.Fatal(err)
	}
	r := &request{method: "POST", url: target, header: http.Header{
		"Authorization": {"Bearer tok-123456"}, "X-Shop": {"shop-secret"}, "Content-Type": {"application/json"},
		headerWebhookSignature: {"v1,AAAAAAAAAAAA= v1,BBBBBBBBBBBB="}, headerTaskID: {"order-42"},
	}}
	for body, want := range map[string]string{
		`{"error": "amount is missing"}`:        `{"error": "amount is missing"}`,
		"":                                      "",
		"line one\r\n\tline two\x00\x1b[31m":    "line one line two [31m",
		"no UTF-8: \xff":                        "no UTF-8: \uFFFD",
		"you sent tok-123456 and shop-secret":   "you sent … and …",
		"Authorization: Bearer other-987654":    "Authorization:… …",
		"said Basic dXNlcjpwYXNz to you":        "said Basic … to you",
		`{"password": "p1234", "user": "u"}`:    `{"password":…, "user": "u"}`,
		`{\"api_key\": \"k1234\"}`:              `{\"api_key\":…}`,
		"token=t1234&id=5":                      "token=…&id=5",
		"v1,BBBBBBBBBBBB= is wrong":             "… is wrong",
		"v1,CCCCCCCCCCCC= is wrong":             "v1,… is wrong",
		"whsec_c2VjcmV0c2VjcmV0":                "whsec_…",
		"/services/T0000B0000XXXXYYYYZZZZ gone": "/services/… gone",
		"?key=hunter2%21&n=1":                   "?…",
		"hunter2! is wrong for order-42":        "… is wrong for order-42",
	} {
		got := r.scrubbed([]byte(body))
		if strings.ReplaceAll(got, ": …", ":…") != want {
			t.Errorf("%q becomes %q, want %q", body, got, want)
		}
	}
	if got := r.scrubbed([]byte(strings.Repeat("ü", maxErrorBody))); len(got) > maxErrorBody+len("…") {
		t.Errorf("keeps %d bytes", len(got))
	}
}
