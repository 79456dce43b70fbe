package cmd

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/tasktable/tasktable/migrations"
	"github.com/tasktable/tasktable/scheduled/api/keys"
	"github.com/tasktable/tasktable/store/storetest"
)

// someKeys are one that was used, one that has expired, and one that was revoked.
const someKeys = `
INSERT INTO tasktable.api_keys (name, prefix, secret_hash, scopes, service, tenant_id, rate, created_at, created_by,
	expires_at, revoked_at, revoked_by, last_used_at, types) VALUES
	('ci', 'tt_AAAAA', decode(repeat('01', 32), 'hex'), '{schedule}', 'api', NULL, 100, '2026-11-01 09:00Z', 'ann',
	'2027-01-30 09:00Z', NULL, NULL, '2026-11-21 17:59Z', '{LOG,EXEC:backup}'),
	('acme', 'tt_BBBBB', decode(repeat('02', 32), 'hex'), '{read,schedule}', 'shop', 'acme', NULL, '2026-10-01 09:00Z',
	'bob', '2026-11-21 12:00Z', NULL, NULL, NULL, NULL),
	('ci', 'tt_CCCCC', decode(repeat('03', 32), 'hex'), '{read,schedule,operate}', 'api', NULL, NULL,
	'2026-09-01 09:00Z', 'ann', NULL, '2026-11-01 08:00Z', 'ann', '2026-10-31 23:00Z', NULL);`

var withKeys = with(someKeys)

// tidyKey replaces the parts of an output that differ from key to key, and the times.
func tidyKey(text string) string {
	text = replaced(`tt_[A-Za-z0-9_-]{43}`, "tt_SECRET")(text)
	text = replaced(`"(created_at|expires_at|revoked_at)": "[^"]*"`, `"$1": "…"`)(text)
	return replaced(`"prefix": "tt_.{5}"`, `"prefix": "tt_XXXXX"`)(text)
}

func TestKeysAsTablesAndJSON(t *testing.T) {
	t.Parallel()
	goldenCommands(t, "keys", withKeys, asItIs, []goldenCommand{
		{"list", exitOK, []string{"keys", "list"}},
		{"list_all", exitOK, []string{"keys", "list", "--all"}},
	})
	goldenCommands(t, "keys", withKeys, tidyKey, []goldenCommand{
		{"create", exitOK, []string{"keys", "create", "new", "--scope=schedule", "--scope=read", "--rate=5",
			"--service=shop", "--expires-in=90d", "--type=LOG, EXEC:backup", "--type=HTTP_REQUEST", "--queue=mail"}},
		{"create_bad_type", exitUsage, []string{"keys", "create", "new", "--scope=read", "--type=a b"}},
		{"create_taken", exitUsage, []string{"keys", "create", "ci", "--scope=read"}},
		{"create_tenant_without_role", exitFailed, []string{"keys", "create", "new", "--scope=read", "--tenant=acme",
			"--tenant-role=no_such_role"}},
		{"revoke", exitOK, []string{"keys", "revoke", "ci"}},
		{"revoke_unknown", exitFailed, []string{"keys", "revoke", "nobody"}},
	})
	goldenCommands(t, "keys", func(t *testing.T) []string { return []string{"DATABASE_URL=" + storetest.URL(t)} },
		asItIs, []goldenCommand{{"list_none", exitOK, []string{"keys", "list"}}})
}

func TestAKeyIsOfUseUntilItIsRevoked(t *testing.T) {
	t.Parallel()
	url := storetest.URL(t)
	variables := []string{"DATABASE_URL=" + url}
	pool, err := pgxpool.New(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	all := keys.New(keys.Config{})
	created := runFixed(t, variables, "keys", "create", "ci", "--scope", "read,operate", "--expires-in", "1w2d")
	created.want(t, exitOK)
	secret, rest, _ := strings.Cut(created.stdout, "\n")
	key, err := all.Authenticate(t.Context(), pool, secret)
	if err != nil || rest != "" || key.CreatedBy != "tests" || key.Allows(keys.Schedule) || key.Service != "ci" ||
		key.ExpiresAt == nil || key.ExpiresAt.Sub(key.CreatedAt).Round(time.Hour) != 9*24*time.Hour {
		t.Errorf("got %+v, %v of %q", key, err, created.stdout)
	}
	if strings.Contains(created.stderr, secret) || !strings.Contains(created.stderr, "is not shown again") {
		t.Errorf("stderr: %s", created.stderr)
	}
	asJSON := runFixed(t, variables, "keys", "create", "json", "--scope", "read", "--output", "json")
	var document struct{ Key, Name string }
	if err := json.Unmarshal([]byte(asJSON.stdout), &document); err != nil || document.Name != "json" {
		t.Errorf("got %s, %v", asJSON.stdout, err)
	}
	if _, err := all.Authenticate(t.Context(), pool, document.Key); err != nil {
		t.Error(err)
	}
	for _, list := range []string{"table", "json"} {
		got := runFixed(t, variables, "keys", "list", "--all", "--output", list)
		if strings.Contains(got.stdout, secret[:9]) || !strings.Contains(got.stdout, secret[:8]) {
			t.Errorf("the list has another part of the secret: %s", got.stdout)
		}
	}
	completed := run(t, variables, "__complete", "keys", "revoke", "")
	if completed.stdout != "ci\njson\n:4\n" {
		t.Errorf("the shell completes %q", completed.stdout)
	}
	runFixed(t, variables, "keys", "revoke", "ci").want(t, exitOK)
	if _, err := all.Authenticate(t.Context(), pool, secret); !keys.IsRefusal(err) {
		t.Errorf("after it was revoked: %v", err)
	}
	execute(t, url, `SELECT 1 / count(*) FROM tasktable.api_keys WHERE name = 'ci' AND revoked_by = 'tests'`)
}

func TestAKeyOfATenant(t *testing.T) {
	t.Parallel()
	roles := migrations.Roles{Owner: storetest.Role(t), Engine: storetest.Role(t), Application: storetest.Role(t),
		Auditor: storetest.Role(t), Tenant: storetest.Role(t)}
	url := storetest.URL(t)
	var script strings.Builder
	if err := migrations.PrintRoles(&script, "", roles); err != nil {
		t.Fatal(err)
	}
	execute(t, url, script.String())
	runFixed(t, []string{"DATABASE_URL=" + url, "TASKTABLE_TENANT_ROLE=" + roles.Tenant}, "keys", "create", "acme",
		"--scope=read", "--tenant=acme").want(t, exitOK)
	execute(t, url, `SELECT 1 / count(*) FROM tasktable.api_keys WHERE name = 'acme' AND tenant_id = 'acme'`)
}
