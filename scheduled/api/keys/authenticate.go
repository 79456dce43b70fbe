package keys

import (
	"context"
	"errors"
	"fmt"

	"github.com/tasktable/tasktable/scheduled/internal/pg"
	"github.com/tasktable/tasktable/store"
)

var (
	// ErrRevoked is wrapped by Authenticate's error for a key that somebody has revoked.
	ErrRevoked = errors.New("the key is revoked")
	// ErrExpired is wrapped by Authenticate's error for a key that has expired.
	ErrExpired = errors.New("the key has expired")
)

// IsRefusal reports whether an error of Authenticate says that the secret must be refused: it wraps ErrUnknownKey,
// ErrRevoked or ErrExpired. With any other error nothing is known about the secret.
func IsRefusal(err error) bool {
	return errors.Is(err, ErrUnknownKey) || errors.Is(err, ErrRevoked) || errors.Is(err, ErrExpired)
}

const findSQL = `
SELECT ` + columns + `, coalesce(expires_at <= clock_timestamp(), false) AS expired,
    coalesce(last_used_at > clock_timestamp() - interval '1 minute', false) AS noted
FROM tasktable.api_keys WHERE secret_hash = decode($1::text, 'hex')`

type foundRow struct {
	row
	Expired bool
	Noted   bool // whether the use is noted already
}

// Authenticate finds the key of a secret. The error wraps ErrUnknownKey, ErrRevoked or ErrExpired if the secret must be
// refused. With the last two the Key is set, so that a log can name it. Authenticate asks the database each time. An
// Authenticator remembers the answer.
func (k *Keys) Authenticate(ctx context.Context, db store.DB, secret string) (Key, error) {
	key, _, err := k.find(ctx, db, secret)
	return key, err
}

// find is Authenticate, and reports whether the last use of the key is noted already.
func (k *Keys) find(ctx context.Context, db store.DB, secret string) (key Key, noted bool, err error) {
	found, err := k.bySecret(ctx, db, "authenticate", findSQL, secret, ErrUnknownKey)
	if err != nil {
		return Key{}, false, err
	}
	key = found.key()
	switch {
	case key.RevokedAt != nil:
		return key, false, fmt.Errorf("authenticate %s: %w", key.Name, ErrRevoked)
	case found.Expired:
		return key, false, fmt.Errorf("authenticate %s: %w", key.Name, ErrExpired)
	}
	return key, found.Noted, nil
}

// bySecret runs a statement that finds a row by the hash of a secret. The error wraps unknown if there is none.
func (k *Keys) bySecret(
	ctx context.Context, db store.DB, doing, statement, secret string, unknown error,
) (found foundRow, err error) {
	if k.err != nil {
		return found, fmt.Errorf("%s: %w", doing, k.err)
	}
	if !isSecret(secret) {
		return found, fmt.Errorf("%s: %w", doing, unknown)
	}
	rows, err := pg.CollectRows[foundRow](ctx, db, doing, k.schema.SQL(statement), hashOf(secret))
	switch {
	case err != nil:
		return found, err
	case len(rows) == 0:
		return found, fmt.Errorf("%s: %w", doing, unknown)
	}
	return rows[0], nil
}

// noteUseSQL skips a locked row, so that no call waits for another node, or for an open transaction that revokes.
const noteUseSQL = `
UPDATE tasktable.api_keys SET last_used_at = clock_timestamp()
WHERE number = (SELECT k.number FROM tasktable.api_keys AS k
    WHERE k.number = $1::text::bigint
        AND (k.last_used_at > clock_timestamp() - interval '1 minute') IS NOT TRUE
    FOR UPDATE SKIP LOCKED)
RETURNING number`

// noteUse writes last_used_at, unless it is less than a minute old.
func (k *Keys) noteUse(ctx context.Context, db store.DB, key Key) error {
	return k.exec(ctx, db, "note the use of key "+key.Name, noteUseSQL, fmt.Sprint(key.Number))
}
