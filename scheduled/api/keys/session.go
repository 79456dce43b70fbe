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
INSERT INTO tasktable.api_sessions (token_hash, key_number, expires_at, ends_at, idle_limit)
SELECT decode($1::text, 'hex'), $2::text::bigint, least(clock.now + $3::text::interval,
    clock.now + $4::text::interval + interval '5 minutes'), clock.now + $3::text::interval, $4::text::interval
FROM (SELECT clock_timestamp() AS now) AS clock
RETURNING key_number AS number`

// OpenSession signs the owner of a secret in. It returns a token that BySession knows until the lifetime is over, the
// session was not used for idleLimit, the key expires, somebody revokes the key, or CloseSession ends the session. An
// idleLimit as long as the lifetime limits nothing. Only the token's hash is stored. The errors are those of
// Authenticate. OpenSession also removes sessions that have expired.
func (k *Keys) OpenSession(
	ctx context.Context, db store.DB, secret string, lifetime, idleLimit time.Duration,
) (token string, key Key, err error) {
	key, err = k.Authenticate(ctx, db, secret)
	if err != nil {
		return "", key, err
	}
	token = newSecret()
	err = k.exec(ctx, db, "open a session of key "+key.Name, openSessionSQL, hashOf(token), fmt.Sprint(key.Number),
		intervalText(lifetime), intervalText(idleLimit))
	if err != nil {
		return "", key, err
	}
	return token, key, k.noteUse(ctx, db, key)
}

const bySessionSQL = `
WITH session AS (
    SELECT s.key_number, s.expires_at >= least(s.ends_at, clock_timestamp() + s.idle_limit) AS noted
    FROM tasktable.api_sessions AS s
    WHERE s.token_hash = decode($1::text, 'hex') AND s.expires_at > clock_timestamp()
)
SELECT ` + columns + `, false AS expired, noted FROM tasktable.api_keys JOIN session ON key_number = number
WHERE revoked_at IS NULL AND (expires_at <= clock_timestamp()) IS NOT TRUE`

// BySession returns the key of a session. noted reports whether the use of the session is noted already. If not, the
// caller should call NoteSession. The error wraps ErrNoSession if the token belongs to no session, if the session has
// ended, or if its key is no longer valid.
func (k *Keys) BySession(ctx context.Context, db store.DB, token string) (key Key, noted bool, err error) {
	found, err := k.bySecret(ctx, db, "find a session", bySessionSQL, token, ErrNoSession)
	if err != nil {
		return Key{}, false, err
	}
	return found.key(), found.Noted, nil
}

// The five minutes are added, so that a use that was not written does not end the session too early.
const noteSessionSQL = `
UPDATE tasktable.api_sessions AS s
SET expires_at = least(s.ends_at, clock_timestamp() + s.idle_limit + interval '5 minutes')
WHERE s.token_hash = decode($1::text, 'hex') AND s.expires_at > clock_timestamp()
    AND s.expires_at < least(s.ends_at, clock_timestamp() + s.idle_limit)
RETURNING s.key_number AS number`

// NoteSession notes that a session is used, so that it lasts for its idle limit from now on, or five minutes longer. It
// writes at most once in five minutes. It is no error if the token belongs to no session.
func (k *Keys) NoteSession(ctx context.Context, db store.DB, token string) error {
	return k.exec(ctx, db, "note the use of a session", noteSessionSQL, hashOf(token))
}

const closeSessionSQL = `
DELETE FROM tasktable.api_sessions WHERE token_hash = decode($1::text, 'hex') RETURNING key_number AS number`

// CloseSession signs a person out. From then on BySession does not know the token. It is no error if it did not before.
func (k *Keys) CloseSession(ctx context.Context, db store.DB, token string) error {
	return k.exec(ctx, db, "close a session", closeSessionSQL, hashOf(token))
}
