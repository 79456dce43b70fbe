package keys_test

import (
	"strings"
	"testing"
	"time"

	"github.com/tasktable/tasktable/scheduled/api/keys"
)

func TestSessions(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	w := newWithRoles(ctx, t)
	secrets := map[string]string{}
	open := func(name string) (token string) {
		t.Helper()
		token, key, err := w.keys.OpenSession(ctx, w.engine, secrets[name], time.Hour, time.Hour)
		check(t, err)
		found, _, err := w.keys.BySession(ctx, w.engine, token)
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
		_, _, err = w.keys.BySession(ctx, w.engine, token)
		fails(t, err, keys.ErrNoSession, "find a session")
	}
	_, _, err := w.keys.OpenSession(ctx, w.engine, secrets["revoked"], time.Hour, time.Hour)
	fails(t, err, keys.ErrRevoked, "")
	for _, unknown := range []string{"", "x", secrets["signed.out"], "tt_" + strings.Repeat("A", 43)} {
		_, _, err := w.keys.BySession(ctx, w.engine, unknown)
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

// A session ends when it was not used for its idle limit, and however much it is used, after its lifetime. Its use is
// written at most once in five minutes.
func TestIdleSessions(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	w := newWithRoles(ctx, t)
	secret, _, err := w.keys.Create(ctx, w.engine, reader("ann"))
	check(t, err)
	const lifetime, idle = 3 * time.Hour, time.Hour
	token, _, err := w.keys.OpenSession(ctx, w.engine, secret, lifetime, idle)
	check(t, err)
	later := func(d time.Duration) {
		t.Helper()
		apply(ctx, t, w.admin, `UPDATE tasktable.api_sessions SET created_at = created_at - $1::interval,
			expires_at = expires_at - $1::interval, ends_at = ends_at - $1::interval`, d)
	}
	// use uses the session, and returns what is left of it in minutes.
	use := func(wantNoted bool) (left int) {
		t.Helper()
		key, noted, err := w.keys.BySession(ctx, w.engine, token)
		if check(t, err); key.Name != "ann" || noted != wantNoted {
			t.Errorf("the session of %s, noted: %v, want %v", key.Name, noted, wantNoted)
		}
		var before, after string
		const version = `SELECT ctid::text FROM tasktable.api_sessions`
		check(t, w.admin.QueryRow(ctx, version).Scan(&before))
		check(t, w.keys.NoteSession(ctx, w.engine, token))
		check(t, w.admin.QueryRow(ctx, version).Scan(&after))
		if written := before != after; written == wantNoted {
			t.Errorf("noted: %v, written: %v", wantNoted, written)
		}
		check(t, w.admin.QueryRow(ctx, `SELECT ceil(date_part('epoch', expires_at - clock_timestamp()) / 60)::int
			FROM tasktable.api_sessions`).Scan(&left))
		return left
	}
	for i, step := range []struct {
		later time.Duration
		noted bool
		left  int
	}{
		{0, true, 65},
		{4 * time.Minute, true, 61},
		{2 * time.Minute, false, 65},
		{59 * time.Minute, false, 65},
		{59 * time.Minute, false, 56}, // the lifetime ends in 56 minutes
		{50 * time.Minute, true, 6},
	} {
		later(step.later)
		if left := use(step.noted); left != step.left {
			t.Errorf("step %d: %d minutes are left, want %d", i+1, left, step.left)
		}
	}
	later(6 * time.Minute)
	_, _, err = w.keys.BySession(ctx, w.engine, token)
	fails(t, err, keys.ErrNoSession, "find a session")

	token, _, err = w.keys.OpenSession(ctx, w.engine, secret, lifetime, idle)
	check(t, err)
	later(idle + 5*time.Minute)
	_, _, err = w.keys.BySession(ctx, w.engine, token)
	fails(t, err, keys.ErrNoSession, "find a session")
	check(t, w.keys.NoteSession(ctx, w.engine, token)) // does not bring it back
	_, _, err = w.keys.BySession(ctx, w.engine, token)
	fails(t, err, keys.ErrNoSession, "find a session")
	if err := keys.New(keys.Config{TenantRole: "none"}).NoteSession(ctx, w.engine, token); err == nil {
		t.Error("a malformed configuration notes a session")
	}
}
