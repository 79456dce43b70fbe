package keys_test

import (
	"strings"
	"testing"
	"time"

	"github.com/tasktable/tasktable/scheduled/api/keys"
)

func TestSessions(t *testing.T) {
	t.Parallel()
	ctx := deadline(t)
	w := newWithRoles(ctx, t)
	secrets := map[string]string{}
	open := func(name string) (token string) {
		t.Helper()
		token, key, err := w.keys.OpenSession(ctx, w.engine, secrets[name], time.Hour)
		check(t, err)
		found, err := w.keys.BySession(ctx, w.engine, token)
		check(t, err)
		if key.Name != name || found.Name != name || !found.Allows(keys.Read) || token == secrets[name] {
			t.Fatalf("%s: got %v and %v", name, key, found)
		}
		return token
	}
	ends := map[string]func(token string){
		"signed out": func(token string) { check(t, w.keys.CloseSession(ctx, w.engine, token)) },
		"revoked": func(string) {
			_, err := w.keys.Revoke(ctx, w.engine, "revoked", "")
			check(t, err)
		},
		"key expired": func(string) {
			apply(ctx, t, w.admin, `UPDATE tasktable.api_keys SET created_at = created_at - interval '2 days',
				expires_at = now() - interval '1 day' WHERE name = 'key.expired'`)
		},
		"expired": func(string) {
			apply(ctx, t, w.admin, `UPDATE tasktable.api_sessions SET created_at = created_at - interval '2 hours',
				expires_at = expires_at - interval '2 hours'
				WHERE key_number = (SELECT number FROM tasktable.api_keys WHERE name = 'expired')`)
		},
	}
	for ended, end := range ends {
		name := strings.ReplaceAll(ended, " ", ".")
		secret, _, err := w.keys.Create(ctx, w.engine, reader(name))
		check(t, err)
		secrets[name] = secret
		token := open(name)
		end(token)
		_, err = w.keys.BySession(ctx, w.engine, token)
		fails(t, err, keys.ErrNoSession, "find a session")
	}
	_, _, err := w.keys.OpenSession(ctx, w.engine, secrets["revoked"], time.Hour)
	fails(t, err, keys.ErrRevoked, "")
	for _, unknown := range []string{"", "x", secrets["signed.out"], "tt_" + strings.Repeat("A", 43)} {
		_, err := w.keys.BySession(ctx, w.engine, unknown)
		fails(t, err, keys.ErrNoSession, "")
	}
	// The next sign-in removes sessions that have expired. Neither a token nor a key is stored.
	token := open("signed.out")
	rows, err := w.admin.Query(ctx, `SELECT s::text FROM tasktable.api_sessions AS s`)
	check(t, err)
	defer rows.Close()
	left := 0
	for rows.Next() {
		var text string
		check(t, rows.Scan(&text))
		if left++; strings.Contains(text, token[3:]) {
			t.Errorf("stored: %s", text)
		}
	}
	if check(t, rows.Err()); left != 3 { // this one, and those of the keys that were revoked and have expired
		t.Errorf("%d sessions are left", left)
	}
}
