package keys_test

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	_ "github.com/jackc/pgx/v5/stdlib" // the driver pgx of database/sql

	"github.com/tasktable/tasktable/migrations"
	"github.com/tasktable/tasktable/scheduled/api/keys"
	"github.com/tasktable/tasktable/store"
	"github.com/tasktable/tasktable/store/storetest"
)

func TestAKeyIsCreatedListedAndRevoked(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	pool := storetest.Pool(t)
	all := keys.New(keys.Config{})
	secret, key, err := all.Create(ctx, pool, keys.NewKey{
		Name: "Ci.build_1-x", Scopes: []keys.Scope{keys.Operate, keys.Read, keys.Read}, Service: "builds", Rate: 100,
		ExpiresIn: 90 * 24 * time.Hour, By: "ann",
	})
	check(t, err)
	if !regexp.MustCompile(`^tt_[A-Za-z0-9_-]{43}$`).MatchString(secret) || !strings.HasPrefix(secret, key.Prefix) ||
		len(key.Prefix) != 8 {
		t.Errorf("the secret is %q, its prefix %q", secret, key.Prefix)
	}
	if key.Name != "Ci.build_1-x" || key.Service != "builds" || key.Rate != 100 || key.TenantID != "" ||
		key.CreatedBy != "ann" || key.ExpiresAt == nil ||
		key.ExpiresAt.Sub(key.CreatedAt).Round(time.Hour) != 2160*time.Hour {
		t.Errorf("got %+v", key)
	}
	if !key.Allows(keys.Read) || !key.Allows(keys.Operate) || key.Allows(keys.Schedule) || len(key.Scopes) != 2 {
		t.Errorf("scopes %v", key.Scopes)
	}
	var stored string
	check(t, pool.QueryRow(ctx, `SELECT k::text FROM tasktable.api_keys AS k`).Scan(&stored))
	if strings.Contains(stored, secret[8:]) {
		t.Errorf("the table has the secret: %s", stored)
	}
	hash := sha256.Sum256([]byte(secret))
	var hashes int
	check(t, pool.QueryRow(ctx, `SELECT count(*) FROM tasktable.api_keys WHERE secret_hash = $1`, hash[:]).
		Scan(&hashes))
	if hashes != 1 {
		t.Error("the table has another hash")
	}

	_, plain, err := all.Create(ctx, pool, reader("b"))
	check(t, err)
	if plain.Service != plain.Name || plain.Rate != 0 || plain.ExpiresAt != nil || plain.CreatedBy == "" {
		t.Errorf("got %+v", plain)
	}
	revoked, err := all.Revoke(ctx, pool, "b", "bob")
	check(t, err)
	if revoked.Number != plain.Number || revoked.RevokedAt == nil || *revoked.RevokedBy != "bob" {
		t.Errorf("got %+v", revoked)
	}
	_, err = all.Revoke(ctx, pool, "b", "")
	fails(t, err, keys.ErrUnknownKey, `revoke key "b"`)
	_, err = all.Revoke(ctx, pool, "a\x00b", "")
	fails(t, err, keys.ErrUnknownKey, "")
	_, _, err = all.Create(ctx, pool, reader("b")) // its name is free again
	check(t, err)
	same(t, names(ctx, t, all, pool, false), "Ci.build_1-x b")
	same(t, names(ctx, t, all, pool, true), "Ci.build_1-x b b")
}

func TestAKeyIsBoundToTypesAndQueues(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	pool := storetest.Pool(t)
	all := keys.New(keys.Config{})
	wanted := reader("a")
	wanted.Types, wanted.Queues = []string{"LOG", "EXEC:backup"}, []string{"mail"}
	secret, _, err := all.Create(ctx, pool, wanted)
	check(t, err)
	found, err := all.Authenticate(ctx, pool, secret)
	check(t, err)
	same(t, strings.Join(found.Types, " ")+", "+strings.Join(found.Queues, " "), "LOG EXEC:backup, mail")
	for rule, change := range map[string]func(*keys.NewKey){
		"type must be":                  func(k *keys.NewKey) { k.Types = []string{"LOG,EXEC"} },
		"queue must be":                 func(k *keys.NewKey) { k.Queues = []string{"E-Mail"} },
		"types and queues must be at":   func(k *keys.NewKey) { k.Types = slices.Repeat([]string{"LOG"}, 101) },
		"types and queues must have no": func(k *keys.NewKey) { k.Types = []string{""} }, // it would mean each type
		"must have no empty name":       func(k *keys.NewKey) { k.Queues = []string{"mail", ""} },
		"tenant_id must not be blank":   func(k *keys.NewKey) { k.TenantID = " " },
		"types and queues must be empty": func(k *keys.NewKey) { // it could make a key that is not bound
			k.Scopes = append(k.Scopes, keys.Admin)
		},
	} {
		broken := wanted
		change(&broken)
		fails(t, broken.Check(), store.ErrInvalid, rule)
	}
}

func names(ctx context.Context, t *testing.T, all *keys.Keys, db store.DB, revoked bool) string {
	t.Helper()
	list, err := all.List(ctx, db, revoked)
	check(t, err)
	var found []string
	for _, key := range list {
		found = append(found, key.String())
	}
	return strings.Join(found, " ")
}

func same(t *testing.T, got, want string) {
	t.Helper()
	if got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// A bad key changes nothing, and leaves the caller's transaction as it was.
func TestBadKeys(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	pool := storetest.Pool(t)
	all := keys.New(keys.Config{})
	_, _, err := all.Create(ctx, pool, reader("taken"))
	check(t, err)
	read, long, tooLong := []keys.Scope{keys.Read}, strings.Repeat("x", 513), keys.MaxExpiresIn+1
	check(t, pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
		for want, key := range map[string]keys.NewKey{
			"name must be 1 to 63 letters":                  {Scopes: read},
			"name must be 1 to 63":                          {Name: strings.Repeat("x", 64), Scopes: read},
			"name must be":                                  {Name: "a b", Scopes: read},
			`name must be that of no other key`:             {Name: "taken", Scopes: read},
			"scopes must be one or more of read, schedule":  {Name: "a"},
			`admin, got "write"`:                            {Name: "a", Scopes: []keys.Scope{keys.Read, "write"}},
			"service must be at most 512 bytes":             {Name: "a", Scopes: read, Service: long},
			"tenant_id must be at most":                     {Name: "a", Scopes: read, TenantID: "a\nb"},
			"by must be at most 512 bytes of UTF-8 without": {Name: "a", Scopes: read, By: "\xff"},
			"rate must be 0 to 1000000 calls a second":      {Name: "a", Scopes: read, Rate: -1},
			"rate must be 0 to":                             {Name: "a", Scopes: read, Rate: keys.MaxRate + 1},
			"expires_in must be 0 or from 1s":               {Name: "a", Scopes: read, ExpiresIn: -time.Second},
			"expires_in must be 0 or from 1s to":            {Name: "a", Scopes: read, ExpiresIn: tooLong},
		} {
			secret, _, err := all.Create(ctx, tx, key)
			fails(t, err, store.ErrInvalid, want)
			if secret != "" {
				t.Errorf("%s: a secret", want)
			}
		}
		return nil
	}))
	same(t, names(ctx, t, all, pool, true), "taken")
	for _, config := range []keys.Config{{TenantRole: "none"}, {TenantRole: `a"b`}, {TenantRole: "public"}} {
		bad := keys.New(config)
		_, err := bad.List(ctx, pool, true)
		fails(t, err, store.ErrInvalid, "tenant role must be")
		_, _, err = bad.Create(ctx, pool, reader("a"))
		fails(t, err, store.ErrInvalid, "tenant role must be")
		_, err = bad.Revoke(ctx, pool, "taken", "")
		fails(t, err, store.ErrInvalid, "tenant role must be")
		_, err = bad.Authenticate(ctx, pool, "")
		fails(t, err, store.ErrInvalid, "tenant role must be")
	}
}

// The table refuses by itself what Go would have refused.
func TestBadRowsCannotExist(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	pool := storetest.Pool(t)
	const insert = `INSERT INTO tasktable.api_keys (name, prefix, secret_hash, scopes, service, rate,
		expires_at, revoked_at)
		VALUES (coalesce($1::jsonb ->> 'name', 'a'), 'tt_',
		decode(coalesce($1::jsonb ->> 'hash', repeat('00', 32)), 'hex'),
		coalesce($1::jsonb ->> 'scopes', '{read}')::text[], coalesce($1::jsonb ->> 'service', 'api'),
		($1::jsonb ->> 'rate')::int, ($1::jsonb ->> 'expires')::timestamptz, ($1::jsonb ->> 'revoked')::timestamptz)`
	for want, row := range map[string]string{
		"name must be 1 to 63 letters":      `{"name": "a b"}`,
		"secret_hash must be 32 bytes":      `{"hash": "00"}`,
		"scopes must be one or more of":     `{"scopes": "{}"}`,
		"scopes must be one or more":        `{"scopes": "{read,write}"}`,
		"scopes must be one":                `{"scopes": "{read,NULL}"}`,
		"scheduled_by must be 1 to":         `{"service": ""}`,
		"rate must be over 0":               `{"rate": 0}`,
		"expires_at must be after":          `{"expires": "2020-01-01Z"}`,
		"revoked_at and revoked_by are set": `{"revoked": "2030-01-01Z"}`,
	} {
		if _, err := pool.Exec(ctx, insert, row); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %s", row, err, want)
		}
	}
	apply(ctx, t, pool, insert, `{}`)
	if _, err := pool.Exec(ctx, insert, `{"name": "b"}`); err == nil || !strings.Contains(err.Error(), "secret_hash") {
		t.Errorf("one hash twice: %v", err)
	}
}

func TestKeysOfAnotherSchemaAndDriver(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	url := storetest.EmptyURL(t)
	pool, err := pgxpool.New(ctx, url)
	check(t, err)
	defer pool.Close()
	check(t, migrations.Up(ctx, pool, "jobs"))
	schema, err := store.NewSchema("jobs")
	check(t, err)
	db, err := sql.Open("pgx", url)
	check(t, err)
	defer func() { _ = db.Close() }()
	jobs := keys.New(keys.Config{Schema: schema})
	secret, made, err := jobs.Create(ctx, store.SQL(db), reader("a"))
	check(t, err)
	found, err := jobs.Authenticate(ctx, store.SQL(db), secret)
	if err != nil || found.Number != made.Number || found.Scopes[0] != keys.Read {
		t.Errorf("got %+v, %v", found, err)
	}
	_, err = jobs.Revoke(ctx, store.SQL(db), "a", "")
	check(t, err)
	_, _, err = jobs.Create(ctx, pool, keys.NewKey{Name: "b", Scopes: []keys.Scope{keys.Read}, TenantID: "acme"})
	fails(t, err, keys.ErrNoTenantRole, `"jobs_tenant"`)
}
