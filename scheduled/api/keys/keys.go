package keys

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/tasktable/tasktable/scheduled/internal/pg"
	"github.com/tasktable/tasktable/store"
)

var (
	// ErrUnknownKey is wrapped by the error about a secret or a name that no key has.
	ErrUnknownKey = errors.New("no such key")
	// ErrNoTenantRole is wrapped by the error of Create and of Enter for a key of a tenant, if the role of tenants does
	// not exist, has no rights, or must not be taken by the role that has logged in.
	ErrNoTenantRole = errors.New("the role of tenants cannot be taken")
)

// Config configures Keys. The zero value works.
type Config struct {
	// Schema is the schema of the tables. The zero value is the default schema, tasktable.
	Schema store.Schema
	// TenantRole is the database role of calls whose key belongs to a tenant, as given to "migrate roles
	// --tenant-role". Default (""): the schema's name and _tenant.
	TenantRole string
}

// Keys creates, lists, revokes and finds keys. It holds no connection. It is safe for concurrent use.
type Keys struct {
	schema     store.Schema
	tenantRole string
	err        error // each call returns it, so that New needs no error
}

// roleName is the rule of migrations.Roles. A role with the name none would take away no right.
var roleName = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9_.@-]{0,62}$`)

// New returns Keys. It does not report a malformed configuration. The first call does.
func New(config Config) *Keys {
	k := &Keys{schema: config.Schema}
	if k.schema == (store.Schema{}) {
		k.schema, k.err = store.NewSchema("")
	}
	if k.tenantRole = config.TenantRole; k.tenantRole == "" {
		k.tenantRole = k.schema.String() + "_tenant"
	}
	if !roleName.MatchString(k.tenantRole) || k.tenantRole == "none" || k.tenantRole == "public" {
		k.err = invalid("tenant role must be 1 to 63 of letters, digits and _.@-, not beginning with .@-, and not "+
			"none or public, got %.100q", k.tenantRole)
	}
	return k
}

// columns are those of a row.
const columns = `number, name, prefix, array_to_string(scopes, ',') AS scopes, service,
    coalesce(tenant_id, '') AS tenant_id, coalesce(array_to_string(types, ','), '') AS types,
    coalesce(array_to_string(queues, ','), '') AS queues, coalesce(rate, 0) AS rate, created_at, created_by,
    expires_at, revoked_at,
    revoked_by, last_used_at`

// row is a Key as it is read. Its lists are texts, because every driver can scan text.
type row struct {
	Key
	Scopes, Types, Queues string
}

func (r row) key() Key {
	key := r.Key
	key.Types, key.Queues = listOf(r.Types), listOf(r.Queues)
	for scope := range strings.SplitSeq(r.Scopes, ",") {
		key.Scopes = append(key.Scopes, Scope(scope))
	}
	return key
}

// keys runs a statement that returns keys.
func (k *Keys) keys(ctx context.Context, db store.DB, doing, statement string, args ...any) ([]Key, error) {
	if k.err != nil {
		return nil, fmt.Errorf("%s: %w", doing, k.err)
	}
	rows, err := pg.CollectRows[row](ctx, db, doing, k.schema.SQL(statement), args...)
	if err != nil {
		return nil, err
	}
	keys := make([]Key, len(rows))
	for i, row := range rows {
		keys[i] = row.key()
	}
	return keys, nil
}

// exec runs a statement that returns the numbers of keys, which nobody needs.
func (k *Keys) exec(ctx context.Context, db store.DB, doing, statement string, args ...any) error {
	if k.err != nil {
		return fmt.Errorf("%s: %w", doing, k.err)
	}
	_, err := pg.CollectColumn[int64](ctx, db, doing, k.schema.SQL(statement), args...)
	return err
}

const createSQL = `
INSERT INTO tasktable.api_keys (name, prefix, secret_hash, scopes, service, tenant_id, rate, created_by, expires_at,
    types, queues)
VALUES ($1::text, $2::text, decode($3::text, 'hex'), string_to_array($4::text, ','), $5::text, nullif($6::text, ''),
    nullif($7::text::integer, 0), coalesce(nullif($8::text, ''), session_user), clock_timestamp() + $9::text::interval,
    string_to_array(nullif($10::text, ''), ','), string_to_array(nullif($11::text, ''), ','))
ON CONFLICT (name) WHERE revoked_at IS NULL DO NOTHING
RETURNING ` + columns

// Create creates a key. It returns the secret, which nobody can read again. The error wraps store.ErrInvalid for a bad
// field, and for a name that another key has. It wraps ErrNoTenantRole for a key of a tenant if the transactions of the
// role that has logged in could not be held to a tenant. Nothing is created then.
func (k *Keys) Create(ctx context.Context, db store.DB, key NewKey) (secret string, created Key, err error) {
	if k.err != nil {
		return "", Key{}, fmt.Errorf("create key: %w", k.err)
	}
	if key, err = key.complete(); err != nil {
		return "", Key{}, fmt.Errorf("create key: %w", err)
	}
	doing := "create key " + key.Name
	if key.TenantID != "" {
		if err := k.checkTenantRole(ctx, db); err != nil {
			return "", Key{}, fmt.Errorf("%s: %w", doing, err)
		}
	}
	scopes := make([]string, len(key.Scopes))
	for i, scope := range key.Scopes {
		scopes[i] = string(scope)
	}
	secret = newSecret()
	made, err := k.keys(ctx, db, doing, createSQL, key.Name, secret[:shownLength],
		hashOf(secret), strings.Join(scopes, ","), key.Service, key.TenantID, strconv.Itoa(key.Rate), key.By,
		intervalText(key.ExpiresIn), strings.Join(key.Types, ","), strings.Join(key.Queues, ","))
	if err != nil {
		return "", Key{}, err
	}
	if len(made) == 0 {
		return "", Key{}, fmt.Errorf("%s: %w", doing, invalid(
			"name must be that of no other key, unless that key is revoked, got %q", key.Name))
	}
	return secret, made[0], nil
}

const listSQL = `
SELECT ` + columns + ` FROM tasktable.api_keys
WHERE $1::text::boolean OR revoked_at IS NULL ORDER BY name, number`

// List returns the keys, sorted by name, and the older of one name first. Expired keys are among them. Revoked keys are
// only if asked for.
func (k *Keys) List(ctx context.Context, db store.DB, includeRevoked bool) ([]Key, error) {
	return k.keys(ctx, db, "list keys", listSQL, strconv.FormatBool(includeRevoked))
}

const revokeSQL = `
UPDATE tasktable.api_keys SET revoked_at = clock_timestamp(), revoked_by = coalesce(nullif($2::text, ''), session_user)
WHERE name = $1::text AND revoked_at IS NULL
RETURNING ` + columns

// Revoke revokes the key of a name. A node may accept the key for up to MaxStale more. by is the person or program that
// revokes, and "" means the database role. The error wraps ErrUnknownKey if no key has the name, or only revoked keys
// have it.
func (k *Keys) Revoke(ctx context.Context, db store.DB, name, by string) (Key, error) {
	doing := fmt.Sprintf("revoke key %.100q", name)
	if err := checkText("by", by); err != nil {
		return Key{}, fmt.Errorf("%s: %w", doing, err)
	}
	if !nameSyntax.MatchString(name) {
		return Key{}, fmt.Errorf("%s: %w", doing, ErrUnknownKey)
	}
	revoked, err := k.keys(ctx, db, doing, revokeSQL, name, by)
	if err != nil {
		return Key{}, err
	}
	if len(revoked) == 0 {
		return Key{}, fmt.Errorf("%s: %w", doing, ErrUnknownKey)
	}
	return revoked[0], nil
}

// listOf returns nil for "".
func listOf(text string) []string {
	if text == "" {
		return nil
	}
	return strings.Split(text, ",")
}

// intervalText returns a duration in a form that every Postgres can read, cut off to the second, and nil for 0.
func intervalText(d time.Duration) *string {
	if d == 0 {
		return nil
	}
	seconds := int64(d / time.Second)
	return new(fmt.Sprintf("%d:%02d:%02d", seconds/3600, seconds/60%60, seconds%60))
}
