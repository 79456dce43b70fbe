package dashboard_test

import (
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/tasktable/tasktable/scheduled/api/keys"
	"github.com/tasktable/tasktable/scheduled/dashboard"
)

func (b *board) keys() map[string]keys.Key {
	b.Helper()
	found, err := keys.New(keys.Config{}).List(b.Context(), b.pool, true)
	if err != nil {
		b.Fatal(err)
	}
	named := map[string]keys.Key{}
	for _, key := range found {
		named[key.Name] = key
	}
	return named
}

var secretText = regexp.MustCompile(`tt_[A-Za-z0-9_-]{43}`)

func TestKeyIsCreatedAndShownOnce(t *testing.T) {
	t.Parallel()
	for _, prefix := range []string{"", "/admin/tasks"} {
		b := newAdmin(t, func(c *dashboard.Config) { c.Prefix = prefix })
		b.get("/keys").wants(t, http.StatusOK, "ann", "read, schedule, operate, admin", `action="`+prefix+`/keys/revoke"`)
		b.get("/keys/new").wants(t, http.StatusOK, `action="`+prefix+`/keys/new"`)
		got := b.post("/keys/new", "name", "ci", "scope", "operate", "scope", "read", "service", `<i>shop`, "rate", "20",
			"expires_in", "1w2d").wants(t, http.StatusOK, "The key ci is created", "&lt;i&gt;shop")
		secret := secretText.FindString(got.text)
		key, err := keys.New(keys.Config{}).Authenticate(t.Context(), b.pool, secret)
		if err != nil || key.Name != "ci" || key.CreatedBy != "ann" || key.Rate != 20 || key.Service != "<i>shop" ||
			!key.Allows(keys.Read) || !key.Allows(keys.Operate) || len(key.Scopes) != 2 {
			t.Fatalf("created %+v: %v", key, err)
		}
		if left := key.ExpiresAt.Sub(key.CreatedAt).Hours(); left < 9*24-1 || left > 9*24+1 {
			t.Errorf("expires after %v hours", left)
		}
		if got.header.Get("Cache-Control") != "no-store" || got.header.Values("Set-Cookie") != nil ||
			strings.Contains(got.text, "data-live") || strings.Contains(got.path, secret) {
			t.Errorf("the secret is in %s, %v", got.path, got.header)
		}
		if log := b.log.String(); strings.Contains(log, secret) || !strings.Contains(log, "by=ann path=/keys/new") {
			t.Errorf("the log is %s", log)
		}
		b.get("/keys").wants(t, http.StatusOK, "ci", secret[:8]).lacks(t, secret, secret[:9])
	}
}

func TestBadKeyIsNamedByItsField(t *testing.T) {
	t.Parallel()
	b := newAdmin(t)
	good := map[string]string{"name": "ci", "scope": "read", "tenant": "", "rate": "", "expires_in": "", "service": ""}
	for _, one := range []struct{ field, value, want string }{
		{"name", "", `id="name-error">name must be 1 to 63 letters`},
		{"name", "a b", `id="name-error">name must be 1 to 63 letters`},
		{"name", "ann", `id="name-error">name must be that of no other key`},
		{"scope", "root", `id="scope-error">scopes must be one or more of`},
		{"rate", "-1", `id="rate-error">rate must be a number`},
		{"rate", "0", `id="rate-error">rate must be a number`},
		{"rate", "1000001", `id="rate-error">rate must be 0 to 1000000`},
		{"expires_in", "soon", `id="expires_in-error">expires in must be between`},
		{"expires_in", "101w99999d", `id="expires_in-error">expires in must be between`},
		{"expires_in", "0s", `id="expires_in-error">expires in must be between`},
		{"service", strings.Repeat("x", 600), `id="service-error">service must be at most 512 bytes`},
		{"tenant", strings.Repeat("x", 600), `id="tenant-error">tenant_id must be at most 512 bytes`},
		{"tenant", "acme", `id="tenant-error">Create key ci: the role of tenants cannot be taken`},
	} {
		var fields []string
		for name, value := range good {
			if name == one.field {
				value = one.value
			}
			fields = append(fields, name, value)
		}
		b.post("/keys/new", fields...).wants(t, http.StatusUnprocessableEntity, one.want, "New key").lacks(t, "tt_")
	}
	if found := b.keys(); len(found) != 1 {
		t.Errorf("keys: %v", found)
	}
	b.post("/keys/new", "name", "ci").wants(t, http.StatusUnprocessableEntity, "got none", `value="ci"`)
}

func TestKeyIsRevokedAfterAQuestion(t *testing.T) {
	t.Parallel()
	b := newAdmin(t)
	create := func(name string, scopes ...keys.Scope) string {
		b.newKey(name, scopes...)
		return strconv.FormatInt(b.keys()[name].Number, 10)
	}
	number := create("ci", keys.Read)
	b.post("/keys/revoke", "number", number).wants(t, http.StatusOK, "Revoke the key ci?", "data-still").
		lacks(t, "You are signed in", "last valid key")
	if b.keys()["ci"].RevokedAt != nil {
		t.Fatal("revoked without a question")
	}
	b.post("/keys/revoke", "number", number, "confirmed", "1").wants(t, http.StatusOK, "The key ci is revoked").
		lacks(t, `data-key="`+number+`"`)
	if by := b.keys()["ci"].RevokedBy; by == nil || *by != "ann" {
		t.Errorf("revoked by %v", by)
	}
	b.get("/keys?revoked=1").wants(t, http.StatusOK, `data-key="`+number+`"`, "by ann")
	// Another key has the name now. The form is about the former one.
	create("ci", keys.Read)
	b.post("/keys/revoke", "number", number, "confirmed", "1").wants(t, http.StatusConflict, "revoked already, by ann")
	if b.keys()["ci"].RevokedAt != nil {
		t.Error("the other key of the name is revoked")
	}
	b.post("/keys/revoke", "number", "x").wants(t, http.StatusNotFound, "no such key")

	own := strconv.FormatInt(b.keys()["ann"].Number, 10)
	b.post("/keys/revoke", "number", own).wants(t, http.StatusOK, "You are signed in by this key", "last valid key")
	create("bob", keys.Read, keys.Admin)
	b.post("/keys/revoke", "number", own).wants(t, http.StatusOK, "You are signed in by this key").lacks(t, "last valid")
	b.post("/keys/revoke", "number", own, "confirmed", "1").wants(t, http.StatusOK, "Sign in").lacks(t, "bob")
}
