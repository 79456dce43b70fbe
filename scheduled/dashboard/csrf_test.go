package dashboard_test

import (
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/tasktable/tasktable/scheduled/api/keys"
	"github.com/tasktable/tasktable/scheduled/dashboard"
)

// foreign are headers of requests that a page of another site has sent.
var foreign = map[string][]string{
	"another site":                     {"Sec-Fetch-Site", "cross-site"},
	"another site with the own Origin": {"Sec-Fetch-Site", "cross-site", "Origin", "own"},
	"a sibling":                        {"Sec-Fetch-Site", "same-site"},
	"an unknown word":                  {"Sec-Fetch-Site", "Same-Origin " + "x"},
	"another origin":                   {"Origin", "https://evil.example"},
	"another port":                     {"Origin", "http://127.0.0.1:1"},
	"no origin":                        {"Origin", "null"},
	"text":                             {"Sec-Fetch-Site", "cross-site", "Content-Type", "text/plain"},
	"many parts":                       {"Origin", "https://evil.example", "Content-Type", "multipart/form-data; boundary=x"},
}

// Each form that a page of another site sends is refused before anything is read or changed.
func TestFormsOfOtherSitesAreRefused(t *testing.T) {
	t.Parallel()
	all := dashboard.Routes()
	for _, prefix := range []string{"", "/admin/tasks"} {
		b := newAdmin(t, func(c *dashboard.Config) { c.Prefix = prefix }).noRedirects()
		secret := b.newKey("bob", keys.Read)
		paths := []string{"/sign-in", "/sign-out", "/look", "/nowhere"}
		for _, route := range all {
			if route.Method == http.MethodPost {
				paths = append(paths, part.ReplaceAllString(route.Path, "x"))
			}
		}
		if len(paths) < 10 {
			t.Fatalf("only %v", paths)
		}
		before := b.fingerprint()
		for _, path := range paths {
			for name, headers := range foreign {
				headers = slices.Clone(headers)
				for i, value := range headers {
					if value == "own" {
						headers[i] = strings.TrimSuffix(b.url, prefix)
					}
				}
				form := url.Values{"key": {secret}, "name": {"new"}, "scope": {"read"}, "confirmed": {"1"}}
				got := b.send(http.MethodPost, path, form, headers...)
				if got.status != http.StatusForbidden || got.header.Values("Set-Cookie") != nil {
					t.Errorf("%s from %s: answer %d, %v", path, name, got.status, got.header)
				}
			}
		}
		b.unchanged(before, "a form of another site")
		b.get("/keys").wants(t, http.StatusOK, "ann") // nobody has signed ann out, and nobody has signed bob in
	}
}

// A form of the dashboard's own pages passes, whichever headers the browser sends.
func TestOwnFormsPass(t *testing.T) {
	t.Parallel()
	for _, prefix := range []string{"", "/admin/tasks"} {
		b := newAdmin(t, func(c *dashboard.Config) { c.Prefix = prefix })
		for name, headers := range map[string][]string{
			"one": {"Sec-Fetch-Site", "same-origin"}, "two": {"Sec-Fetch-Site", "none"},
			"three": {"Origin", strings.TrimSuffix(b.url, prefix)}, "four": nil,
			"five": {"Sec-Fetch-Site", "same-origin", "Origin", "https://proxy.example"},
		} {
			form := url.Values{"name": {name}, "scope": {"read"}}
			b.send(http.MethodPost, "/keys/new", form, headers...).
				wants(t, http.StatusOK, "The key "+name+" is created")
		}
		b.send(http.MethodPost, "/sign-out", nil, "Sec-Fetch-Site", "same-origin").wants(t, http.StatusOK, "Sign in")
	}
}

// An act cannot be asked for by a link or an image, because only POST changes anything.
func TestActsNeedPost(t *testing.T) {
	t.Parallel()
	b := newAdmin(t).noRedirects()
	before := b.fingerprint()
	for _, route := range dashboard.Routes() {
		if route.Method != http.MethodPost {
			continue
		}
		for _, method := range []string{"GET", "HEAD", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "PROPFIND"} {
			path := part.ReplaceAllString(route.Path, "x")
			got := b.send(method, path+"?name=new&scope=read&confirmed=1&number=1", nil)
			if got.status >= 500 && got.status != http.StatusNotImplemented {
				t.Errorf("%s %s: answer %d", method, path, got.status)
			}
		}
	}
	b.unchanged(before, "a request without POST")
}
