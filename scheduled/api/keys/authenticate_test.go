package keys_test

import (
	"strings"
	"testing"
	"time"

	"github.com/tasktable/tasktable/scheduled/api/keys"
	"github.com/tasktable/tasktable/store/storetest"
)

func TestAuthenticate(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	pool := storetest.Pool(t)
	all := keys.New(keys.Config{})
	expiring := reader("a")
	expiring.ExpiresIn = time.Hour
	secret, made, err := all.Create(ctx, pool, expiring)
	check(t, err)
	other, _, err := all.Create(ctx, pool, reader("b"))
	check(t, err)
	found, err := all.Authenticate(ctx, pool, secret)
	if err != nil || found.Number != made.Number || !found.Allows(keys.Read) {
		t.Errorf("got %+v, %v", found, err)
	}
	for _, unknown := range []string{
		"", "tt_", secret[:45], secret + "A", strings.ToLower(secret) + "x", "TT_" + secret[3:],
		"tt_" + strings.Repeat("A", 43), "tt_" + strings.Repeat("=", 43), made.Prefix,
		"tt_" + strings.Repeat("\x00", 43),
	} {
		_, err := all.Authenticate(ctx, pool, unknown)
		fails(t, err, keys.ErrUnknownKey, "authenticate: no such key")
		if !keys.IsRefusal(err) {
			t.Errorf("%q: no refusal", unknown)
		}
	}
	// An error never has the secret in it, and the key tells the log which it was.
	_, err = all.Revoke(ctx, pool, "b", "")
	check(t, err)
	apply(ctx, t, pool, `UPDATE tasktable.api_keys SET created_at = created_at - interval '2 hours',
		expires_at = expires_at - interval '2 hours' WHERE name = 'a'`)
	for given, want := range map[string]error{secret: keys.ErrExpired, other: keys.ErrRevoked} {
		key, err := all.Authenticate(ctx, pool, given)
		fails(t, err, want, "authenticate "+key.Name)
		if key.Number == 0 || strings.Contains(err.Error(), given[3:]) || !keys.IsRefusal(err) {
			t.Errorf("got %+v, %v", key, err)
		}
	}
	apply(ctx, t, pool, `DROP TABLE tasktable.api_keys CASCADE`)
	if _, err := all.Authenticate(ctx, pool, secret); err == nil || keys.IsRefusal(err) ||
		strings.Contains(err.Error(), secret[3:]) {
		t.Errorf("without the table: %v", err)
	}
}
