package dashboard_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"mime/multipart"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tasktable/tasktable/scheduled/api/keys"
	"github.com/tasktable/tasktable/scheduled/dashboard"
	"github.com/tasktable/tasktable/store"
)

// checkHeaders fails the test if an answer lacks a header that keeps other sites out.
func checkHeaders(t *testing.T, where string, header http.Header) {
	t.Helper()
	for name, want := range map[string]string{
		"X-Frame-Options": "DENY", "X-Content-Type-Options": "nosniff", "Referrer-Policy": "same-origin",
		"Cross-Origin-Opener-Policy": "same-origin", "Cross-Origin-Resource-Policy": "same-origin",
		"Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; " +
			"connect-src 'self'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'",
	} {
		if got := header.Values(name); len(got) != 1 || got[0] != want {
			t.Errorf("%s: %s is %q", where, name, got)
		}
	}
}

// Every answer has the headers: pages, forms, errors, files and refusals, with a session and without.
func TestEachAnswerKeepsOthersOut(t *testing.T) {
	t.Parallel()
	all := dashboard.Routes()
	for _, b := range []*board{newAdmin(t).noRedirects(), newBoard(t).noRedirects(),
		newAdmin(t, func(c *dashboard.Config) { c.Prefix = "/admin/tasks" }).noRedirects()} {
		for _, route := range all {
			got := b.send(route.Method, example(t, route.Path, examples), nil)
			checkHeaders(t, route.Method+" "+route.Path, got.header)
			if got.header.Get("Cache-Control") != "no-store" {
				t.Errorf("%s may be kept", route.Path)
			}
		}
		for _, one := range []string{"GET /static/style.css", "GET /static/nowhere", "GET /nowhere", "GET /live?page=/nowhere", "PUT /",
			"GET /tasks/../x", "GET //x", "POST /look", "POST /sign-in", "POST /sign-out", "GET /search?q=x", "HEAD /", "TRACE /"} {
			method, path, _ := strings.Cut(one, " ")
			checkHeaders(t, one, b.send(method, path, nil).header)
		}
		checkHeaders(t, "of another site", b.send(http.MethodPost, "/keys/new", nil, "Sec-Fetch-Site", "cross-site").header)
	}
}

// Without a session nothing is shown and nothing is done, whoever authenticates, on every page and act.
func TestStrangersSeeAndDoNothing(t *testing.T) {
	t.Parallel()
	all := dashboard.Routes()
	refuse := func(person dashboard.Person, err error) func(*dashboard.Config) {
		return func(c *dashboard.Config) {
			c.Authenticate = func(*http.Request) (dashboard.Person, error) { return person, err }
		}
	}
	shared := newBoard(t) // nobody changes its database
	shared.addPoison()
	shared.exec(`DELETE FROM tasktable.pauses`)
	before := shared.fingerprint()
	for name, change := range map[string]func(*dashboard.Config){
		"no session":           func(*dashboard.Config) {},
		"unauthenticated":      refuse(dashboard.Person{Name: "x", Scopes: dashboard.All}, dashboard.ErrUnauthenticated),
		"a failure":            refuse(dashboard.Person{Name: "x", Scopes: dashboard.All}, errors.New("no answer of poison")),
		"no name":              refuse(dashboard.Person{Scopes: dashboard.All}, nil),
		"no scopes":            refuse(dashboard.Person{Name: "x"}, nil),
		"not the scope read":   refuse(dashboard.Person{Name: "x", Scopes: dashboard.All &^ dashboard.Read}, nil),
		"an unknown scope":     refuse(dashboard.Person{Name: "x", Scopes: dashboard.All<<1 | dashboard.Read}, nil),
		"a name with controls": refuse(dashboard.Person{Name: "x\ny", Scopes: dashboard.All}, nil),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := boardOf(t, shared.pool, change).noRedirects()
			paths := []string{"GET /", "GET /search?q=poison", "GET /live?page=/notices", "GET /nowhere", "POST /nowhere"}
			for _, route := range all {
				path := route.Method + " " + example(t, route.Path, examples)
				paths = append(paths, path, strings.Replace(path, "GET", "HEAD", 1))
				if route.Method == http.MethodGet {
					paths = append(paths, "GET /live?page="+url.QueryEscape(strings.TrimPrefix(path, "GET ")))
				}
			}
			for _, one := range paths {
				method, path, _ := strings.Cut(one, " ")
				got := b.send(method, path, url.Values{"confirmed": {"1"}, "name": {"new"}})
				leads := got.status == http.StatusSeeOther // the answer has the address that was asked for
				if !leads && strings.Contains(got.text, "poison") || strings.Contains(got.text, `class="person"`) {
					t.Errorf("%s %s shows something: %s", method, path, got.text)
				}
				wanted := []int{http.StatusUnauthorized, http.StatusSeeOther, http.StatusServiceUnavailable}
				if path == "/" {
					wanted = append(wanted, http.StatusOK)
				}
				if strings.HasSuffix(path, "/nowhere") && method == http.MethodPost {
					wanted = append(wanted, http.StatusNotFound, http.StatusMethodNotAllowed)
				}
				if strings.HasPrefix(path, "/search") { // its form is in the frame, and its page may lead on
					wanted = append(wanted, http.StatusNotFound)
				}
				if !slices.Contains(wanted, got.status) {
					t.Errorf("%s %s: answer %d", method, path, got.status)
				}
				if to := got.header.Get("Location"); to != "" && !strings.HasPrefix(to, "/?next=") && to != "/" {
					t.Errorf("%s %s leads to %s", method, path, to)
				}
			}
			b.unchanged(before, name)
		})
	}
}

// people are those of the matrix. A header of the test says who asks.
var people = func() map[string]dashboard.Person {
	all := map[string]dashboard.Person{}
	for name, scopes := range map[string]dashboard.Scopes{
		"read": dashboard.Read, "schedule": dashboard.Read | dashboard.Schedule, "operate": dashboard.Read | dashboard.Operate,
		"keys": dashboard.Read | dashboard.Admin, "admin": dashboard.All,
	} {
		all[name] = dashboard.Person{Name: name, Scopes: scopes}
		all["tenant "+name] = dashboard.Person{Name: "tenant " + name, Scopes: scopes, Tenant: "acme"}
	}
	return all
}()

// ofMatrix lets a header say which of these people asks.
func ofMatrix(c *dashboard.Config) {
	c.Authenticate = func(r *http.Request) (dashboard.Person, error) {
		person, known := people[r.Header.Get("X-Person")]
		if !known {
			return person, dashboard.ErrUnauthenticated
		}
		return person, nil
	}
}

// newMatrix is a dashboard with a role of tenants, for people who say who they are.
func newMatrix(t *testing.T) *board {
	t.Helper()
	_, withRoles := newRoles(t)
	b := newBoard(t, ofMatrix, withRoles).noRedirects()
	for _, tenant := range []string{"acme", "globex"} {
		payload := store.JSON(fmt.Sprintf(`{"type": "REPORT", "of": %q}`, tenant+"-payload"))
		b.schedule(store.Task{ID: tenant + "-task", Payload: payload, TenantID: tenant, Entity: tenant + "-entity"})
		b.schedule(store.Task{ID: tenant + "-recurring", Payload: payload, TenantID: tenant, Recurrence: &store.Recurrence{
			Cron: "@hourly"}})
		b.schedule(store.Task{ID: tenant + "-dead", Payload: payload, TenantID: tenant})
		b.exec(`UPDATE tasktable.scheduled_tasks SET status = 'FAILED', finished_at = clock_timestamp(), next_attempt_at = NULL,
			message = $2 WHERE id = $1`, tenant+"-dead", tenant+"-error")
		b.exec(`SELECT tasktable.add_days('company', '["2027-12-24"]', $1)`, tenant)
	}
	// So that each page has the buttons of those who may use them.
	b.exec(`SELECT tasktable.pause_scope('queue', 'mail'), tasktable.set_limit('all', max_running => 1),
		tasktable.set_defaults('REPORT', priority => 1)`)
	return b
}

// Every page and act is for those alone who may see and do it. No page leads to one that its person may not use. A
// tenant's people see nothing of another tenant.
func TestWhoMay(t *testing.T) {
	t.Parallel()
	all := dashboard.Routes()
	own := map[string]string{"id": "acme-task", "recurring id": "acme-recurring", "dead id": "acme-dead", "name": "default"}
	others := map[string]string{"id": "globex-task", "recurring id": "globex-recurring", "dead id": "globex-dead", "name": "default"}
	b := newMatrix(t)
	w, led := newWalker(b, "", all), map[dashboard.Route]bool{}
	slices.SortStableFunc(all, func(one, two dashboard.Route) int { // deletes come last
		return strings.Compare(fmt.Sprint(strings.Contains(one.Path, "delete")), fmt.Sprint(strings.Contains(two.Path, "delete")))
	})
	for _, allowed := range []bool{false, true} {
		for _, route := range all {
			if route.Method == http.MethodPost && route.Needs == dashboard.Read {
				t.Errorf("the act %s needs no more than the scope read", route.Path)
			}
			for name, person := range people {
				may := mayUse(person, route)
				if may != allowed {
					continue
				}
				before := ""
				if !may {
					before = b.fingerprint()
				}
				form := url.Values{"confirmed": {"1"}, "name": {"new"}, "back": {"/"}}
				got := b.send(route.Method, example(t, route.Path, own), form, "X-Person", name)
				where := fmt.Sprintf("%s %s as %s", route.Method, route.Path, name)
				switch {
				case !may && !isRefusal(got) && !leadsTenant(route, person, got):
					t.Errorf("%s: answer %d, want 403: %s", where, got.status, got.words())
				case may && route.Method == http.MethodGet && got.status != http.StatusOK:
					t.Errorf("%s: answer %d: %s", where, got.status, got.words())
				case may && (got.status == http.StatusForbidden || got.status == http.StatusUnauthorized || got.status >= 500):
					t.Errorf("%s: answer %d: %s", where, got.status, got.words())
				}
				for _, other := range w.leadsTo(got.text) {
					led[other] = true
					if !mayUse(person, other) && other.Path != "/{$}" { // the name of the product leads there, and on
						t.Errorf("%s leads to %s %s", where, other.Method, other.Path)
					}
				}
				if person.Tenant != "" && strings.Contains(got.text, "globex") {
					t.Errorf("%s shows another tenant: %s", where, got.words())
				}
				if !may {
					b.unchanged(before, where)
				} else if person.Tenant != "" && part.MatchString(route.Path) {
					b.touchesNoOther(t, route, name, example(t, route.Path, others))
				}
			}
		}
	}
	if len(led) < 40 {
		t.Errorf("the pages lead only to %v", led)
	}
}

func mayUse(person dashboard.Person, route dashboard.Route) bool {
	return person.Scopes&route.Needs == route.Needs && (!route.Global || person.Tenant == "")
}

// isRefusal reports whether an answer tells why a person may not use a page or an act.
func isRefusal(got reply) bool {
	return got.status == http.StatusForbidden &&
		(strings.Contains(got.text, "This needs the scope ") || strings.Contains(got.text, "This page is about all tenants."))
}

// leadsTenant reports whether a person with a tenant was led from the overview to the tasks.
func leadsTenant(route dashboard.Route, person dashboard.Person, got reply) bool {
	return route.Path == "/{$}" && person.Tenant != "" && got.header.Get("Location") == "/tasks"
}

// touchesNoOther asks for the page or the act of another tenant's task.
func (b *board) touchesNoOther(t *testing.T, route dashboard.Route, name, path string) {
	t.Helper()
	before := b.fingerprint()
	for _, form := range []url.Values{{"confirmed": {"1"}}, {"confirmed": {"1"}, "revision": {"1"}}} {
		got := b.send(route.Method, path, form, "X-Person", name)
		if got.status != http.StatusNotFound || strings.Contains(strings.ReplaceAll(got.text, path, ""), "globex-payload") {
			t.Errorf("%s %s as %s: answer %d: %s", route.Method, path, name, got.status, got.words())
		}
	}
	b.unchanged(before, route.Method+" "+path+" as "+name)
}

func TestFormsThatAreTooLargeOrBroken(t *testing.T) {
	t.Parallel()
	b := newAdmin(t)
	before := b.fingerprint()
	huge := strings.Repeat("x", 9<<20)
	var parts bytes.Buffer
	writer := multipart.NewWriter(&parts)
	_ = writer.WriteField("name", huge)
	_ = writer.Close()
	for _, path := range []string{"/keys/new", "/notices/rule", "/sign-in", "/look"} {
		for _, one := range []struct {
			kind   string
			body   string
			status int
		}{
			{formType, "name=" + huge, http.StatusRequestEntityTooLarge},
			{writer.FormDataContentType(), parts.String(), http.StatusBadRequest},
			{formType, "name=%zz&scope=read", http.StatusBadRequest},
			{formType, "name=new&scope=read&x=%00", http.StatusUnprocessableEntity},
			{formType, "name=new&scope=read&x=%ff", http.StatusUnprocessableEntity},
			{"multipart/form-data", "name=new", http.StatusBadRequest},
			{"multipart/form-data; boundary=x", "--x\r\nContent-Dis", http.StatusBadRequest},
		} {
			if status, err := b.sendRaw(path, one.kind, one.body); err == nil && status != one.status {
				t.Errorf("%s with %s of %d bytes: answer %d, want %d", path, one.kind, len(one.body), status, one.status)
			}
		}
	}
	b.unchanged(before, "a broken form")
}

// sendRaw posts a body. The server may end the connection before it has read all.
func (b *board) sendRaw(path, kind, body string) (status int, err error) {
	b.Helper()
	request, err := http.NewRequestWithContext(b.Context(), http.MethodPost, b.url+path, strings.NewReader(body))
	if err != nil {
		b.Fatal(err)
	}
	request.Header.Set("Content-Type", kind)
	response, err := b.client.Do(request)
	var ended *net.OpError
	if errors.As(err, &ended) {
		return 0, err
	}
	if err != nil {
		b.Fatal(err)
	}
	_, _ = io.Copy(io.Discard, response.Body)
	return response.StatusCode, response.Body.Close()
}

func TestOddRequests(t *testing.T) {
	t.Parallel()
	for _, prefix := range []string{"", "/admin/tasks"} {
		b := newAdmin(t, func(c *dashboard.Config) { c.Prefix = prefix }).noRedirects()
		for _, path := range []string{"/keys", "/keys/new", "/notices", "/static/style.css"} {
			if got := b.send(http.MethodHead, path, nil); got.status != http.StatusOK || got.text != "" {
				t.Errorf("HEAD %s: answer %d %q", path, got.status, got.text)
			}
			for _, method := range []string{"PUT", "DELETE", "PATCH", "PROPFIND", "X"} {
				if got := b.send(method, path, nil); got.status != http.StatusMethodNotAllowed {
					t.Errorf("%s %s: answer %d", method, path, got.status)
				}
			}
		}
		for _, path := range []string{"..%2fnew.go", "%2e%2e/new.go", "..%5cnew.go", "%2fetc%2fpasswd", "style.css%00", "style.css/", "", ".",
			"%2e%2e%2f%2e%2e%2fetc%2fpasswd", "Style.css", "templates%2flayout.html"} {
			got := b.get("/static/" + path)
			if got.status != http.StatusNotFound && got.status != http.StatusSeeOther || strings.Contains(got.text, "package ") {
				t.Errorf("%s: answer %d: %.100s", path, got.status, got.text)
			}
		}
		file := b.get("/static/style.css").wants(t, http.StatusOK)
		if file.header.Get("Cache-Control") != "no-store" || !strings.HasPrefix(file.header.Get("Content-Type"), "text/css") {
			t.Errorf("the file has %v", file.header)
		}
		if kind := b.get("/static/dashboard.js").header.Get("Content-Type"); !strings.HasPrefix(kind, "text/javascript") {
			t.Errorf("the script is %s", kind)
		}
	}
}

// An id of . or .. has a page of its own, because browsers would take it out of the path.
func TestPathOfAnOddID(t *testing.T) {
	t.Parallel()
	for _, id := range append(append([]string{}, oddIDs...), poison...) {
		parsed, err := url.Parse("http://host/prefix" + dashboard.TaskPath(id))
		if err != nil {
			t.Fatalf("%q: %v", id, err)
		}
		if resolved := parsed.ResolveReference(&url.URL{}).EscapedPath(); !strings.HasPrefix(resolved, "/prefix/tasks/") ||
			strings.Count(resolved, "/") != 3 || parsed.RawQuery != "" || parsed.Fragment != "" {
			t.Errorf("%q is at %s", id, resolved)
		}
	}
}

// Pages have links with their own address, so an address of a megabyte would make a page of many.
func TestAddressesAreBounded(t *testing.T) {
	t.Parallel()
	b := newAdmin(t)
	for length, status := range map[int]int{12 << 10: http.StatusOK, 17 << 10: http.StatusRequestURITooLong,
		900 << 10: http.StatusRequestURITooLong} {
		for _, path := range []string{"/changes?x=", "/tasks?message=&x=", "/live?page=/nowhere%3F"} {
			if strings.HasPrefix(path, "/live") && status == http.StatusOK {
				continue // its stream has no end
			}
			b.get(path+strings.Repeat("x", length)).wants(t, status)
		}
	}
}

// slowForm is the body of a form that arrives after something has happened.
type slowForm struct {
	io.Reader
	before func()
}

func (s slowForm) Read(into []byte) (int, error) {
	s.before()
	return s.Reader.Read(into)
}

// Who has signed in may send the beginning of a form, and its end after the key was revoked.
func TestKeyRevokedWhileAFormArrives(t *testing.T) {
	t.Parallel()
	b := newBoard(t)
	all := keys.New(keys.Config{})
	secret := b.newKey("ann", keys.Scopes()...)
	token, _, err := all.OpenSession(t.Context(), b.pool, secret, time.Hour, time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	form := slowForm{strings.NewReader("name=new&scope=read"), func() {
		b.exec(`UPDATE tasktable.api_keys SET revoked_at = clock_timestamp(), revoked_by = 'bob'
		WHERE name = 'ann' AND revoked_at IS NULL`)
	}}
	request := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/keys/new", form)
	request.Header.Set("Content-Type", formType)
	request.Header.Set("Cookie", "tasktable_session="+token)
	answer := httptest.NewRecorder()
	b.made.Handler().ServeHTTP(answer, request)
	if answer.Code != http.StatusUnauthorized || strings.Contains(answer.Body.String(), "tt_") {
		t.Errorf("answer %d: %s", answer.Code, answer.Body)
	}
	if found, err := all.List(t.Context(), b.pool, false); err != nil || len(found) != 0 {
		t.Errorf("keys %v, %v", found, err)
	}
}
