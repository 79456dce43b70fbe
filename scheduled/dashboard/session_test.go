package dashboard_test

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"strings"
	"testing"

	"github.com/tasktable/tasktable/scheduled/api/keys"
	"github.com/tasktable/tasktable/scheduled/dashboard"
)

// outside are addresses that must not be led to.
var outside = []string{"//evil.example", "///evil.example", `/\evil.example`, `\\evil.example`, "https://evil.example", "https:evil.example",
	"javascript:alert(1)", "/\t/evil.example", "/\n/evil.example", "/\r/evil.example", "\t//evil.example", " //evil.example", "evil.example",
	"/\x0b/evil.example", "/\x00/evil.example", "/\x7f/evil.example", "/x\r\nSet-Cookie: a=b", "@evil.example", ".evil.example", "", "?x",
	"/\xff", "/a\\..\\evil.example", "/../evil", "/../../evil?x=1", "/tasks/../../evil", "/./x", "/..", "/x//y"}

func TestNothingLeadsToAnotherSite(t *testing.T) {
	t.Parallel()
	for _, prefix := range []string{"", "/admin/tasks"} {
		b := newAdmin(t, func(c *dashboard.Config) { c.Prefix = prefix }).noRedirects()
		secret := b.newKey("bob", keys.Read)
		for _, to := range outside {
			for path, form := range map[string]url.Values{
				"/sign-in": {"key": {secret}, "next": {to}}, "/look": {"zone": {"UTC"}, "back": {to}},
			} {
				got := b.send(http.MethodPost, path, form)
				if location := got.header.Get("Location"); location != prefix+"/" && got.status != http.StatusUnprocessableEntity {
					t.Errorf("%s to %q: answer %d, leads to %q", path, to, got.status, location)
				}
			}
			stranger := newBoardOn(b)
			got := stranger.get("/?next="+url.QueryEscape(to)).wants(t, http.StatusOK, "Sign in")
			if !strings.Contains(got.text, `name="next" value="/"`) {
				t.Errorf("the form for signing in has kept %q: %s", to, got.text)
			}
		}
		// A path that a mux would clean must not lead out of the prefix.
		for _, path := range []string{"//evil.example", "//evil.example/..", "/../evil", "/./x", "/x/../../evil", "/tasks//x", "/%2e%2e/x"} {
			request := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", nil)
			request.URL.Path, request.URL.RawPath, request.URL.Host = prefix+path, "", ""
			answer := httptest.NewRecorder()
			b.made.Handler().ServeHTTP(answer, request)
			if to := answer.Header().Get("Location"); to != "" && !strings.HasPrefix(to, prefix+"/?next=%2F") {
				t.Errorf("%s leads to %q", path, to)
			}
		}
		for path, to := range map[string]string{"/tasks?status=FAILED": "/tasks?status=FAILED", "/x%2F..": "/x%2F.."} {
			got := b.send(http.MethodPost, "/look", url.Values{"zone": {"UTC"}, "back": {path}})
			if got.header.Get("Location") != prefix+to {
				t.Errorf("%s leads to %q", path, got.header.Get("Location"))
			}
		}
	}
}

// newBoardOn is another browser on the same dashboard, without a session.
func newBoardOn(b *board) *board {
	other := *b
	other.client = &http.Client{Transport: b.client.Transport, CheckRedirect: b.client.CheckRedirect}
	return &other
}

func TestByHeaderBelievesTheProxyAlone(t *testing.T) {
	t.Parallel()
	authenticate := dashboard.ByHeader(dashboard.HeaderConfig{
		User: "X-Forwarded-User", Scopes: "X-Forwarded-Scopes",
		TrustedProxies: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("fd00::/8")},
	})
	long := strings.Repeat("x", 513)
	for _, one := range []struct {
		from   string
		users  []string
		scopes []string
		want   dashboard.Person
	}{
		{"10.1.2.3:1", []string{"ann"}, nil, dashboard.Person{Name: "ann", Scopes: dashboard.Read}},
		{"10.1.2.3:1", []string{"ann"}, []string{""}, dashboard.Person{Name: "ann", Scopes: dashboard.Read}},
		{"10.1.2.3:1", []string{"ann"}, []string{"read, admin"}, dashboard.Person{Name: "ann", Scopes: dashboard.Read | dashboard.Admin}},
		{"10.1.2.3:1", []string{"ann"}, []string{"admin,operate,schedule,read"}, dashboard.Person{Name: "ann", Scopes: dashboard.All}},
		{"[::ffff:10.1.2.3]:1", []string{"ann"}, nil, dashboard.Person{Name: "ann", Scopes: dashboard.Read}},
		{"[fd00::1%eth0]:1", []string{"Änn <b>"}, nil, dashboard.Person{Name: "Änn <b>", Scopes: dashboard.Read}},
		{from: "11.1.2.3:1", users: []string{"ann"}}, // no proxy
		{from: "127.0.0.1:1", users: []string{"ann"}, scopes: []string{"read,admin"}},
		{from: "@", users: []string{"ann"}}, // a socket
		{from: "", users: []string{"ann"}},
		{from: "10.1.2.3", users: []string{"ann"}}, // no port
		{from: "10.1.2.3:1"},
		{from: "10.1.2.3:1", users: []string{""}},
		{from: "10.1.2.3:1", users: []string{"ann", "admin"}}, // one is the browser's own
		{from: "10.1.2.3:1", users: []string{"", "ann"}},
		{from: "10.1.2.3:1", users: []string{"ann"}, scopes: []string{"read", "read,admin"}},
		{from: "10.1.2.3:1", users: []string{"ann"}, scopes: []string{"Read"}},
		{from: "10.1.2.3:1", users: []string{"ann"}, scopes: []string{"admin"}}, // without read
		{from: "10.1.2.3:1", users: []string{"ann"}, scopes: []string{"read,root"}},
		{from: "10.1.2.3:1", users: []string{"ann"}, scopes: []string{"read,"}},
		{from: "10.1.2.3:1", users: []string{"a\x00nn"}},
		{from: "10.1.2.3:1", users: []string{"a\nnn"}},
		{from: "10.1.2.3:1", users: []string{"a\xffnn"}},
		{from: "10.1.2.3:1", users: []string{long}},
	} {
		r := &http.Request{RemoteAddr: one.from, Header: http.Header{
			"X-Forwarded-User": one.users, "X-Forwarded-Scopes": one.scopes, "X-Forwarded-For": {"10.1.2.3"}, "X-Real-Ip": {"10.1.2.3"}}}
		got, err := authenticate(r)
		if got != one.want || (one.want.Name == "") != errors.Is(err, dashboard.ErrUnauthenticated) {
			t.Errorf("%q %q %q: %+v, %v", one.from, one.users, one.scopes, got, err)
		}
	}
	// Without the name of a header of scopes, a header does not give any.
	plain := dashboard.ByHeader(dashboard.HeaderConfig{User: "X-User", TrustedProxies: []netip.Prefix{netip.MustParsePrefix("::/0"),
		netip.MustParsePrefix("0.0.0.0/0")}})
	r := &http.Request{RemoteAddr: "1.2.3.4:1", Header: http.Header{"X-User": {"ann"}, "Scopes": {"read,admin"}, "": {"read,admin"}}}
	if got, err := plain(r); err != nil || got.Scopes != dashboard.Read {
		t.Errorf("%+v, %v", got, err)
	}
}

func TestSessionCookie(t *testing.T) {
	t.Parallel()
	for _, one := range []struct {
		prefix, proto string
		secure        bool
	}{{"", "", false}, {"/admin/tasks", "", false}, {"", "https", true}, {"/admin/tasks", "HTTPS", true}, {"", "http", false}} {
		b := newBoard(t, func(c *dashboard.Config) { c.Prefix = one.prefix }).noRedirects()
		secret := b.newKey("ann", keys.Scopes()...)
		prepared := "tt_" + strings.Repeat("A", 43) // the token is new, so that nobody can prepare that of somebody else
		got := b.send(http.MethodPost, "/sign-in", url.Values{"key": {" " + secret + "\n"}},
			"X-Forwarded-Proto", one.proto, "Cookie", "tasktable_session="+prepared)
		cookies := (&http.Response{Header: got.header}).Cookies()
		if len(cookies) != 1 {
			t.Fatalf("cookies %v", cookies)
		}
		c := cookies[0]
		if !c.HttpOnly || c.SameSite != http.SameSiteLaxMode || c.Secure != one.secure || c.Path != one.prefix+"/" ||
			c.Domain != "" || c.MaxAge != 12*3600 || strings.Contains(c.Value, secret) || strings.Contains(c.Value, prepared) {
			t.Errorf("%+v: the cookie is %s", one, c.Raw)
		}
		if strings.Contains(b.log.String(), secret) || strings.Contains(b.log.String(), c.Value) {
			t.Errorf("the log has a secret: %s", b.log)
		}
		// The session ends on the server, so that a copy of the cookie is worth nothing.
		with := []string{"Cookie", "tasktable_session=" + c.Value}
		b.send(http.MethodGet, "/keys", nil, with...).wants(t, http.StatusOK, "ann")
		b.send(http.MethodPost, "/sign-out", nil, with...).wants(t, http.StatusSeeOther)
		b.send(http.MethodGet, "/keys", nil, with...).wants(t, http.StatusSeeOther)
		for _, value := range []string{"", "x", secret, c.Value + "x", "tt_" + strings.Repeat("A", 43), "%00", strings.Repeat("x", 9000)} {
			b.send(http.MethodGet, "/keys", nil, "Cookie", "tasktable_session="+value).wants(t, http.StatusSeeOther)
		}
	}
}

// A key that is revoked, or that expires, ends the sessions that it has opened.
func TestSessionEndsWithItsKey(t *testing.T) {
	t.Parallel()
	b := newAdmin(t).noRedirects()
	b.get("/keys").wants(t, http.StatusOK)
	b.exec(`UPDATE tasktable.api_keys SET created_at = created_at - interval '1 hour', expires_at = clock_timestamp()`)
	b.get("/keys").wants(t, http.StatusSeeOther)
	b.exec(`UPDATE tasktable.api_keys SET expires_at = NULL`)
	b.get("/keys").wants(t, http.StatusOK)
	b.must(keys.New(keys.Config{}).Revoke(t.Context(), b.pool, "ann", "bob"))
	b.get("/keys").wants(t, http.StatusSeeOther)
	b.post("/keys/new", "name", "new", "scope", "read").wants(t, http.StatusUnauthorized).lacks(t, "tt_")
}

// Somebody who does nothing for the idle limit must sign in again. A page that is looked at moves the end on, at most
// once in five minutes.
func TestIdleSession(t *testing.T) {
	t.Parallel()
	b := newAdmin(t).noRedirects()
	session := func() (version string) {
		const sql = `SELECT ctid::text FROM tasktable.api_sessions`
		if err := b.pool.QueryRow(t.Context(), sql).Scan(&version); err != nil {
			t.Fatal(err)
		}
		return version
	}
	later := func(minutes int) {
		b.exec(`UPDATE tasktable.api_sessions SET created_at = created_at - make_interval(mins => $1),
			expires_at = expires_at - make_interval(mins => $1), ends_at = ends_at - make_interval(mins => $1)`, minutes)
	}
	for i, step := range []struct {
		later   int
		written bool
	}{{4, false}, {2, true}, {119, true}, {119, true}} {
		later(step.later)
		before := session()
		b.get("/keys").wants(t, http.StatusOK)
		b.get("/keys").wants(t, http.StatusOK)
		if written := session() != before; written != step.written {
			t.Errorf("step %d: the session was written: %v", i+1, written)
		}
	}
	later(125)
	b.get("/keys").wants(t, http.StatusSeeOther)
}

// A page is shown also if the use of its session cannot be noted.
func TestUseOfASessionThatCannotBeNoted(t *testing.T) {
	t.Parallel()
	b := newAdmin(t).noRedirects()
	b.exec(`UPDATE tasktable.api_sessions SET expires_at = expires_at - interval '10 minutes'`)
	b.exec(`CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE 'disk full'; END $$;
		CREATE TRIGGER refuse BEFORE UPDATE ON tasktable.api_sessions FOR EACH ROW EXECUTE FUNCTION refuse()`)
	b.get("/keys").wants(t, http.StatusOK)
	if log := b.log.String(); !strings.Contains(log, "could not be noted") || !strings.Contains(log, "disk full") {
		t.Errorf("the log is %s", log)
	}
}
