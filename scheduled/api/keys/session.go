package keys

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/tasktable/tasktable/store"
)

// ErrNoSession is wrapped by BySession's error for a token that belongs to no session, or to one that has ended.
var ErrNoSession = errors.New("no such session")

const openSessionSQL = `
WITH expired AS (
    DELETE FROM tasktable.api_sessions AS s WHERE s.ctid = ANY (ARRAY(
        SELECT o.ctid FROM tasktable.api_sessions AS o WHERE o.expires_at < clock_timestamp()
        ORDER BY o.expires_at LIMIT 1000))
)
INSERT INTO tasktable.api_sessions (token_hash, key_number, expires_at)
VALUES (decode($1::text, 'hex'), $2::text::bigint, clock_timestamp() + $3::text::interval)
RETURNING key_number AS number`

// OpenSession signs the owner of a secret in. It returns a token that BySession knows until the lifetime is over, the
// key expires, somebody revokes the key, or CloseSession ends the session. Only the token's hash is stored. The errors
// are those of Authenticate. OpenSession also removes sessions that have expired.
func (k *Keys) OpenSession(
	ctx context.Context, db store.DB, secret string, lifetime time.Duration,
) (token string, key Key, err error) {
	key, err = k.Authenticate(ctx, db, secret)
	if err != nil {
		return "", key, err
	}
	token = newSecret()
	_, err = collect[struct{ Number int64 }](ctx, k.schema, db, openSessionSQL, hashOf(token), fmt.Sprint(key.Number),
		intervalText(lifetime))
	if err != nil {
		return "", key, fmt.Errorf("open a session of key %s: %w", key.Name, err)
	}
	return token, key, k.noteUse(ctx, db, key)
}

const bySessionSQL = `
SELECT ` + columns + ` FROM tasktable.api_keys
WHERE number = (SELECT s.key_number FROM tasktable.api_sessions AS s
        WHERE s.token_hash = decode($1::text, 'hex') AND s.expires_at > clock_timestamp())
    AND revoked_at IS NULL AND (expires_at <= clock_timestamp()) IS NOT TRUE`

// BySession returns the key of a session. The error wraps ErrNoSession if the token belongs to no session, if the
// session has ended, or if its key is no longer valid.
func (k *Keys) BySession(ctx context.Context, db store.DB, token string) (Key, error) {
	if k.err != nil {
		return Key{}, fmt.Errorf("find a session: %w", k.err)
	}
	if !isSecret(token) {
		return Key{}, fmt.Errorf("find a session: %w", ErrNoSession)
	}
	rows, err := collect[row](ctx, k.schema, db, bySessionSQL, hashOf(token))
	switch {
	case err != nil:
		return Key{}, fmt.Errorf("find a session: %w", err)
	case len(rows) == 0:
		return Key{}, fmt.Errorf("find a session: %w", ErrNoSession)
	}
	return k.key(rows[0]), nil
}

const closeSessionSQL = `
DELETE FROM tasktable.api_sessions WHERE token_hash = decode($1::text, 'hex') RETURNING key_number AS number`

// CloseSession signs a person out. From then on BySession does not know the token. It is no error if it did not before.
func (k *Keys) CloseSession(ctx context.Context, db store.DB, token string) error {
	if k.err != nil {
		return fmt.Errorf("close a session: %w", k.err)
	}
	_, err := collect[struct{ Number int64 }](ctx, k.schema, db, closeSessionSQL, hashOf(token))
	if err != nil {
		return fmt.Errorf("close a session: %w", err)
	}
	return nil
}
