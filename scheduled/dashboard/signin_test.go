package dashboard_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/tasktable/tasktable/scheduled/api/keys"
	"github.com/tasktable/tasktable/scheduled/dashboard"
)

func TestSignIn(t *testing.T) {
	t.Parallel()
	for _, prefix := range []string{"", "/admin/tasks"} {
		b := newBoard(t, func(c *dashboard.Config) { c.Prefix = prefix })
		b.get("/").wants(t, http.StatusOK, "Sign in", `action="`+prefix+`/sign-in"`).lacks(t, "Overview")
		if got := b.get("/tasks?status=FAILED"); got.path != prefix+"/?next=%2Ftasks%3Fstatus%3DFAILED" {
			t.Errorf("led to %s", got.path)
		}
		b.post("/sign-in", "key", "tt_wrong").wants(t, http.StatusUnauthorized, "The key is not valid.")
		b.signIn(keys.NewKey{Name: "ann", Scopes: []keys.Scope{keys.Read}})
		b.get("/").wants(t, http.StatusOK, "Overview", "ann").lacks(t, `/keys"`, `/notices"`)
		b.post("/sign-out").wants(t, http.StatusOK, "Sign in").lacks(t, "Overview")
	}
}

// A browser that has been signed in before gets a new token, so that nobody can prepare the token of somebody else.
func TestSessionFixation(t *testing.T) {
	t.Parallel()
	b := newBoard(t)
	prepared := "tt_" + strings.Repeat("A", 43)
	secret, _, err := keys.New(keys.Config{}).Create(t.Context(), b.pool,
		keys.NewKey{Name: "ann", Scopes: []keys.Scope{keys.Read}})
	if err != nil {
		t.Fatal(err)
	}
	b.client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	got := b.send(http.MethodPost, "/sign-in", map[string][]string{"key": {secret}}, "Cookie",
		"tasktable_session="+prepared, "Content-Type", "application/x-www-form-urlencoded")
	cookie := got.wants(t, http.StatusSeeOther).header.Get("Set-Cookie")
	if strings.Contains(cookie, prepared) || strings.Contains(cookie, secret) ||
		!strings.Contains(cookie, "HttpOnly") || !strings.Contains(cookie, "SameSite=Lax") {
		t.Errorf("the cookie is %s", cookie)
	}
}
