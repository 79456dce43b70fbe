package webhook

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/tasktable/tasktable/handlers"
	"github.com/tasktable/tasktable/handlers/webhook/contract"
)

var noon = time.Date(2027, 5, 1, 12, 0, 0, 0, time.UTC)

func TestAStatusDecides(t *testing.T) {
	t.Parallel()
	expecting := func(ranges ...contract.StatusRange) contract.HTTPRequest {
		return contract.HTTPRequest{ExpectedStatus: ranges}
	}
	target := &url.URL{Scheme: "https", Host: "example.org"}
	for _, test := range []struct {
		payload contract.HTTPRequest
		status  int
		after   string
		want    string // nil, retry, permanent, or the delay
	}{
		{status: 200, want: "nil"},
		{status: 204, want: "nil"},
		{status: 299, after: "5", want: "nil"},
		{payload: expecting("201"), status: 200, want: "retry"},
		{payload: expecting("201"), status: 201, want: "nil"},
		{payload: expecting("404", "200-201"), status: 404, want: "nil"},
		{payload: expecting("404", "200-201"), status: 202, want: "retry"},
		{payload: expecting("302"), status: 302, want: "nil"},
		{payload: expecting("500-599"), status: 503, after: "9", want: "nil"},
		{status: 101, want: "permanent"},
		{status: 302, want: "permanent"},
		{status: 304, want: "permanent"},
		{status: 400, want: "permanent"},
		{status: 401, want: "permanent"},
		{status: 403, want: "permanent"},
		{status: 404, want: "permanent"},
		{status: 409, after: "9", want: "permanent"},
		{status: 410, want: "permanent"},
		{status: 422, want: "permanent"},
		{status: 425, want: "permanent"},
		{status: 499, want: "permanent"},
		{status: 408, want: "retry"},
		{status: 408, after: "7", want: "7s"},
		{status: 429, want: "retry"},
		{status: 429, after: "120", want: "2m0s"},
		{status: 429, after: "0", want: "1s"},
		{status: 429, after: "-5", want: "retry"},
		{status: 429, after: "1.5", want: "retry"},
		{status: 429, after: "soon", want: "retry"},
		{status: 429, after: "86401", want: "24h0m0s"},
		{status: 429, after: "99999999999999999999999999", want: "24h0m0s"},
		{status: 503, after: "Sat, 01 May 2027 12:01:30 GMT", want: "1m30s"},
		{status: 503, after: "Saturday, 01-May-27 12:01:30 GMT", want: "1m30s"},
		{status: 503, after: "Sat May  1 12:01:30 2027", want: "1m30s"},
		{status: 503, after: "Sat, 01 May 2027 11:00:00 GMT", want: "1s"},
		{status: 503, after: "Fri, 31 Dec 9999 23:59:59 GMT", want: "24h0m0s"},
		{status: 503, want: "retry"},
		{status: 500, after: "9", want: "retry"},
		{status: 502, want: "retry"},
		{status: 599, want: "retry"},
	} {
		answer := &answer{Response: &http.Response{StatusCode: test.status, Header: http.Header{}}}
		answer.Header.Set("Retry-After", test.after)
		err := outcome(test.payload, &request{method: "PUT", url: target}, answer, noon)
		got := "retry"
		var (
			permanent *handlers.PermanentError
			after     *handlers.RetryAfterError
		)
		switch {
		case err == nil:
			got = "nil"
		case errors.As(err, &permanent):
			got = "permanent"
		case errors.As(err, &after):
			got = after.Delay.String()
		}
		if got != test.want || err != nil && !strings.Contains(err.Error(), fmt.Sprintf("answered %d to PUT example.org", test.status)) {
			t.Errorf("%d, Retry-After %q: %s (%v), want %s", test.status, test.after, got, err, test.want)
		}
	}
}
